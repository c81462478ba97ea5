"""Whether places matter at all: which bookings need one node, and which nodes have maintenance."""

from collections.abc import Mapping
from datetime import datetime

import structlog

from cluster.decide.booking_plan import needs_places
from cluster.objects.bookings import Booking
from cluster.objects.maintenance import BlocksError, MaintenanceBlock, decode_blocks

log = structlog.get_logger(__name__)


class PlacementNeeds:
    """Results from the newest bookings and nodes; computed again only when they have changed."""

    def __init__(self) -> None:
        self._texts: Mapping[str, str] = {}
        self._bookings: Mapping[str, Booking] = {}
        self._whole: dict[str, datetime] = {}
        self.blocks: Mapping[str, tuple[MaintenanceBlock, ...]] = {}
        """Node -> maintenance; replaced, never changed."""

    def update(self, bookings: Mapping[str, Booking], blocked: Mapping[str, str]) -> None:
        """Take the present bookings, and the maintenance annotations of nodes."""
        if bookings is not self._bookings:
            self._bookings, self._whole = bookings, _whole(bookings)
        if blocked is not self._texts:
            read = {name: _blocks(name, text) for name, text in blocked.items()}
            self._texts, self.blocks = blocked, {name: blocks for name, blocks in read.items() if blocks}

    def whole(self, now: datetime) -> frozenset[str]:
        """Models with a present or future booking of several devices on one node, or of shares."""
        return frozenset(model for model, end in self._whole.items() if end > now)


def _whole(bookings: Mapping[str, Booking]) -> dict[str, datetime]:
    """Model -> until when it has bookings for which places matter."""
    found: dict[str, datetime] = {}
    for booking in bookings.values():
        spec = booking.spec
        if needs_places(spec):
            found[spec.model] = max(spec.end, found.get(spec.model, spec.end))
    return found


def _blocks(node: str, text: str) -> tuple[MaintenanceBlock, ...]:
    try:
        return decode_blocks(text)
    except BlocksError as error:
        log.warning(
            "the maintenance blocks of a node cannot be read and are ignored", node=node, error=str(error)
        )
        return ()
