"""Free capacity so simple that it is right: devices are alike wherever they are, and every start is tried."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from booking import wording
from booking.server import calendar
from booking.server.capacity.capacity import Capacity
from booking.server.capacity.free_capacity import (
    CapacityRequest,
    FreeCapacity,
    Placement,
    Shortage,
    Timetable,
)
from booking.server.records import Record


def plain_capacities(records: Iterable[Record], capacity: Capacity) -> Callable[[str], FreeCapacity]:
    """Free capacity among everybody's bookings, without the one that is changed."""
    loads = [record for record in records if record.cancelled is None]
    return lambda model: _PlainCapacity(model, capacity.total(model), [x for x in loads if x.model == model])


class _PlainCapacity:
    def __init__(self, model: str, capacity: int, loads: list[Record]) -> None:
        self._model, self._capacity, self._loads = model, capacity, loads

    def lacking(self, wanted: CapacityRequest, start: datetime, end: datetime) -> Shortage | None:
        """By the peak of the load."""
        free = max(0, self._capacity - wanted.buffer - calendar.peak(self._loads, start, end))
        if wanted.count <= free:
            return None
        return Shortage(
            free=free,
            total=self._capacity,
            message=f"{free} of the {wording.counted(self._capacity, 'GPU')} of model {self._model} "
            f"can be had all the time from {wording.instant(start)} to {wording.instant(end)}, "
            f"and {wanted.count} are asked for.",
        )

    def earliest(self, wanted: CapacityRequest, timetable: Timetable) -> datetime | None:
        """The first gap that is long enough."""
        ends = sorted({load.end for load in self._loads if load.end > timetable.not_before})
        return next(self._fitting(wanted, timetable, [timetable.not_before, *ends]), None)

    def place(self, wanted: CapacityRequest, start: datetime, end: datetime) -> Placement | None:
        """Anywhere."""
        return None if self.lacking(wanted, start, end) else Placement()

    def _fitting(
        self, wanted: CapacityRequest, timetable: Timetable, moments: Iterable[datetime]
    ) -> Iterator[datetime]:
        for moment in moments:
            start = timetable.start_at(moment)
            if not self.lacking(wanted, start, timetable.end_of(start)):
                yield start
