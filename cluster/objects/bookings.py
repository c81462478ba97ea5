"""Booking objects: the live and near-future bookings as the cluster sees them (``kubectl get bookings``).

The truth is in the booking server's database; its mirror alone writes ``spec``. ``status`` belongs to the
reclaimer. The schema is in the chart (``files/bookings.yaml``).
"""

from datetime import UTC, datetime
from typing import Final, Literal

from cluster.objects.meta import Meta, Partial

Topology = Literal["any", "single-node"]


class Place(Partial, frozen=True):
    """Where the booking plan has devices of a booking: so many on that node."""

    node: str
    count: int


class BookingSpec(Partial, frozen=True):
    """``spec`` of a Booking: ``count`` whole GPUs of ``model`` in [start, end)."""

    user: str
    model: str
    """In label form."""
    count: int
    start: datetime
    end: datetime
    """The moment at which it really ends: released early, it is the moment of the release."""
    namespace: str | None = None
    """Covers pods of this namespace only."""
    topology: Topology = "any"
    node: str | None = None
    """Where the booking plan has all of it; soft."""
    places: tuple[Place, ...] = ()
    """Where the booking plan has its devices, on however many nodes; soft."""
    store_id: str = ""
    """The database that it comes from (law L9)."""


_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING: Final = BookingSpec(user="", model="", count=0, start=_NEVER, end=_NEVER)


class BookingStatus(Partial, frozen=True):
    """``status`` of a Booking."""

    ending: tuple[str, ...] | None = None
    """Uids of the pods that end because it has ended, decided once; None until that is decided."""
    back: str | None = None
    """Whether the bare ones among them come back, decided with it: ``without-gpu`` or ``never``."""


class Booking(Partial, frozen=True):
    """A Booking. Its name is the booking's id."""

    spec: BookingSpec = _NOTHING
    """A watch's bookmark has none: it is read as an empty booking without a user."""
    metadata: Meta = Meta()
    status: BookingStatus = BookingStatus()

    @property
    def name(self) -> str:
        """The booking's id."""
        return self.metadata.name

    def is_running(self, now: datetime) -> bool:
        """Whether it covers this instant: the interval is half-open."""
        return self.spec.start <= now < self.spec.end
