"""Wakes kube-scheduler for a pod that we have rejected and that would fit now.

The scheduler and we hear of changes by two watches. When a GPU becomes free, the scheduler may hear of it
first and ask us while we do not know yet; we say no, and nothing makes it ask again: it waits for another
change or for five minutes. The same happens after changes that it does not follow at all, like the Lease of
a node's agent. So: whoever was told "no" about a node on which the answer has become "yes", and is not asked
about for a moment, is a pod that the scheduler must look at again.

It is woken by touching an object of our own, a CSIStorageCapacity in our namespace that means nothing to
anybody. kube-scheduler (1.28 and later) tries pods that an extender has rejected again after any event of
this kind. The pod itself is not touched: its resourceVersion guards Bindings, and writing pods is a right
that the extender does not need. Runs in its own thread, started by ``__main__``.
"""

import threading
from dataclasses import dataclass
from typing import Final

import structlog

from cluster import names
from cluster.decide.predicates import obstacle
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.port import Kube
from cluster.kube.resources import Resource
from cluster.objects.meta import Meta, Partial
from cluster.runtime.clock import Clock
from extender.state import ClusterState, Look, Rejection

EVERY: Final = 0.1
"""Seconds between two looks; also how long the scheduler has to come by itself."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds between two calls for the same pod: something else may be in its way, which we do not see."""


class Bell(Partial, frozen=True):
    """A storage.k8s.io/v1 CSIStorageCapacity, of which we need nothing but that it changes."""

    metadata: Meta = Meta()


BELLS: Final = Resource(
    group="storage.k8s.io",
    version="v1",
    plural="csistoragecapacities",
    kind="CSIStorageCapacity",
    namespaced=True,
    type=Bell,
)


@dataclass
class _Call:
    """A pod that would fit."""

    rejection: Rejection
    nodes: frozenset[str]
    at: float
    pause: float = FIRST_PAUSE


class Wake:
    """Looks after rejected pods."""

    def __init__(self, kube: Kube, state: ClusterState, clock: Clock, *, namespace: str) -> None:
        self._kube = kube
        self._state = state
        self._clock = clock
        self._namespace = namespace
        self._looks: dict[str, Look] = {}
        self._changed: dict[str, Look] = {}
        self._calls: dict[str, _Call] = {}
        self._log = structlog.get_logger(__name__)

    def run(self, stop: threading.Event) -> None:
        """Look again and again until told to stop."""
        while not self._clock.wait(stop, EVERY):
            self.look()

    def look(self) -> None:
        """One round: find pods that fit by now, and ring for those that are due."""
        now = self._clock.monotonic()
        with self._state.locked() as ledger:
            if not self._state.rejections:
                self._looks, self._changed, self._calls = {}, {}, {}
                return
            looks = {look[0].name: look for look in self._state.look(ledger.nodes())}
            rejections = dict(self._state.rejections)
        changed = {name: look for name, look in looks.items() if not _same(look, self._looks.get(name))}
        # An answer may have been given before a change and noted after it: look at every change twice.
        self._notice(rejections, {**self._changed, **changed}, now)
        self._looks, self._changed = looks, changed
        self._calls = {uid: call for uid, call in self._calls.items() if _stands(call, rejections, looks)}
        due = [call for call in self._calls.values() if now >= call.at]
        if due and self._ring():
            for call in due:
                call.at, call.pause = now + call.pause, min(2 * call.pause, LONGEST_PAUSE)

    def _notice(self, rejections: dict[str, Rejection], changed: dict[str, Look], now: float) -> None:
        for uid, rejection in rejections.items():
            fitting = _fitting(rejection, rejection.nodes & changed.keys(), changed)
            if fitting and uid not in self._calls:
                self._calls[uid] = _Call(rejection=rejection, nodes=fitting, at=now + EVERY)

    def _ring(self) -> bool:
        """Touch our object; whether it worked."""
        touch = {"metadata": {"annotations": {names.RUNG: self._clock.now().isoformat()}}}
        try:
            try:
                self._kube.patch(BELLS, names.WAKE, touch, namespace=self._namespace)
            except NotFound:
                body = {"metadata": {"name": names.WAKE}, "storageClassName": names.WAKE}
                self._kube.create(BELLS, body, namespace=self._namespace)
        except ApiError as error:
            self._log.warning("the scheduler cannot be woken now", error=str(error))
            return False
        self._log.info("the scheduler is woken for pods that fit by now", pods=len(self._calls))
        return True


def _same(look: Look, known: Look | None) -> bool:
    """Whether nothing has changed on a node: views are made anew only with a change."""
    return known is not None and look[0] is known[0] and look[1] == known[1]


def _fitting(rejection: Rejection, nodes: frozenset[str], looks: dict[str, Look]) -> frozenset[str]:
    """Those of the nodes on which the pod fits."""
    return frozenset(name for name in nodes if name in looks and not obstacle(rejection.wish, *looks[name]))


def _stands(call: _Call, rejections: dict[str, Rejection], looks: dict[str, Look]) -> bool:
    """Whether the pod still waits, was not asked about since, and still fits."""
    return rejections.get(call.rejection.uid) is call.rejection and bool(
        _fitting(call.rejection, call.nodes, looks)
    )
