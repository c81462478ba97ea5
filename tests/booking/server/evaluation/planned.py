"""Free capacity for tests of the evaluation, as the booking server computes it from all records."""

from collections.abc import Collection
from datetime import datetime

from booking.server.availability.calendars import calendar_of
from booking.server.availability.planned_capacity import PlannedCapacities
from booking.server.capacity.capacity import Capacity
from booking.server.records import Record


def planned(
    records: Collection[Record], capacity: Capacity, now: datetime, changing: Record | None = None
) -> PlannedCapacities:
    """The capacities that these records of all users leave; ``changing`` gives its GPUs back."""
    return PlannedCapacities(
        capacity=capacity,
        now=now,
        calendar_of=lambda model: calendar_of(each for each in records if each.model == model),
        changing=changing,
    )
