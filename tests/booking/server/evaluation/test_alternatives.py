from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.capacity.capacity import Capacity
from booking.server.capacity.free_capacity import (
    CapacityRequest,
    FreeCapacity,
    Placement,
    Shortage,
    Timetable,
)
from booking.server.evaluation.alternatives import MOST, Alternative
from booking.server.evaluation.evaluate import Decision, evaluate
from booking.server.evaluation.proposals import QUESTIONS
from booking.server.records import BookingRequest, Place, Record
from cluster.fake.clock import START
from tests.booking.server.evaluation.planned import planned
from tests.fakes.objects import A100, A6000
from tests.fakes.records import CLUSTER, a_record, a_request, day


def judged(
    request: BookingRequest,
    *records: Record,
    limits: Limits | None = None,
    capacity: Capacity = CLUSTER,
    now: datetime = START,
    deadline: datetime | None = None,
    changing: Record | None = None,
    seen: Callable[[FreeCapacity], FreeCapacity] = lambda free_capacity: free_capacity,
) -> Decision:
    capacities = planned(records, capacity, now, changing)
    return evaluate(
        now,
        lambda _: limits or Limits(),
        history=[record for record in records if record.user == "alice"],
        free_capacity_for=lambda model: seen(capacities(model)),
        capacity=capacity,
        request=request,
        changing=changing,
        deadline=deadline,
    )


def brief(found: tuple[Alternative, ...]) -> list[tuple[object, ...]]:
    return [(each.why, each.start, each.end, each.count, each.model) for each in found]


def test_a_full_calendar_offers_later_shorter_and_fewer() -> None:
    booked = a_record(day(3), day(6), user="bob", count=4, plan=(Place("n0", 4),))
    found = judged(a_request(day(1), day(8), count=4, topology="any"), booked).alternatives
    assert brief(found) == [
        ("later", day(6), day(13), 4, A100),
        ("shorter", day(1), day(3), 4, A100),
        ("fewer-gpus", day(1), day(8), 2, A100),
    ]


def test_an_unknown_model_offers_the_models_of_the_cluster() -> None:
    found = judged(a_request(day(1), day(3), model="H100")).alternatives
    assert {each.model for each in found} == {A100, A6000}


FULL = (
    a_record(day(0), day(9), user="bob", count=4, plan=(Place("n0", 4),)),
    a_record(day(0), day(9), user="bob", count=2, plan=(Place("n1", 2),), id="b-2"),
)


@pytest.mark.parametrize(
    ("request_", "records", "limits", "first"),
    [
        (a_request(day(1), day(3), count=7, topology="any"), FULL, None, ("fewer-gpus", day(9), 6, "any")),
        (a_request(day(1), day(3), count=5), FULL, None, ("several-nodes", day(9), 5, "any")),
        (a_request(day(1), day(3), count=10**9), FULL, None, ("fewer-gpus", day(9), 4, "single-node")),
        (
            a_request(day(1), day(3), count=4),
            FULL,
            Limits(max_concurrent_gpus=2),
            ("fewer-gpus", day(9), 2, "single-node"),
        ),
        (
            a_request(day(1), day(3), count=6, topology="any"),
            FULL,
            Limits(buffer=1),
            ("fewer-gpus", day(9), 5, "any"),
        ),
        (
            a_request(day(1), day(3), count=7, topology="any"),
            (a_record(day(-5), day(-3)),),
            None,
            ("fewer-gpus", day(11), 6, "any"),
        ),
        (a_request(day(1), day(3), count=20, topology="any"), (), None, ("fewer-gpus", day(1), 6, "any")),
    ],
    ids=["too many", "too many for a node", "absurdly many", "at a time", "buffer", "cooldown", "empty"],
)
def test_more_than_is_ever_available_is_offered_as_fewer_or_on_several_nodes_and_later(
    request_: BookingRequest,
    records: tuple[Record, ...],
    limits: Limits | None,
    first: tuple[object, ...],
) -> None:
    found = judged(request_, *records, limits=limits).alternatives
    assert len([each for each in found if each.model == A100]) == MOST
    assert (found[0].why, found[0].start, found[0].count, found[0].topology) == first


def test_a_nonsensical_request_has_no_alternatives() -> None:
    for request in (
        a_request(day(3), day(1)),
        a_request(day(1), day(3), count=0),
        a_request(START.replace(tzinfo=None), day(1)),
    ):
        assert judged(request).alternatives == ()


def test_a_wrong_namespace_alone_offers_no_other_time() -> None:
    decision = judged(a_request(day(1), day(3), namespace="No Such"))
    assert decision.alternatives == ()


# --- three wherever there are three --------------------------------------------------------------------

FOUR = Capacity({A100: {"n0": 4}})
"""One model, four GPUs."""


def full(start: float, end: float, number: int = 0, count: int = 4) -> Record:
    """A booking of all four GPUs by another user."""
    return a_record(
        day(start), day(end), user="bob", id=f"b-full-{number}", count=count, plan=(Place("n0", count),)
    )


TEN_DAYS = Limits(horizon=Duration(days=10))


