"""People who try again: they play a story during which anything may be down for a while.

Nobody here knows what was done to the cluster. After a lost answer they read what is there before they ask
again, as a person at a terminal does.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from cluster.kube.errors import ApiError, ClientError, Conflict, Forbidden, TooManyRequests
from cluster.kube.resources import BOOKINGS, PODS
from devcluster.demo.rest import RestAnswer
from devcluster.errors import ClusterError
from devcluster.wait import poll
from tests.e2e.persons import A100, Person
from tests.e2e.playground import Playground

V = TypeVar("V")
TROUBLES = (ApiError, ClusterError)
"""What API server, kubectl and booking server say, or do not say, while something is down."""
JUST_BEGUN = (" cannot create resource ", "not yet ready to handle request")


class Patience:
    """Waiting for what somebody may not be able to answer at the moment."""

    def __init__(self, ground: Playground, seconds: float) -> None:
        """Args: seconds: that each thing may take."""
        self._ground = ground
        self._seconds = seconds
        self._problem = "none"

    def until(self, what: str, condition: Callable[[], V | None]) -> V:
        """Wait until the condition gives something; who does not answer is asked again.

        Raises:
            AssertionError: it did not in time.
            LawBrokenError: a law was broken meanwhile; raised at once.
        """

        def ask() -> V | None:
            self._ground.laws.check()
            try:
                return condition()
            except TROUBLES as error:
                self._problem = str(error)
                return None

        found = poll(ask, seconds=self._seconds)
        if found is None:
            self._ground.await_that(f"{what} (the last trouble: {self._problem})", ask)
        assert found is not None, what
        return found


class Patient:
    """Somebody who wants something, and gets it in the end."""

    def __init__(self, person: Person, ground: Playground, patience: Patience) -> None:
        self._person = person
        self._ground = ground
        self._patience = patience

    def create(self, body: Mapping[str, Any]) -> None:
        """Create a pod: again and again while the API server, or a webhook that it asks, does not answer."""
        name = body["metadata"]["name"]

        def accepted() -> bool:
            try:
                self._person.create(body)
            except Conflict:
                return True  # it was created, and the answer got lost
            except TooManyRequests:
                return False
            except ClientError as error:
                if _has_just_begun(error):
                    return False
                raise AssertionError(f"{name} was refused: {error}") from error
            return True

        self._patience.until(f"{self._person.name} creates {name}", accepted)

    def replace(self, name: str, uid: str, body: Mapping[str, Any]) -> None:
        """Delete a pod that cannot begin, and create it again."""

        def gone() -> bool:
            pods = [pod for pod in self._ground.pods() if pod.metadata.uid == uid]
            if pods:
                self._person.kube.delete(PODS, name, namespace=self._ground.namespace, uid=uid)
            return not pods

        self._patience.until(f"{name}, which cannot begin, is deleted", gone)
        self.create(body)

    def book(self, count: int = 1, *, model: str = A100) -> str:
        """Book for a day; the id of the one booking that runs then. Its object is there."""

        def booked() -> str | None:
            running = [one["id"] for one in self._mine() if one["state"] == "active"]
            assert len(running) <= 1, f"{self._person.name} was given more than one booking: {running}"
            return running[0] if running else self._ask_for(model, count)

        booking = self._patience.until(f"{self._person.name} books", booked)
        self._patience.until(
            f"{booking} is in the cluster", lambda: self._ground.kube.get(BOOKINGS, booking).name
        )
        return booking

    def release(self, booking: str) -> None:
        """Give a running booking back, and see it ended."""

        def ended() -> bool:
            answer = _answered(self._person.rest.show(booking))
            if answer.body["state"] == "active":
                _answered(self._person.rest.release(booking))
            return answer.body["state"] == "ended"

        self._patience.until(f"{self._person.name} releases {booking}", ended)

    def release_all(self) -> None:
        """Give back whatever runs."""
        for one in self._patience.until("the bookings can be listed", lambda: self._mine() or [None]):
            if one is not None and one["state"] == "active":
                self.release(one["id"])

    def _mine(self) -> list[dict[str, Any]]:
        return list(_answered(self._person.rest.ask("GET", "/bookings")).body["bookings"])

    def _ask_for(self, model: str, count: int) -> str:
        answer = self._person.rest.book(model=model, count=count, duration="P1D", topology="any")
        return str(_answered(answer).body["id"])


def _has_just_begun(error: ClientError) -> bool:
    """Whether it is refused for want of what an API server reads at its start: it answers before it has.

    Without role bindings nobody may do anything, and its own admission is "not yet ready". Webhooks and
    policies refuse in other words.
    """
    return isinstance(error, Forbidden) and any(words in error.message for words in JUST_BEGUN)


def _answered(answer: RestAnswer) -> RestAnswer:
    """The answer; a refusal is trouble, which may pass."""
    if answer.is_refusal:
        raise ClusterError(f"the booking server answered {answer.status} {answer.body}")
    return answer
