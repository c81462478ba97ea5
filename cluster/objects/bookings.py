"""Booking objects: the live and near-future bookings as the cluster sees them (``kubectl get bookings``).

The booking server's database is authoritative, and only its mirror writes ``spec``. ``status`` belongs to the
reclaimer. The schema is in the chart (``files/bookings.yaml``).
"""

from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from cluster import names
from cluster.objects.meta import Meta, Partial

Topology = Literal["any", "single-node"]


class Place(Partial, frozen=True):
    """A place of a booking in the booking plan: so many devices on that node."""

    node: str
    count: int
    lanes: tuple[int, ...] = ()
    """Of a booking of shares, the number of each of these devices: shares of one number are on one device."""


class BookingSpec(Partial, frozen=True):
    """``spec`` of a Booking: ``count`` devices of ``model`` in [start, end)."""

    user: str
    model: str
    """In label form."""
    count: int
    start: datetime
    end: datetime
    """When it really ends: for a booking that was released early, the instant of the release."""
    namespace: str | None = None
    """If set, the booking covers only pods of this namespace."""
    topology: Topology = "any"
    node: str | None = None
    """The node on which the plan has all its devices; None if there is no such node. The plan may change."""
    places: tuple[Place, ...] = ()
    """The nodes on which the plan has its devices. The plan may change."""
    resource: str = names.GPU_RESOURCE
    """The resource under which the nodes offer the model: another one for MIG devices."""
    memory: int | None = None
    """MiB of each of its devices: the booking is for shares; None if it is for whole devices."""
    store_id: str = ""
    """The id of the database that it comes from (law L9)."""

    def __post_init__(self) -> None:
        """Bring the model to label form: an earlier mirror wrote some characters more."""
        label = names.model_label(self.model)
        if label != self.model:
            msgspec.structs.force_setattr(self, "model", label)


_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING: Final = BookingSpec(user="", model="", count=0, start=_NEVER, end=_NEVER)


class BookingStatus(Partial, frozen=True):
    """``status`` of a Booking."""

    ending: tuple[str, ...] | None = None
    """Uids of the pods that end with the booking, decided once; None until that is decided."""
    back: str | None = None
    """Whether those without a controller come back, decided with ``ending``: ``without-gpu`` or ``never``."""


class Booking(Partial, frozen=True):
    """A Booking. Its name is the booking's id."""

    spec: BookingSpec = _NOTHING
    """A watch's bookmark has no ``spec`` and is read as an empty booking without a user."""
    metadata: Meta = Meta()
    status: BookingStatus = BookingStatus()

    @property
    def name(self) -> str:
        """The booking's id."""
        return self.metadata.name

    def is_running(self, now: datetime) -> bool:
        """Whether the booking runs at this instant; the interval is half-open."""
        return self.spec.start <= now < self.spec.end
