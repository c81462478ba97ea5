"""The data of the calendar page: capacity, load and maintenance over a span. Pure."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from booking.server.capacity.capacity import Capacity
from booking.server.records import Place
from booking.server.store_records import Block


class Booked(msgspec.Struct, frozen=True):
    """A booking as other users see it."""

    count: int
    start: datetime
    end: datetime
    is_mine: bool
    plan: tuple[Place, ...]
    user: str | None = None
    """User id of the owner; None: hidden from the caller."""
    memory: int | None = None
    """MiB of each of its devices; None if they are whole."""


class Overview(msgspec.Struct, frozen=True):
    """Capacity, bookings and maintenance in a span."""

    capacity: Capacity
    booked: Mapping[str, tuple[Booked, ...]]
    """Model -> its bookings; those that are already over are left out."""
    blocks: tuple[Block, ...]
    lanes: Mapping[str, tuple[Booked, ...]] = {}
    """Model -> the devices of bookings of shares; mine are those that have a share of the caller's."""
