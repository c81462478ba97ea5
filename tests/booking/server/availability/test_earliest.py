"""The earliest start is the first one: compared with trying every hour, and where the clocks change."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from booking import durations
from booking.durations import Duration
from booking.server.availability.calendars import calendar_of
from booking.server.availability.planned_capacity import PlannedCapacity
from booking.server.capacity.capacity import Capacity
from booking.server.capacity.free_capacity import CapacityRequest
from booking.server.records import Place, Record
from cluster.objects.bookings import Topology
from tests.booking.server.availability.world import World, hour
from tests.fakes.objects import A100
from tests.fakes.records import a_record

HOUR = timedelta(hours=1)
STOCKHOLM = ZoneInfo("Europe/Stockholm")
SPRING, AUTUMN = (
    datetime(2026, month, day, tzinfo=STOCKHOLM).astimezone(UTC) for month, day in ((3, 26), (10, 24))
)
"""A Thursday and a Saturday, at midnight; the clocks are changed on the next Sunday."""
_TOPOLOGIES = st.sampled_from(["any", "single-node"])


@dataclass(frozen=True)
class Days:
    """Starts on steps of some hours of the clock, for so many calendar days."""

    not_before: datetime
    length: Duration
    step: int = 1

    def start_at(self, moment: datetime) -> datetime:
        while moment.astimezone(STOCKHOLM).hour % self.step:
            moment += HOUR
        return moment

    def end_of(self, start: datetime) -> datetime:
        return durations.after(start, self.length, STOCKHOLM)


def a_room(records: list[Record], now: datetime, devices: dict[str, int]) -> PlannedCapacity:
    return PlannedCapacity(A100, calendar_of(records), Capacity({A100: devices}), now=now)


def booked(start: datetime, end: datetime, node: str = "n0") -> Record:
    return a_record(id=f"b-{node}-{start}-{end}", start=start, end=end, plan=(Place(node, 1),))


def midnight(now: datetime, day: int) -> datetime:
    return durations.after(now, Duration(day), STOCKHOLM)


@pytest.mark.parametrize(
    ("now", "gap", "days"),
    [
        # From Saturday on two days last 49 hours, and those from Monday on 48.
        pytest.param(AUTUMN, 2, 2, id="autumn"),
        # From Thursday on three days last 72 hours, and those from Friday on 71.
        pytest.param(SPRING, 1, 3, id="spring"),
    ],
)
@pytest.mark.parametrize("topology", ["any", "single-node"])
def test_a_gap_whose_days_are_shorter_than_those_from_now_on_is_found(
    now: datetime, gap: int, days: int, topology: Topology
) -> None:
    start, end = midnight(now, gap), midnight(now, gap + days)
    assert end - start < midnight(now, days) - now
    records = [
        booked(*span, node) for span in ((now, start), (end, midnight(now, 30))) for node in ("n0", "n1")
    ]
    free_capacity = a_room(records, now, {"n0": 2, "n1": 1})
    count = 2 if topology == "single-node" else 3
    assert (
        free_capacity.earliest(CapacityRequest(count=count, topology=topology), Days(now, Duration(days)))
        == start
    )


@given(
    st.sampled_from([SPRING, AUTUMN]),
    st.lists(st.tuples(st.integers(0, 6), st.integers(1, 3), st.integers(-1, 1)), max_size=6),
    st.sampled_from([Duration(1), Duration(2), Duration(1, 6 * 3600), Duration(0, 30 * 3600)]),
    st.sampled_from([1, 2, 6, 24]),
    _TOPOLOGIES,
)
@settings(max_examples=300)
def test_the_earliest_start_is_the_one_found_by_trying_every_hour(
    now: datetime, loads: list[tuple[int, int, int]], length: Duration, step: int, topology: Topology
) -> None:
    records = [
        booked(midnight(now, day), midnight(now, day + days) + hours * HOUR, "n0")
        for day, days, hours in loads
    ]
    free_capacity = a_room(records, now, {"n0": 2 if topology == "single-node" else 1})
    wanted = CapacityRequest(count=2 if topology == "single-node" else 1, topology=topology)
    days = Days(now, length, step)
    every_hour = (now + number * HOUR for number in range(24 * 15))
    starts = (start for start in every_hour if days.start_at(start) == start)
    expected = next(
        start for start in starts if free_capacity.lacking(wanted, start, days.end_of(start)) is None
    )
    assert free_capacity.earliest(wanted, days) == expected


def test_the_search_goes_on_where_a_node_has_room_but_the_buffer_is_not_kept() -> None:
    """For forty hours the sum would do every other hour, and no node; then a node would, and not the sum."""
    world = World({"n0": 2, "n1": 2, "n2": 1}, now=hour(1))
    spans_of = {"n0": [(0, 40, 1)], "n1": [(0, 40, 1), (40, 50, 2)], "n2": [(40, 50, 1)]}
    spans_of["n2"] += [(start, start + 1, 1) for start in range(1, 40, 2)]
    for node, taken in spans_of.items():
        for start, end, count in taken:
            record = a_record(
                id=f"b-{node}-{start}",
                start=hour(start),
                end=hour(end),
                count=count,
                plan=(Place(node, count),),
            )
            world.records[record.id] = record
    wanted = CapacityRequest(count=2, topology="single-node", buffer=1)
    assert world.free_capacity().earliest(wanted, Days(hour(1), Duration(0, 3600))) == hour(50)
