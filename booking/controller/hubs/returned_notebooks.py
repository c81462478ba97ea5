"""Notebooks that came back after an eviction and are ready: their hub may still lead to the old address.

Kept by a reflector of the running pods of JupyterHubs. Memory alone: after a restart all that ever came back
are looked at once more, which is a single request per hub.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from cluster import names
from cluster.objects.notebooks import Notebook
from cluster.process.clock import Clock

SELECTED: Final = names.HUB_USER
"""Label selector of the reflector: every KubeSpawner since 0.16 puts this label on its pods."""


@dataclass(frozen=True, slots=True)
class Returned:
    """A notebook that is ready under a new address."""

    uid: str
    namespace: str
    address: str
    since: float
    """Monotonic seconds: when it was first seen ready."""


class ReturnedNotebooks:
    """Those whose route has not been seen yet. Thread-safe; the handler of their reflector."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[str, Returned] = {}
        self._settled: set[str] = set()
        """Uids that need no more attention."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when another one is ready. It must return soon and must not raise."""

    @property
    def waiting(self) -> tuple[Returned, ...]:
        """Those that their hub's proxy may not lead to."""
        with self._lock:
            return tuple(self._waiting.values())

    def settle(self, uids: Iterable[str]) -> None:
        """These need no more attention."""
        with self._lock:
            for uid in uids:
                if self._waiting.pop(uid, None):
                    self._settled.add(uid)

    def replace(self, items: Sequence[Notebook], _version: str, /) -> None:
        """Take over all running ones."""
        with self._lock:
            uids = {pod.metadata.uid for pod in items}
            self._settled &= uids
            self._waiting = {uid: one for uid, one in self._waiting.items() if uid in uids}
        for pod in items:
            self.upsert(pod)

    def upsert(self, pod: Notebook, /) -> None:
        """One runs, or has changed."""
        uid, address = pod.metadata.uid, pod.address
        if address is None or pod.metadata.annotation(names.RECREATED_FROM) is None:
            return
        with self._lock:
            if uid in self._settled or uid in self._waiting:
                return
            self._waiting[uid] = Returned(uid, pod.metadata.namespace, address, self._clock.monotonic())
        self.on_change()

    def remove(self, pod: Notebook, /) -> None:
        """One has ended, or is gone."""
        with self._lock:
            self._waiting.pop(pod.metadata.uid, None)
            self._settled.discard(pod.metadata.uid)
