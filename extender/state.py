"""The extender's picture of the cluster, and the one lock around it.

``sync`` writes it, the verbs read it; the ledger inside is pure and knows no threads.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from cluster.decide.ledger import Ledger, NodeView
from cluster.decide.ledger.liveness import Liveness, State
from cluster.decide.wish import Wish
from cluster.objects.pods import Pod
from cluster.runtime.clock import Clock

REMEMBERED: Final = 20_000
"""Pods that filter has seen and that bind may come for."""

Look = tuple[NodeView, State]
"""A node, and how its agent is doing."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Nodes about which the scheduler was told that the pod does not fit."""

    uid: str
    wish: Wish
    nodes: frozenset[str]


class ClusterState:
    """Ledger, signs of life and waiting pods, guarded by one lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._ledger = Ledger()
        self.liveness = Liveness()
        self.waiting: dict[str, Pod] = {}
        """Uid -> pod of ours that asks for GPUs and is not bound."""
        self.rejections: dict[str, Rejection] = {}
        """Uid -> the last answer to filter, where it was no for some node."""
        self._seen: OrderedDict[str, Pod] = OrderedDict()

    @contextmanager
    def locked(self) -> Iterator[Ledger]:
        """The ledger, nobody else being at it (nor at ``liveness`` and ``waiting``)."""
        with self._lock:
            yield self._ledger

    def look(self, names: Iterable[str]) -> list[Look]:
        """Some nodes at one instant."""
        with self._lock:
            now = self._clock.monotonic()
            return [
                (view, self.liveness.state(view.name, monotonic=now)) for view in self._ledger.views(names)
            ]

    def remember(self, pod: Pod) -> None:
        """Keep the pod as filter saw it: a bind is decided on that state and no other."""
        with self._lock:
            self._seen[pod.metadata.uid] = pod
            self._seen.move_to_end(pod.metadata.uid)
            if len(self._seen) > REMEMBERED:
                oldest, _ = self._seen.popitem(last=False)
                self.rejections.pop(oldest, None)

    def remembered(self, uid: str) -> Pod | None:
        """The pod as filter saw it last, None when it never did (a restart in between)."""
        with self._lock:
            return self._seen.get(uid)

    def drop_remembered(self, uid: str) -> None:
        """The pod is gone or bound, or must be decided anew: what filter saw and said does not matter."""
        with self._lock:
            self._seen.pop(uid, None)
            self.rejections.pop(uid, None)

    def note(self, rejection: Rejection) -> None:
        """Keep what filter has answered last."""
        with self._lock:
            if rejection.nodes and rejection.uid in self._seen:
                self.rejections[rejection.uid] = rejection
            else:
                self.rejections.pop(rejection.uid, None)


Readiness = Callable[[], str | None]
"""Why the picture cannot be trusted, None when it can."""
