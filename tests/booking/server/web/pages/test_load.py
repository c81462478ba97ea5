"""How many of a set of devices are booked over time."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from booking.server.web.pages import load
from booking.server.web.pages.load import KINDS, Day, Piece

BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
END = BEGIN + 72 * HOUR

pieces = st.builds(
    lambda kind, count, start, length: Piece(
        kind, count, BEGIN + start * HOUR, BEGIN + (start + length) * HOUR
    ),
    st.sampled_from(KINDS),
    st.integers(1, 4),
    st.integers(-30, 80),
    st.integers(0, 50),
)


@given(st.lists(pieces, max_size=12))
def test_steps_have_no_gaps_and_give_the_load_of_each_hour(found: list[Piece]) -> None:
    steps = load.steps(found, BEGIN, END, capacity=6)
    assert [steps[0].start, *(step.end for step in steps)] == [*(step.start for step in steps), END]
    for step in steps:
        there = dict.fromkeys(KINDS, 0)
        for piece in found:
            if piece.start <= step.start < piece.end:
                there[piece.kind] += piece.gpus
        assert (step.mine, step.others) == (there["mine"], there["others"])
        assert step.blocked == min(6, there["blocked"])
        assert step.free == max(0, 6 - step.used)


@given(st.lists(pieces, max_size=12), st.integers(0, 71))
def test_a_day_has_the_fewest_and_the_most_gpus_that_are_free_from_now_on(
    found: list[Piece], passed: int
) -> None:
    now = BEGIN + passed * HOUR
    steps = load.steps(found, BEGIN, END, capacity=6)
    midnights = [BEGIN + 24 * day * HOUR for day in range(4)]
    days = load.days(steps, midnights, now)
    assert len(days) == 3
    for number, day in enumerate(days):
        ahead = [
            step.free
            for hour in range(24 * number, 24 * number + 24)
            for step in steps
            if step.start <= BEGIN + hour * HOUR < step.end
            and (BEGIN + hour * HOUR >= now or passed >= 24 * number + 24)
        ]
        if passed < 24 * number + 24:
            assert (day.free, day.most) == (min(ahead), max(ahead))
            assert now <= day.start or passed < 24 * number
            assert midnights[number] <= day.start < midnights[number + 1]


def test_a_booking_of_a_day_begins_at_its_first_hour_with_a_free_gpu() -> None:
    full = [Piece("others", 2, BEGIN, BEGIN + 30 * HOUR)]
    steps = load.steps(full, BEGIN, END, capacity=2)
    days = load.days(steps, [BEGIN, BEGIN + 24 * HOUR, BEGIN + 48 * HOUR, END], BEGIN)
    assert days[1] == Day(start=BEGIN + 30 * HOUR, free=0, most=2, mine=0, others=2, blocked=0, over=0)
    assert days[0].most == 0


def test_a_day_shows_how_many_gpus_are_booked_beyond_the_capacity() -> None:
    midnights = [BEGIN, BEGIN + 24 * HOUR, BEGIN + 48 * HOUR]
    booked = [
        Piece("others", 2, BEGIN, midnights[2]),
        Piece("blocked", 1, midnights[1], midnights[1] + 2 * HOUR),
    ]
    steps = load.steps(booked, BEGIN, midnights[2], capacity=2)
    assert [day.over for day in load.days(steps, midnights, BEGIN)] == [0, 1]
