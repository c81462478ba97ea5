from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from booking.server.calendar import availability, peak
from cluster.fake.clock import START

HOUR = timedelta(hours=1)
CAPACITY = 4


@dataclass(frozen=True)
class Booked:
    start: datetime
    end: datetime
    count: int


def at(hour: int) -> datetime:
    return START + hour * HOUR


def booked(start: int, end: int, count: int = 1) -> Booked:
    return Booked(at(start), at(end), count)


LOADS = st.lists(
    st.builds(
        lambda start, length, count: booked(start, start + length, count),
        st.integers(-5, 20),
        st.integers(1, 10),
        st.integers(1, 3),
    ),
    max_size=12,
)


def used(loads: list[Booked], hour: int) -> int:
    return sum(load.count for load in loads if load.start <= at(hour) < load.end)


@given(LOADS, st.integers(-3, 25), st.integers(1, 10))
def test_the_peak_is_the_highest_load_of_all_hours(loads: list[Booked], start: int, length: int) -> None:
    found = peak(loads, at(start), at(start + length))
    assert found == max(used(loads, hour) for hour in range(start, start + length))


@given(LOADS, LOADS, st.integers(-3, 25), st.integers(1, 10))
def test_the_steps_of_availability_cover_the_span_and_are_correct(
    loads: list[Booked], lost: list[Booked], start: int, length: int
) -> None:
    steps = availability(loads, at(start), at(start + length), capacity=CAPACITY, lost=lost)
    assert (steps[0].start, steps[-1].end) == (at(start), at(start + length))
    for this, following in pairwise(steps):
        assert this.end == following.start
    for hour in range(start, start + length):
        (step,) = [each for each in steps if each.start <= at(hour) < each.end]
        assert step.capacity == max(0, CAPACITY - used(lost, hour))
        assert step.free == max(0, step.capacity - used(loads, hour))
