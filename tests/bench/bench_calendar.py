"""The earliest slot in a full calendar: 50,000 bookings, gaps everywhere, none of them long enough.

As in the service, the calendar was read before, and ``PlannedCapacity`` is built for each request.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from booking.server.availability.calendars import Calendar, calendar_of
from booking.server.availability.planned_capacity import PlannedCapacity
from booking.server.capacity.capacity import Capacity
from booking.server.capacity.free_capacity import CapacityRequest
from booking.server.records import Place, Record
from cluster.fake.clock import START
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.rows import Kind, Row, Target
from tests.bench.table import percentile
from tests.bench.timing import in_turns
from tests.fakes.objects import A100
from tests.fakes.records import a_record

BOOKINGS: Final = 50_000
NODES: Final = 8
GPUS: Final = 8
_FLOOR: Final = "looking at every booking once"
_ANY: Final = Kind(
    "earliest-slot",
    f"earliest slot for 1 GPU among {BOOKINGS:,} bookings",
    "ms",
    _FLOOR,
    Target(value=10),
)
_WHOLE: Final = Kind(
    "earliest-slot-node",
    f"earliest slot for 4 GPUs of one node among {BOOKINGS:,} bookings",
    "ms",
    _FLOOR,
    Target(value=10),
)
_CHANGE: Final = Kind(
    "calendar-change", f"taking over one change into a calendar of {BOOKINGS:,} bookings", "ms", _FLOOR
)


@dataclass(frozen=True)
class Lasting:
    """Allows any start, with this length."""

    length: timedelta
    not_before: datetime = START

    def start_at(self, moment: datetime) -> datetime:
        """The moment itself."""
        return moment

    def end_of(self, start: datetime) -> datetime:
        """The start plus the length."""
        return start + self.length


def measure(_lab: Lab) -> Iterator[Row]:
    """Both requests, and the update of the calendar that keeps their answers fast."""
    for kind, wanted, length, is_paired in (
        (_ANY, CapacityRequest(count=1, topology="any"), timedelta(days=14), False),
        (_WHOLE, CapacityRequest(count=4, topology="single-node"), timedelta(days=7), True),
    ):
        records = _full(is_paired=is_paired)
        calendar = calendar_of(records, 1)
        _free_capacity(calendar).earliest(wanted, Lasting(length))

        def ask(
            calendar: Calendar = calendar, wanted: CapacityRequest = wanted, length: timedelta = length
        ) -> object:
            return _free_capacity(calendar).earliest(wanted, Lasting(length))

        def floor(records: list[Record] = records) -> int:
            return sum(record.count for record in records if record.end > START)

        ours, least = in_turns(20, ask, floor)
        yield kind.row(1e3 * percentile(ours, 50), 1e3 * percentile(least, 50))
        if is_paired:
            changed = msgspec.structs.replace(records[0], end=records[0].end - timedelta(hours=1), change=2)

            def take_over(calendar: Calendar = calendar, changed: Record = changed) -> object:
                return calendar.after([changed], 2)

            ours, least = in_turns(20, take_over, floor)
            yield _CHANGE.row(1e3 * percentile(ours, 50), 1e3 * percentile(least, 50))


def _free_capacity(calendar: Calendar) -> PlannedCapacity:
    devices = {f"n{index}": GPUS for index in range(NODES)}
    return PlannedCapacity(A100, calendar, Capacity({A100: devices}), now=START)


def _full(*, is_paired: bool) -> list[Record]:
    """Bookings one after the other on every GPU, or pair of GPUs, with short gaps between them."""
    size = 2 if is_paired else 1
    lanes = [(START, f"n{node}") for node in range(NODES) for _ in range(GPUS // size)]
    records: list[Record] = []
    while len(records) < BOOKINGS:
        for lane, (free, node) in enumerate(lanes):
            start = free + timedelta(hours=(5 * len(records)) % 13)
            end = start + timedelta(days=1 + (7 * len(records) // 3) % 14)
            lanes[lane] = end, node
            records.append(
                a_record(
                    start,
                    end,
                    id=f"b-{len(records)}",
                    count=size,
                    topology="single-node" if is_paired else "any",
                    plan=(Place(node, size),),
                )
            )
    return records[:BOOKINGS]


MEASURE: Final = Measure("calendar", (_ANY, _WHOLE, _CHANGE), measure)