def test_a_request_with_room_that_ends_after_the_deadline_is_offered_up_to_it() -> None:
    found = judged(a_request(end=day(5)), capacity=FOUR, deadline=day(3)).alternatives
    assert brief(found) == [("shorter", day(n), day(3), 1, A100) for n in range(3)]


def test_a_gap_within_the_horizon_that_is_too_short_is_offered_for_its_length() -> None:
    booked = (full(0, 3), full(5, 40, 1))
    found = judged(a_request(end=day(5)), *booked, capacity=FOUR, limits=TEN_DAYS).alternatives
    assert brief(found) == [
        ("shorter", day(3), day(5), 1, A100),
        ("shorter", day(4), day(5), 1, A100),
        ("shorter", day(3), day(4), 1, A100),
    ]


@pytest.mark.parametrize("end", [datetime(9999, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, tzinfo=UTC)])
def test_a_booking_until_the_year_9999_is_offered_with_the_longest_length(end: datetime) -> None:
    decision = judged(a_request(end=end), capacity=FOUR)
    assert decision.earliest_start == START
    found = decision.alternatives
    assert brief(found)[0] == ("within-limits", START, day(14), 1, A100)
    assert [each.start for each in found] == [day(0), day(1), day(2)]


@pytest.mark.parametrize("limits", [TEN_DAYS, Limits()], ids=["horizon", "farthest"])
def test_a_booking_too_far_ahead_is_offered_at_three_earlier_starts(limits: Limits) -> None:
    start = datetime(9998, 1, 1, tzinfo=UTC)
    found = judged(a_request(start, start + timedelta(days=2)), capacity=FOUR, limits=limits).alternatives
    assert brief(found) == [("earlier", day(n), day(n + 2), 1, A100) for n in range(3)]


def test_an_earlier_start_is_listed_before_further_later_ones() -> None:
    found = judged(a_request(day(4), day(6)), full(4, 7), capacity=FOUR).alternatives
    assert [(each.why, each.start) for each in found] == [
        ("later", day(7)),
        ("earlier", day(0)),
        ("later", day(8)),
    ]


def test_the_difference_that_is_named_is_that_from_the_most_that_the_limits_allow() -> None:
    limits = Limits(max_gpus_per_booking=2, horizon=Duration(days=10))
    found = judged(
        a_request(day(1), day(5), count=4), full(2, 900), capacity=FOUR, limits=limits
    ).alternatives
    assert brief(found) == [
        ("shorter", day(1), day(2), 2, A100),
        ("shorter", day(0), day(2), 2, A100),
        ("fewer-gpus", day(1), day(2), 1, A100),
    ]


def test_the_longest_gap_is_offered_before_an_earlier_shorter_one() -> None:
    booked = (full(0, 3), full(5, 8, 1), full(11, 40, 2))
    limits = Limits(horizon=Duration(days=12))
    found = judged(a_request(end=day(5)), *booked, capacity=FOUR, limits=limits).alternatives
    assert [(each.start, each.end) for each in found] == [
        (day(8), day(11)),
        (day(3), day(5)),
        (day(4), day(5)),
    ]


def test_an_extension_over_the_longest_or_into_another_booking_is_offered_step_by_step() -> None:
    mine = a_record(day(-5), day(5), plan=(Place("n0", 1),))
    found = judged(a_request(day(-5), day(20)), mine, capacity=FOUR, changing=mine).alternatives
    assert [(each.why, each.end) for each in found] == [
        ("within-limits", day(9)),
        ("shorter", day(8)),
        ("shorter", day(7)),
    ]
    booked = full(6, 9)
    found = judged(a_request(day(-5), day(8)), mine, booked, capacity=FOUR, changing=mine).alternatives
    assert [(each.why, each.end) for each in found] == [
        ("shorter", day(6) - timedelta(hours=hours)) for hours in range(3)
    ]


def test_a_model_that_nobody_may_book_has_no_alternative_and_no_error() -> None:
    """The search once asked for zero GPUs, for which a room that places every booking has no answer."""
    booked = a_record(day(1), day(4), user="bob", count=2, topology="single-node", plan=(Place("n0", 2),))
    nobody = Limits(max_gpus_per_booking=0)
    assert judged(a_request(end=day(2)), booked, limits=nobody).alternatives == ()
    spontaneous = Limits(max_gpus_per_booking=0, spontaneous=Duration(days=1))
    found = judged(a_request(day(3), day(5), count=2), booked, limits=spontaneous).alternatives
    assert [(each.start, each.count) for each in found] == [(START, 2), (day(1), 2), (START, 2)]


