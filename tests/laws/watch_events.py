"""Which writes the reclaimer's watches have delivered, and when: they show how stale its caches were."""

from collections import deque
from datetime import datetime, timedelta
from typing import Final

from cluster import names
from cluster.kube.resources import LEASES
from cluster.objects.pods import Pod, is_terminal
from demo.simulation.maker import FOLLOWED
from tests.laws.changes import Change
from tests.laws.claims import KINDS

LONGEST: Final = timedelta(seconds=400)
"""As far back as anybody may ask: 150 s before what was known before an outage."""
_KINDS: Final = frozenset({*FOLLOWED, *KINDS})
_APART: Final = timedelta(seconds=1)
"""Of the writes of one second the first is remembered."""


class WatchEvents:
    """Versions of writes that every watch of living pods, of nodes, Leases, Bookings or claims delivers."""

    def __init__(self) -> None:
        self._writes: dict[str, deque[tuple[datetime, int]]] = {kind: deque() for kind in _KINDS}

    def put(self, change: Change) -> None:
        """One write, in the order of the resourceVersions."""
        if not _is_delivered(change):
            return
        writes = self._writes[change.plural]
        if writes and change.instant - writes[-1][0] < _APART:
            return
        writes.append((change.instant, change.version))
        while change.instant - writes[0][0] > LONGEST:
            writes.popleft()

    def forget(self, kind: str) -> None:
        """It was listed: the writes that led to it are unknown."""
        self._writes.get(kind, deque()).clear()

    def newest_at(self, kind: str, at: datetime) -> int:
        """The version of about the newest write delivered by this instant; 0 where none is known."""
        return max((version for when, version in self._writes.get(kind, ()) if when <= at), default=0)


def _is_delivered(change: Change) -> bool:
    if change.plural not in _KINDS:
        return False
    if change.plural == LEASES.plural:
        return change.object.metadata.namespace == names.NAMESPACE
    pods = change.pods
    return pods is None or any(map(_lives, pods))


def _lives(pod: Pod | None) -> bool:
    """Whether the reclaimer follows it: its watch does not select pods that have ended."""
    return pod is not None and not is_terminal(pod)
