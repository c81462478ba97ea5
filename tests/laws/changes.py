"""One change of one object, as the watcher of the laws receives it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cluster.kube.resources import BOOKINGS, LEASES, NODES, POD_TEMPLATES, PODS, Object, Resource
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod
from demo.simulation.maker import Maker

WATCHED: Final[dict[str, Resource[Any]]] = {
    resource.plural: resource for resource in (PODS, NODES, BOOKINGS, LEASES, POD_TEMPLATES)
}
"""The kinds that the laws are about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An object before and after one write.

    plural: its kind. before: None for a creation. after: None when the object has vanished. version: the
    resourceVersion of the write. instant: when it was seen. maker: None where it is unknown, as on every real
    cluster: an object does not say who has written it, let alone what they knew.
    """

    plural: str
    before: Object | None
    after: Object | None
    version: int
    instant: datetime
    maker: Maker | None = None

    @property
    def object(self) -> Object:
        """What it is about, in its newest state."""
        found = self.after or self.before
        assert found is not None, "a change of nothing"
        return found

    @property
    def pods(self) -> tuple[Pod | None, Pod | None] | None:
        """The pod before and after; None for a change of something else."""
        return _pair(self, Pod)

    @property
    def bookings(self) -> tuple[Booking | None, Booking | None] | None:
        """The Booking before and after; None for a change of something else."""
        return _pair(self, Booking)


def _pair(change: Change, kind: type[Any]) -> tuple[Any, Any] | None:
    return (change.before, change.after) if isinstance(change.object, kind) else None
