"""The free devices of one model, as evaluation queries them. ``booking.server.availability`` implements it.

A booking being changed has been left out already; an implementation ensures that a running one stays where
it is.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

import msgspec

from booking.server.records import Place
from cluster.objects.bookings import Topology


class CapacityRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A number of devices of one model, and whether they must be on one node."""

    count: int
    topology: Topology
    memory: int | None = None
    """MiB of each of them; None: whole devices."""
    buffer: int = 0
    """Devices that must stay unbooked in addition: the policy's buffer."""


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """Why devices are not available over a span."""

    free: int
    """How many are available all the time, the buffer excluded; on one node for ``single-node``."""
    total: int
    """How many exist at present."""
    message: str
    """For people: what exists and what is missing; complete sentences."""


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """A booking's place in the booking plan, and which other bookings have to move for it."""

    plan: tuple[Place, ...] = ()
    moved: Mapping[str, tuple[Place, ...]] = {}
    """Booking id -> its new plan, of bookings that have not begun."""


class Timetable(Protocol):
    """Starts that rules allow, and the length of a booking from each of them."""

    @property
    def not_before(self) -> datetime:
        """The first instant that no rule forbids."""
        ...

    def start_at(self, moment: datetime) -> datetime:
        """The first allowed start at or after an instant; one that it has returned stays allowed.

        Takes microseconds: call it where capacity becomes free, not for every event.
        """
        ...

    def end_of(self, start: datetime) -> datetime:
        """The end of a booking with this start: days are longer or shorter where clocks change."""
        ...


class FreeCapacity(Protocol):
    """The devices of one model over time, minus those that are booked, blocked or unavailable."""

    def lacking(self, wanted: CapacityRequest, start: datetime, end: datetime) -> Shortage | None:
        """Why the devices are not available throughout ``[start, end)``; None when they are."""
        ...

    def earliest(self, wanted: CapacityRequest, timetable: Timetable) -> datetime | None:
        """The first start of the timetable for which ``lacking`` returns None; None if there is none."""
        ...

    def place(self, wanted: CapacityRequest, start: datetime, end: datetime) -> Placement | None:
        """The GPUs' place in the booking plan; None when ``lacking`` reports a problem."""
        ...
