"""A user who books GPUs by REST, uses them for a while, gives them back, and books again.

A call without an answer is made again; what is lost with a node is created again.
"""

import threading
from collections.abc import Callable
from typing import Final

from cluster.kube.errors import ApiError
from cluster.process.clock import SystemClock
from devcluster.errors import ClusterError
from tests.fakes.objects import A100
from tests.long.accounts import Account
from tests.long.churn.pod_set import Body, PodSet
from tests.long.churn.sight import Sight
from tests.long.fire.harm import share

EVERY: Final = 0.5
LONGEST_STAY: Final = 10.0
PATIENCE: Final = 40.0
"""Seconds after which somebody gives a booking back even though not every pod runs yet; some wait twice."""
BACK_WITHIN: Final = 10.0
"""Seconds in which pods may come back before their user tidies up."""


class Booked:
    """One of them, in a thread of its own."""

    def __init__(
        self,
        account: Account,
        sight: Sight,
        seed: str,
        count: int,
        *,
        body: Body,
    ) -> None:
        """Nothing is booked yet.

        Args:
            account: who they are.
            sight: of the pods of their namespace.
            seed: what everything is drawn from.
            count: GPUs that are booked, and pods that use them.
            body: a pod of this name with one of them.
        """
        self._account = account
        self._sight = sight
        self._seed = seed
        self._count = count
        self._clock = SystemClock()
        self._pods = PodSet(account, sight, [f"{account.name}-{number:02d}" for number in range(count)], body)
        self.served = 0
        """Times that every pod has run at once."""
        self.problem = ""
        """What was said last by somebody who did not do as asked."""

    def run(self, leaves: threading.Event, stop: threading.Event) -> None:
        """Come and go until ``leaves`` is set; then stay, and see to it that every pod is there."""
        while not stop.is_set():
            self._stay(leaves, stop)
            if not stop.is_set():
                self._leave(stop)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the pods."""
        return self._pods.names

    @property
    def created(self) -> int:
        """Pods that were created."""
        return self._pods.created

    def is_served(self) -> bool:
        """Whether every pod runs with a GPU."""
        return self._pods.all_are("runs")

    def waiting(self) -> list[str]:
        """The pods that do not run, and their states."""
        return self._pods.not_running()

    def _stay(self, leaves: threading.Event, stop: threading.Event) -> None:
        """Be there until it is time to leave: from the last ``leaves`` on until ``stop``."""
        stays = LONGEST_STAY * share(self._seed, self._account.name, str(self.served))
        patience = PATIENCE * (1 + share(self._seed, self._account.name, "patience"))
        begun, served_at = self._clock.monotonic(), None
        while not self._clock.wait(stop, EVERY):
            self._patiently(self._ensure)
            now = self._clock.monotonic()
            if served_at is None and self.is_served():
                served_at, self.served = now, self.served + 1
            is_over = now - begun > patience or (served_at is not None and now - served_at > stays)
            if is_over and not leaves.is_set():
                return

    def _leave(self, stop: threading.Event) -> None:
        """Give the booking back, see the pods end, and tidy up."""
        self._until(stop, self._release, PATIENCE)
        self._until(stop, lambda: self._pods.all_are("without", "over", "missing"), BACK_WITHIN)
        self._until(stop, self._tidy, PATIENCE)

    def _until(self, stop: threading.Event, deed: Callable[[], bool], seconds: float) -> None:
        begun, done = self._clock.monotonic(), False
        while not done and not stop.is_set() and self._clock.monotonic() - begun < seconds:
            done = self._patiently(deed)
            self._clock.wait(stop, 0 if done else EVERY)

    def _patiently(self, deed: Callable[[], bool]) -> bool:
        try:
            return deed()
        except (ApiError, ClusterError) as error:
            self.problem = str(error)
            return False

    # --- deeds -----------------------------------------------------------------------------------------
    def _ensure(self) -> bool:
        if not self._sight.has_booking(self._account.name):
            self._ask()
        self._pods.ensure()
        return True

    def _running(self) -> str | None:
        answer = self._account.rest.ask("GET", "/bookings")
        if answer.is_refusal:
            raise ClusterError(f"{answer.status} {answer.body}")
        running = [str(one["id"]) for one in answer.body["bookings"] if one["state"] == "active"]
        assert len(running) <= 1, f"{self._account.name} was given more than one booking: {running}"
        return running[0] if running else None

    def _ask(self) -> None:
        answer = self._account.rest.book(model=A100, count=self._count, duration="P3D", topology="any")
        if answer.is_refusal:
            raise ClusterError(f"{answer.status} {answer.body}")

    def _release(self) -> bool:
        if (booking := self._running()) is not None:
            self._account.rest.release(booking)
        return booking is None

    def _tidy(self) -> bool:
        pods = [pod for name in self.names if (pod := self._sight.pods.get(name))]
        for pod in pods:
            if not pod.metadata.deletion_timestamp:
                self._pods.delete(pod)
        return not pods