@pytest.mark.parametrize(
    ("now", "step", "shortest", "longest", "end"),
    [
        (
            "2026-10-23T09:00Z",
            Duration(days=1),
            Duration(days=2),
            Duration(days=1, seconds=25 * 3600),
            "2026-10-25T10:00Z",
        ),
        (
            "2026-03-28T11:00Z",
            Duration(seconds=21600),
            Duration(seconds=36 * 3600),
            Duration(days=3),
            "2026-03-30T04:00Z",
        ),
    ],
    ids=["a day of 25 hours", "a day of 23 hours"],
)
def test_steps_are_counted_in_days_of_the_length_that_the_clocks_give_them(
    now: str, step: Duration, shortest: Duration, longest: Duration, end: str
) -> None:
    """Lengths of a day or more that a policy writes in hours became ones of no whole steps on such days."""
    limits = Limits(granularity=step, shortest=shortest, longest=longest, zone="Europe/Stockholm")
    moment = datetime.fromisoformat(now)
    found = judged(a_request(moment, moment + timedelta(hours=1)), limits=limits, now=moment).alternatives
    assert next((each.why, each.start, each.end) for each in found) == (
        "within-limits",
        moment,
        datetime.fromisoformat(end),
    )


class CountedRoom:
    """A room that counts its queries."""

    def __init__(self, free_capacity: FreeCapacity, queries: list[str]) -> None:
        self._free_capacity, self._queries = free_capacity, queries

    def lacking(self, wanted: CapacityRequest, start: datetime, end: datetime) -> Shortage | None:
        self._queries.append("lacking")
        return self._free_capacity.lacking(wanted, start, end)

    def earliest(self, wanted: CapacityRequest, timetable: Timetable) -> datetime | None:
        self._queries.append("earliest")
        return self._free_capacity.earliest(wanted, timetable)

    def place(self, wanted: CapacityRequest, start: datetime, end: datetime) -> Placement | None:
        self._queries.append("place")
        return self._free_capacity.place(wanted, start, end)


@pytest.mark.parametrize("count", [1, 8, 10**9])
@pytest.mark.parametrize("free_until", [0, 0.125, 9.99])
def test_a_refusal_asks_the_room_only_a_limited_number_of_times(count: int, free_until: float) -> None:
    """Steps of a minute and thirty models, of which almost nothing is available."""
    models = [f"GPU-{number:02}" for number in range(30)]
    records = [
        a_record(day(free_until), day(4000), user="bob", id=f"b-{model}", model=model, count=8)
        for model in models
    ]
    limits = Limits(
        horizon=Duration(days=10),
        granularity=Duration(seconds=60),
        shortest=Duration(seconds=60),
        longest=Duration(days=30),
    )
    queries: list[str] = []
    request = a_request(day(1), day(15), count=count, model=models[0])
    capacity = Capacity({model: {"n0": 8} for model in models})
    decision = judged(
        request,
        *records,
        limits=limits,
        capacity=capacity,
        seen=lambda free_capacity: CountedRoom(free_capacity, queries),
    )
    assert len(decision.alternatives) == (MOST if free_until else 0)
    # The decision itself queries the room, too, and each offered alternative is checked once more.
    assert len(queries) <= QUESTIONS + 10


HOURS = st.integers(-40, 90).map(lambda hours: START + timedelta(hours=hours))
OTHERS = st.lists(
    st.builds(
        dict,
        start=HOURS,
        hours=st.integers(6, 70),
        count=st.integers(1, 4),
        topology=st.sampled_from(["any", "single-node"]),
    ),
    max_size=5,
)


@given(
    st.none() | st.tuples(st.integers(-20, 30), st.integers(24, 60), st.integers(1, 4)),
    OTHERS,
    st.tuples(st.integers(-20, 80), st.integers(1, 120), st.integers(1, 7)),
    st.sampled_from(["any", "single-node"]),
    st.none() | HOURS,
)
def test_alternatives_differ_and_are_accepted_even_for_changes_and_before_a_deadline(
    had: tuple[int, int, int] | None,
    booked: list[dict[str, Any]],
    requested: tuple[int, int, int],
    topology: Any,
    deadline: datetime | None,
) -> None:
    others = [
        a_record(
            each["start"],
            each["start"] + timedelta(hours=each["hours"]),
            id=f"b-{number}",
            user="bob",
            count=each["count"],
            topology=each["topology"],
        )
        for number, each in enumerate(booked)
    ]
    hour = timedelta(hours=1)
    mine = had and a_record(
        START + had[0] * hour, START + (had[0] + had[1]) * hour, count=had[2], topology=topology
    )
    start, length, count = requested
    if mine and mine.start <= START:
        start = (had or requested)[0]
    request = a_request(START + start * hour, START + (start + length) * hour, count=count, topology=topology)
    records = [*others, *([mine] if mine else [])]
    limits = Limits(horizon=Duration(days=4), longest=Duration(days=4))

    def decide(request: BookingRequest) -> Decision:
        return judged(request, *records, limits=limits, deadline=deadline, changing=mine or None)

    found = decide(request).alternatives
    shown = {
        (each.start, each.end, each.count, each.model, each.count > 1 and each.topology) for each in found
    }
    assert len(shown) == len(found) <= MOST
    for each in found:
        assert deadline is None or each.end <= deadline
        taken = BookingRequest(
            model=each.model, start=each.start, end=each.end, count=each.count, topology=each.topology
        )
        assert decide(taken).is_accepted
        assert taken != request
