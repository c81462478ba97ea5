"""What people see: the pods of their namespace, as the watcher of the laws knows them."""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from cluster.objects.pods import Pod
from cluster.process.clock import SystemClock
from tests.laws.state import State
from tests.long.churn.seen import PodState, state_of

SEEN_WITHIN: Final = 10.0
"""Seconds in which a pod that was created is seen, if it was not deleted meanwhile."""


class Watching(Protocol):
    """Who knows the newest state."""

    @property
    def state(self) -> State:
        """Of the cluster."""
        ...


class Sight:
    """The pods by name, rebuilt only when something has changed."""

    def __init__(self, watch: Watching, namespace: str) -> None:
        self._watch = watch
        self._namespace = namespace
        self._clock = SystemClock()
        self._known: tuple[State, Mapping[str, Pod]] | None = None
        self._reckoned: dict[str, tuple[Pod, PodState]] = {}
        self._created: dict[str, float] = {}

    @property
    def pods(self) -> Mapping[str, Pod]:
        """Name -> pod."""
        state, known = self._watch.state, self._known
        if known is None or known[0].pods is not state.pods:
            mine = (pod for pod in state.pods.values() if pod.metadata.namespace == self._namespace)
            known = self._known = (state, {pod.metadata.name: pod for pod in mine})
        return known[1]

    def states(self, names: Iterable[str]) -> dict[str, PodState]:
        """The states of pods at one moment; computed once for each version of a pod."""
        pods = self.pods
        return {name: self._state_of(name, pods.get(name)) for name in names}

    def created(self, name: str) -> None:
        """The API server has answered so: our sight knows in a moment, and nobody asks again until then."""
        self._created[name] = self._clock.monotonic()

    def _state_of(self, name: str, pod: Pod | None) -> PodState:
        if pod is None:
            lately = self._clock.monotonic() - self._created.get(name, -SEEN_WITHIN) < SEEN_WITHIN
            return "waits" if lately else "missing"
        self._created.pop(name, None)
        known = self._reckoned.get(name)
        if known is None or known[0] is not pod:
            known = self._reckoned[name] = (pod, state_of(pod))
        return known[1]

    def has_booking(self, user: str) -> bool:
        """Whether a booking of theirs runs, as the cluster sees it."""
        now = self._clock.now()
        bookings = self._watch.state.bookings.values()
        return any(one.spec.user == user and one.spec.start <= now < one.spec.end for one in bookings)
