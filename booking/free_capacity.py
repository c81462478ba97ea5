"""What evaluation asks of the devices of one model. ``booking.availability`` implements it.

A booking that is being changed is left out before; whoever implements this sees to it that a running one
stays where it is.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

import msgspec

from booking.records import Place
from cluster.objects.bookings import Topology


class CapacityRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A number of devices of one model, and whether they must be on one node."""

    count: int
    topology: Topology
    buffer: int = 0
    """Devices that must stay unbooked in addition: the policy's buffer."""


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """Why devices cannot be had over a span."""

    free: int
    """How many could be had all the time, the buffer not counted; on one node, where one is wanted."""
    total: int
    """How many there are at present."""
    message: str
    """For people: what exists and what is missing, complete with its full stop."""


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """A booking's place in the booking plan, and which others have to move for it."""

    plan: tuple[Place, ...] = ()
    moved: Mapping[str, tuple[Place, ...]] = {}
    """Booking id -> its new plan, of bookings that have not begun."""


class Timetable(Protocol):
    """Starts that rules allow, and how long a booking from each of them is."""

    @property
    def not_before(self) -> datetime:
        """The first instant at which no rule is in the way."""
        ...

    def start_at(self, moment: datetime) -> datetime:
        """The first start that may be chosen at or after an instant; a start that it has chosen stays.

        Costs microseconds: to be asked where free capacity begins, not at every event.
        """
        ...

    def end_of(self, start: datetime) -> datetime:
        """When a booking that starts then ends: days are longer and shorter where clocks change."""
        ...


class FreeCapacity(Protocol):
    """The devices of one model over time, minus those that are booked, blocked or unavailable."""

    def lacking(self, wanted: CapacityRequest, start: datetime, end: datetime) -> Shortage | None:
        """Why they cannot be had in all of ``[start, end)``; None when they can."""
        ...

    def earliest(self, wanted: CapacityRequest, timetable: Timetable) -> datetime | None:
        """The first start of the timetable at which ``lacking`` has nothing to say; None: never."""
        ...

    def place(self, wanted: CapacityRequest, start: datetime, end: datetime) -> Placement | None:
        """The GPUs' place in the booking plan; None when ``lacking`` reports a problem."""
        ...
