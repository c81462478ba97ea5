"""Pods that come and go on every kind of node: many without a booking, and one after the other with one."""

import itertools
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from cluster.kube.errors import ApiError, Conflict, NotFound
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod, is_terminal
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.errors import ClusterError
from tests.e2e.persons import A100, Person
from tests.e2e.playground import Playground

WAITING: Final = 8
"""Pods without a booking that wait or run at any time."""
WORKS: Final = 2
"""Seconds that a pod runs."""
TURN: Final = 0.3
FAILS: Final = (ApiError, ClusterError, AssertionError)
"""What somebody meets while a part is away; they try again."""


def with_a_gpu(name: str) -> dict[str, Any]:
    """A pod that works for a moment."""
    return probe.pod(name, [probe.container("main", gpus=1, seconds=WORKS)], model=A100)


class Crowd:
    """So many pods of bob's, and meanwhile alice's, each of a booking of its own."""

    def __init__(
        self,
        ground: Playground,
        alice: Person,
        bob: Person,
        count: int,
        *,
        model: str = A100,
        pod: Callable[[str], Mapping[str, Any]] = with_a_gpu,
        waiting: int = WAITING,
    ) -> None:
        """Args: model: of what alice books. pod: makes one of this name. waiting: of bob's at any time."""
        self._ground = ground
        self._model, self._pod, self._waiting = model, pod, waiting
        self._alice = alice
        self._bob = bob
        self._names = [f"bob-{number:03d}" for number in range(count)]
        self._clock = SystemClock()
        self.served: list[str] = []
        """Pods of alice's that have run to their end with what she had booked."""

    def bob(self, stop: threading.Event) -> None:
        """Create his pods, some at a time, until there are all of them."""
        wanted = iter(self._names)
        while not self._clock.wait(stop, TURN):
            with suppress(*FAILS):
                unfinished = sum(not is_terminal(pod) for pod in self._ground.pods())
                for name in itertools.islice(wanted, max(0, self._waiting - unfinished)):
                    self._until_done(stop, partial(self._create, self._bob, name))

    def alice(self, stop: threading.Event) -> None:
        """Book a GPU, use it for one pod, and give it back, again and again."""
        for number in itertools.count():
            name = f"alice-{number:03d}"
            self._until_done(stop, self._book)
            self._until_done(stop, partial(self._create, self._alice, name))
            self._until_done(stop, partial(self._is_over, name))
            self._until_done(stop, self.leave)
            if stop.is_set():
                return
            self.served.append(name)

    def unfinished(self) -> list[str]:
        """Bob's pods that have not run to their end, and how far they are."""
        pods = {pod.metadata.name: pod for pod in self._ground.pods()}
        phases = {name: pods[name].status.phase if name in pods else "missing" for name in self._names}
        return [f"{name} {phase}" for name, phase in phases.items() if phase != "Succeeded"]

    def failed(self) -> list[Pod]:
        """Pods that have failed."""
        return [pod for pod in self._ground.pods() if pod.status.phase == "Failed"]

    def leave(self) -> bool:
        """Give back what alice has booked, also where the answer was lost."""
        for booking in self._alice.rest.ask("GET", "/bookings").body["bookings"]:
            if booking["state"] == "active":
                self._alice.release(booking["id"])
        return True

    def _until_done(self, stop: threading.Event, deed: Callable[[], bool]) -> None:
        done = False
        while not done and not stop.is_set():
            with suppress(*FAILS):
                done = deed()
            self._clock.wait(stop, 0 if done else TURN)

    def _create(self, person: Person, name: str) -> bool:
        with suppress(Conflict):  # it is there: the answer was lost
            person.create(self._pod(name))
        return True

    def _book(self) -> bool:
        self.leave()
        self._alice.book(model=self._model)
        return True

    def _is_over(self, name: str) -> bool:
        with suppress(NotFound):
            return is_terminal(self._ground.kube.get(PODS, name, namespace=self._ground.namespace))
        return False
