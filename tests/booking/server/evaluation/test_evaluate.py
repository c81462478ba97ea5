from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.capacity.capacity import Capacity
from booking.server.evaluation.evaluate import Decision, evaluate
from booking.server.records import BookingRequest, Record
from cluster.fake.clock import START
from tests.fakes.objects import A100, A6000
from tests.fakes.plain_capacity import plain_capacities
from tests.fakes.records import CLUSTER, a_record, a_request, day

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


def judged(
    request: BookingRequest,
    *,
    history: tuple[Record, ...] = (),
    others: tuple[Record, ...] = (),
    now: datetime = START,
    capacity: Capacity = CLUSTER,
    policy: Limits | None = None,
    changing: Record | None = None,
    with_alternatives: bool = True,
    deadline: datetime | None = None,
) -> Decision:
    return evaluate(
        now,
        lambda _: policy or Limits(),
        history=history,
        free_capacity_for=plain_capacities(
            [each for each in (*history, *others) if each != changing], capacity
        ),
        capacity=capacity,
        request=request,
        changing=changing,
        with_alternatives=with_alternatives,
        deadline=deadline,
    )


def rules(decision: Decision) -> list[str]:
    return [violation.rule for violation in decision.violations]


# --- accepted requests -------------------------------------------------------------------------------


def test_no_start_means_now() -> None:
    assert judged(a_request()).start == START


def test_both_spellings_of_a_model_are_understood() -> None:
    assert judged(a_request(model="NVIDIA A100-SXM4-80GB")).model == A100


@pytest.mark.parametrize(("count", "topology"), [(1, "any"), (2, "single-node")])
def test_several_gpus_are_on_one_node_unless_requested_otherwise(count: int, topology: str) -> None:
    assert judged(a_request(count=count)).topology == topology
    assert judged(a_request(count=count, topology="any")).topology == "any"


def test_a_start_a_little_in_the_past_means_now_and_the_length_is_judged_as_requested() -> None:
    decision = judged(
        a_request(START - timedelta(minutes=5), START - timedelta(minutes=5) + timedelta(days=1))
    )
    assert decision.is_accepted
    assert decision.start == START
    assert decision.end == day(1) - timedelta(minutes=5)


# --- refused requests --------------------------------------------------------------------------------


def test_an_unknown_model_is_refused_with_the_known_ones_and_the_closest_one() -> None:
    (violation,) = judged(a_request(model="a100")).violations
    assert violation.rule == "unknown-model"
    assert f"did you mean {A100}?" in violation.message
    assert A6000 in violation.message
    assert violation.limit == f"{A100}, {A6000}"


@pytest.mark.parametrize(
    "model", ["", "\n" * 300, "x" * 1_000_000, "<b>'; DROP TABLE bookings; --", "β" * 300]
)
def test_any_text_as_a_model_is_refused_with_a_short_message_on_one_line(model: str) -> None:
    (violation,) = judged(a_request(model=model)).violations
    assert violation.rule == "unknown-model"
    assert len(violation.message) < 600
    assert "\n" not in violation.message


def test_a_model_whose_devices_are_all_unhealthy_is_known_and_cannot_be_booked() -> None:
    decision = judged(a_request(), capacity=Capacity({A100: {"n0": 0}}))
    assert rules(decision) == ["more-than-exist"]


def test_a_full_calendar_is_reported_with_a_wrong_namespace() -> None:
    full = a_record(day(0), day(4), user="bob", count=6)
    assert rules(judged(a_request(namespace="A B"), others=(full,))) == ["not-a-namespace", "capacity"]


def test_a_span_entirely_in_the_past_is_not_moved() -> None:
    decision = judged(a_request(day(-9), day(-7)))
    assert rules(decision) == ["starts-in-the-past"]
    assert decision.earliest_start == START


@pytest.mark.parametrize(
    "end",
    [
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=14))),
    ],
)
def test_the_year_9999_is_too_far_ahead(end: datetime) -> None:
    assert rules(judged(a_request(START, end))) == ["too-far-ahead", "longest"]
    far = judged(a_request(end - timedelta(days=2), end))
    assert rules(far) == ["too-far-ahead"]


def test_the_minutes_of_a_booking_that_are_in_the_past_need_no_capacity() -> None:
    ending = a_record(day(-3), START, user="bob", count=6)
    assert judged(a_request(START - timedelta(minutes=3)), others=(ending,)).is_accepted


def test_without_a_whole_step_within_the_longest_booking_there_is_no_earliest_start() -> None:
    limits = Limits(
        granularity=Duration(days=1), shortest=Duration(seconds=3600), longest=Duration(seconds=6 * 3600)
    )
    decision = judged(a_request(day(1), day(3)), policy=limits)
    assert "longest" in rules(decision)
    assert decision.earliest_start is None
    assert decision.alternatives == ()


# --- what is searched for ----------------------------------------------------------------------------

FULL = a_record(day(0), day(4), user="bob", count=6)


@pytest.mark.parametrize(
    ("request_", "others", "deadline", "is_searched"),
    [
        (a_request(end=day(2)), (), None, False),
        (a_request(end=day(2)), (), day(2), False),
        (a_request(end=day(2)), (), day(2) - SECOND, True),
        (a_request(end=day(2)), (FULL,), None, True),
        (a_request(end=day(2)), (FULL,), day(2), True),
        (a_request(end=day(2), namespace="No Such"), (FULL,), None, False),
        (a_request(end=day(2), count=0), (), None, False),
        (a_request(day(2), day(2)), (), None, False),
    ],
    ids=[
        "accepted",
        "in time",
        "too late",
        "full",
        "full until the deadline",
        "no namespace",
        "no GPU",
        "no length",
    ],
)
def test_alternatives_are_searched_for_where_others_could_be_accepted(
    request_: BookingRequest, others: tuple[Record, ...], deadline: datetime | None, *, is_searched: bool
) -> None:
    decision = judged(request_, others=others, deadline=deadline)
    assert decision.is_searched is is_searched
    assert is_searched or decision.alternatives == ()
    without_search = judged(request_, others=others, deadline=deadline, with_alternatives=False)
    assert (without_search.violations, without_search.alternatives, without_search.is_searched) == (
        decision.violations,
        (),
        False,
    )


def test_an_accepted_request_has_its_earliest_start_where_the_caller_asks_for_more() -> None:
    assert judged(a_request(day(6), day(8)), others=(FULL,)).earliest_start == day(4)
    assert judged(a_request(day(6), day(8)), others=(FULL,), with_alternatives=False).earliest_start is None
    assert judged(a_request(end=day(2)), others=(FULL,), with_alternatives=False).earliest_start == day(4)


# --- properties --------------------------------------------------------------------------------------


def hours(low: int, high: int) -> st.SearchStrategy[timedelta]:
    return st.integers(low, high).map(lambda number: number * 24 * HOUR)


@given(
    st.builds(
        dict,
        model=st.one_of(st.just(A100), st.text(max_size=20)),
        count=st.integers(-(2**53), 2**53),
        start=st.none() | st.datetimes(timezones=st.timezones()) | st.datetimes(),
        end=st.datetimes(timezones=st.timezones()) | st.datetimes(),
        namespace=st.none() | st.text(max_size=70),
        topology=st.sampled_from([None, "any", "single-node"]),
    )
)
def test_every_request_has_an_answer_that_can_be_encoded(fields: dict[str, Any]) -> None:
    decision = judged(BookingRequest(**fields))
    encoded = msgspec.json.encode(decision.violations)
    assert msgspec.json.decode(encoded) is not None
    assert all(violation.message.endswith(".") for violation in decision.violations)
