"""The first start with a gap: each step of the search on loads of a few lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import pytest

from booking.server.availability.calendars import seconds
from booking.server.availability.start_search import OneNode, Sum, first_start, instant
from cluster.decide.booking_plan import Item, ModelPlan, Timeline
from cluster.fake.clock import START
from tests.booking.server.availability.world import HOUR, hour

SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True)
class Table:
    """Starts on steps of some hours; from some of them bookings are longer or shorter."""

    length: timedelta = HOUR
    step: int = 1
    lengths: tuple[tuple[datetime, timedelta], ...] = ()
    not_before: datetime = START

    def start_at(self, moment: datetime) -> datetime:
        steps = -((START - moment) // (self.step * HOUR))
        return START + steps * self.step * HOUR

    def end_of(self, start: datetime) -> datetime:
        return start + dict(self.lengths).get(start, self.length)


def a_load(*spans: tuple[float, float, int]) -> Timeline:
    """(from hour, until hour, devices)."""
    return Timeline.of(
        (seconds(START + begin * HOUR), seconds(START + end * HOUR), n) for begin, end, n in spans
    )


def found(load: Timeline, table: Table, *, ceiling: int = 0, start: datetime = START) -> float | None:
    """The hour of the first start."""
    at = first_start(Sum(load, ceiling), table, start)
    return None if at is None else (at - START) / HOUR


# --- what is in use ------------------------------------------------------------------------------------
def test_the_sum_is_free_while_the_load_is_within_the_limit() -> None:
    load = Sum(a_load((1, 2, 2), (2, 3, 3)), ceiling=2)
    at = [seconds(hour(number)) for number in range(5)]
    assert load.is_free(at[0], at[2])
    assert not load.is_free(at[0], at[2] + 1)
    assert load.is_free(at[3], at[4])
    assert not load.is_free(at[3] - 1, at[4])
    assert (load.first_gap(at[0], 7200), load.first_gap(at[0], 7201)) == (at[0], at[3])
    assert [load.next_change(after) for after in (at[0], at[1], at[3])] == [at[1], at[2], None]


def a_plan(**taken: Sequence[tuple[int, int, int]]) -> ModelPlan:
    """Nodes with two devices each; of each (from hour, until hour, devices)."""
    placed = [
        (Item(seconds(hour(begin)), f"b-{node}-{begin}", 0, seconds(hour(end)), size), node)
        for node, spans in taken.items()
        for begin, end, size in spans
    ]
    return ModelPlan(dict.fromkeys(taken, 2), placed)


def test_one_node_must_have_all_devices_for_the_whole_length() -> None:
    plan = a_plan(n0=[(0, 4, 1)], n1=[(2, 6, 2)])
    at = [seconds(hour(number)) for number in range(9)]
    one, two = OneNode(plan, 1), OneNode(plan, 2)
    assert one.is_free(at[0], at[8])
    assert two.is_free(at[0], at[2])
    assert not two.is_free(at[0], at[2] + 1)
    assert not two.is_free(at[3], at[4])
    assert two.is_free(at[4], at[8])
    assert not two.is_free(at[4] - 1, at[8])


def test_the_first_gap_of_any_node_counts() -> None:
    two = OneNode(a_plan(n0=[(0, 4, 1)], n1=[(0, 2, 2), (3, 6, 1)]), 2)
    at = [seconds(hour(number)) for number in range(9)]
    assert two.first_gap(at[0], 3600) == at[2]
    assert two.first_gap(at[0], 3601) == at[4]
    assert OneNode(a_plan(n0=[]), 3).first_gap(at[0], 1) is None
    assert OneNode(ModelPlan({}), 1).first_gap(at[0], 1) is None


def test_the_load_of_one_node_changes_whenever_any_node_changes() -> None:
    two = OneNode(a_plan(n0=[(1, 4, 1)], n1=[(2, 3, 2)]), 2)
    at = [seconds(hour(number)) for number in range(9)]
    assert [two.next_change(at[number]) for number in range(5)] == [at[1], at[2], at[3], at[4], None]
    assert OneNode(ModelPlan({}), 1).next_change(at[0]) is None


def test_instants_are_read_back_in_utc() -> None:
    assert instant(seconds(START)) == START
    assert instant(seconds(START)).tzinfo == START.tzinfo


# --- the search ----------------------------------------------------------------------------------------
def test_without_load_the_first_start_is_the_requested_one() -> None:
    assert found(a_load(), Table()) == 0
    assert found(a_load(), Table(), start=hour(3)) == 3


def test_a_booking_may_end_when_the_next_begins_and_begin_when_the_last_ends() -> None:
    assert found(a_load((1, 9, 1)), Table(HOUR)) == 0
    assert found(a_load((1, 9, 1)), Table(HOUR + SECOND)) == 9
    assert found(a_load((0, 1, 1), (2, 9, 1)), Table(HOUR)) == 1
    assert found(a_load((0, 1, 1), (2, 9, 1)), Table(HOUR + SECOND)) == 9


def test_there_is_no_start_where_the_load_is_always_too_high() -> None:
    assert found(a_load((0, 1, 1)), Table(), ceiling=-1) is None


def test_a_gap_is_used_from_the_next_possible_start_if_it_is_long_enough_then() -> None:
    load = a_load((0, 1.5, 1), (4, 9, 1))
    assert found(load, Table(2 * HOUR)) == 2
    assert found(load, Table(2 * HOUR + SECOND)) == 9
    assert found(load, Table(2 * HOUR, step=2)) == 2
    assert found(load, Table(2 * HOUR, step=3)) == 9


def test_a_gap_that_no_start_meets_is_skipped() -> None:
    load = a_load((0, 1.25, 1), (1.75, 2.5, 1), (3.5, 9, 1))
    assert found(load, Table(HOUR / 2)) == 3
    assert found(load, Table(HOUR)) == 9


def test_a_gap_before_the_requested_start_does_not_count() -> None:
    assert found(a_load((2, 4, 1)), Table(HOUR), start=hour(1)) == 1
    assert found(a_load((2, 4, 1)), Table(HOUR), start=hour(2)) == 4


def test_a_start_with_a_longer_booking_than_the_gap_is_skipped() -> None:
    load = a_load((1, 2, 1), (4, 9, 1))
    longer = ((START, 2 * HOUR), (hour(2), HOUR))
    assert found(load, Table(HOUR, lengths=longer)) == 2
    # The length from the first start on counts, though a shorter one would do from the second.
    assert found(a_load((1, 2, 1), (4, 9, 1)), Table(3 * HOUR, lengths=((hour(2), 2 * HOUR),))) == 9


@pytest.mark.parametrize("longer", [HOUR, 2 * HOUR, 4 * HOUR])
def test_bookings_of_half_a_day_may_be_up_to_four_hours_shorter_from_a_later_start(longer: timedelta) -> None:
    day = 12 * HOUR
    load = a_load((0, 1, 1), (1 + 12 - longer / HOUR, 90, 1))
    assert found(load, Table(day, lengths=((hour(1), day - longer),))) == 1


def test_a_gap_that_fits_only_a_day_with_fewer_hours_is_skipped() -> None:
    assert found(a_load((10, 20, 1)), Table(12 * HOUR)) == 20
    assert found(a_load((10, 20, 1), (29, 30, 1)), Table(12 * HOUR)) == 30


def test_bookings_that_are_shorter_than_half_a_day_are_equally_long_from_every_start() -> None:
    day = 12 * HOUR - SECOND
    load = a_load((0, 1, 1), (12, 90, 1))
    assert found(load, Table(day, lengths=((hour(1), 11 * HOUR),))) == 90


def test_a_booking_of_zero_length_is_searched_for_as_one_of_a_second() -> None:
    assert found(a_load((0, 1, 1)), Table(timedelta())) == 1
    assert found(a_load((0, 1, 1)), Table(-HOUR)) == 1
