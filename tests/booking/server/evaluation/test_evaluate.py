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


def test_a_request_that_breaks_nothing_is_accepted_as_it_was_made() -> None:
    decision = judged(a_request(day(1), day(3), namespace="lab"))
    assert decision.is_accepted
    assert (decision.start, decision.end) == (day(1), day(3))
    assert (decision.model, decision.count, decision.namespace) == (A100, 1, "lab")


def test_no_start_means_now() -> None:
    assert judged(a_request()).start == START


def test_both_spellings_of_a_model_are_understood() -> None:
    assert judged(a_request(model="NVIDIA A100-SXM4-80GB")).model == A100


@pytest.mark.parametrize(("count", "topology"), [(1, "any"), (2, "single-node")])
def test_several_gpus_are_on_one_node_unless_requested_otherwise(count: int, topology: str) -> None:
    assert judged(a_request(count=count)).topology == topology
    assert judged(a_request(count=count, topology="any")).topology == "any"


def test_instants_are_stored_in_utc_and_whole_seconds() -> None:
    stockholm = timezone(timedelta(hours=1))
    start = datetime(2026, 3, 3, 10, 0, 0, 900_000, tzinfo=stockholm)
    decision = judged(a_request(start, start + timedelta(days=1)), now=START + timedelta(milliseconds=300))
    assert decision.start == datetime(2026, 3, 3, 9, tzinfo=UTC)
    assert decision.start.tzinfo is UTC
    assert decision.end == datetime(2026, 3, 4, 9, tzinfo=UTC)
    assert decision.is_accepted


def test_a_start_a_little_in_the_past_means_now_and_the_length_is_judged_as_requested() -> None:
    decision = judged(
        a_request(START - timedelta(minutes=5), START - timedelta(minutes=5) + timedelta(days=1))
    )
    assert decision.is_accepted
    assert decision.start == START
    assert decision.end == day(1) - timedelta(minutes=5)


def test_a_start_further_in_the_past_is_refused() -> None:
    decision = judged(a_request(START - timedelta(minutes=5, seconds=1), day(3)))
    assert rules(decision) == ["starts-in-the-past"]
    assert decision.violations[0].earliest_start == START


def test_the_last_gpu_can_be_booked() -> None:
    others = tuple(a_record(day(0), day(9), id=f"b-{n}", user="bob") for n in range(5))
    assert judged(a_request(), others=others).is_accepted


def test_a_booking_may_begin_when_another_ends() -> None:
    full = a_record(day(0), day(2), user="bob", count=6)
    assert judged(a_request(day(2), day(4)), others=(full,)).is_accepted


def test_bookings_of_other_models_do_not_count() -> None:
    others = (a_record(day(0), day(9), user="bob", model=A6000, count=2),)
    assert judged(a_request(count=4), others=others).is_accepted


# --- refused requests --------------------------------------------------------------------------------


def test_all_broken_rules_are_reported_at_once() -> None:
    history = (a_record(day(-1), day(3)), a_record(day(5), day(8), id="b-two"))
    decision = judged(
        a_request(START - timedelta(days=1), day(30), model="NVIDIA-A100", count=0, namespace="No Such"),
        history=history,
    )
    assert rules(decision) == [
        "unknown-model",
        "count-below-one",
        "not-a-namespace",
        "starts-in-the-past",
        "no-active-overlap",
        "one-planned",
        "cooldown",
        "longest",
    ]
    assert decision.earliest_start is None


def test_an_unknown_model_is_refused_with_the_known_ones_and_the_closest_one() -> None:
    (violation,) = judged(a_request(model="a100")).violations
    assert violation.rule == "unknown-model"
    assert f"did you mean {A100}?" in violation.message
    assert A6000 in violation.message
    assert violation.limit == f"{A100}, {A6000}"


def test_a_typing_error_in_a_model_is_recognised() -> None:
    (violation,) = judged(a_request(model="NVIDIA-RTX-A6OOO")).violations
    assert f"did you mean {A6000}?" in violation.message


@pytest.mark.parametrize(
    "model", ["", "\n" * 300, "x" * 1_000_000, "<b>'; DROP TABLE bookings; --", "β" * 300]
)
def test_any_text_as_a_model_is_refused_with_a_short_message_on_one_line(model: str) -> None:
    (violation,) = judged(a_request(model=model)).violations
    assert violation.rule == "unknown-model"
    assert len(violation.message) < 600
    assert "\n" not in violation.message


def test_a_cluster_without_gpus_has_no_known_model() -> None:
    (violation,) = judged(a_request(), capacity=Capacity()).violations
    assert violation.rule == "unknown-model"
    assert "no node reports GPUs at present" in violation.message


@pytest.mark.parametrize("count", [7, 10**9])
def test_more_than_exist_can_never_be_booked(count: int) -> None:
    decision = judged(a_request(count=count, topology="any"))
    assert [(v.rule, v.limit, v.actual) for v in decision.violations] == [("more-than-exist", 6, count)]
    assert decision.earliest_start is None


def test_more_than_the_largest_node_has_cannot_be_booked_on_one_node() -> None:
    decision = judged(a_request(count=5))
    assert [(v.rule, v.limit, v.actual) for v in decision.violations] == [("more-than-one-node-has", 4, 5)]
    assert judged(a_request(count=5, topology="any")).is_accepted


def test_a_model_whose_devices_are_all_unhealthy_is_known_and_cannot_be_booked() -> None:
    decision = judged(a_request(), capacity=Capacity({A100: {"n0": 0}}))
    assert rules(decision) == ["more-than-exist"]


def test_a_full_calendar_reports_how_much_is_available_and_when() -> None:
    others = (
        a_record(day(0), day(4), user="bob", count=3),
        a_record(day(1), day(6), user="bob", count=2),
    )
    decision = judged(a_request(count=2), others=others)
    (violation,) = decision.violations
    assert (violation.rule, violation.limit, violation.actual) == ("capacity", 1, 2)
    assert violation.earliest_start == decision.earliest_start == day(4)
    assert violation.message == (
        f"1 of the 6 GPUs of model {A100} can be had all the time from 2026-03-02 09:00 UTC "
        "to 2026-03-04 09:00 UTC, and 2 are asked for."
    )


def test_a_full_calendar_is_reported_with_a_wrong_namespace() -> None:
    full = a_record(day(0), day(4), user="bob", count=6)
    assert rules(judged(a_request(namespace="A B"), others=(full,))) == ["not-a-namespace", "capacity"]


def test_a_user_with_a_running_booking_is_shown_the_first_day_after_the_cooldown() -> None:
    decision = judged(a_request(), history=(a_record(day(-1), day(2)),))
    assert rules(decision) == ["no-active-overlap", "cooldown"]
    assert decision.earliest_start == day(16)


def test_the_earliest_start_waits_for_the_rules_and_then_for_a_gap() -> None:
    past = a_record(day(-5), day(-3))
    others = (
        a_record(day(10), day(13), user="bob", count=6),
        a_record(day(14), day(20), user="bob", count=6),
    )
    decision = judged(a_request(), history=(past,), others=others)
    assert decision.earliest_start == day(20)


def test_a_booking_that_is_too_long_is_refused_with_the_start_of_one_of_the_right_length() -> None:
    history = (a_record(day(-1), day(2)),)
    decision = judged(a_request(end=day(14) + SECOND), history=history)
    assert rules(decision) == ["no-active-overlap", "cooldown", "longest"]
    assert decision.earliest_start == day(16)


@pytest.mark.parametrize("end", [START, START - SECOND, START - timedelta(days=400)])
def test_an_end_that_is_not_after_the_start_is_reported_alone(end: datetime) -> None:
    decision = judged(a_request(START, end))
    assert rules(decision) == ["ends-before-it-starts"]
    assert decision.earliest_start is None


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


def test_an_instant_that_does_not_exist_in_utc_is_beyond_the_calendar() -> None:
    end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(-timedelta(hours=5)))
    start = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))
    decision = judged(a_request(start, end))
    assert rules(decision) == ["beyond-the-calendar", "beyond-the-calendar"]
    assert (decision.start, decision.end) == (None, None)


def test_an_instant_without_an_offset_is_refused() -> None:
    decision = judged(a_request(START.replace(tzinfo=None), day(2)))
    assert rules(decision) == ["no-offset"]
    assert '"+02:00"' in decision.violations[0].message


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


def test_a_request_that_is_refused_at_any_time_has_no_earliest_start() -> None:
    assert judged(a_request(namespace="No Such"), others=(FULL,)).earliest_start is None


# --- properties --------------------------------------------------------------------------------------


def hours(low: int, high: int) -> st.SearchStrategy[timedelta]:
    return st.integers(low, high).map(lambda number: number * 24 * HOUR)


RECORDS = st.lists(
    st.builds(
        lambda start, length, count, user: a_record(
            START + start, START + start + length, count=count, user=user
        ),
        hours(-30, 30),
        hours(1, 14),
        st.integers(1, 6),
        st.sampled_from(["alice", "bob"]),
    ),
    max_size=10,
)
REQUESTS = st.builds(
    lambda start, length, count: a_request(
        START + start, START + start + length, count=count, topology="any"
    ),
    hours(0, 40),
    hours(1, 14),
    st.integers(1, 6),
)


def judged_among(records: list[Record], request: BookingRequest, now: datetime = START) -> Decision:
    mine = tuple(record for record in records if record.user == "alice")
    others = tuple(record for record in records if record.user != "alice")
    return judged(request, history=mine, others=others, now=now)


@given(RECORDS, REQUESTS)
def test_a_request_has_capacity_exactly_when_it_fits_at_every_instant(
    records: list[Record], request: BookingRequest
) -> None:
    assert request.start
    decision = judged_among(records, request)
    instants = [request.start, *(r.start for r in records if request.start <= r.start < request.end)]
    fits = all(
        sum(r.count for r in records if r.start <= instant < r.end) + request.count <= 6
        for instant in instants
    )
    assert ("capacity" in rules(decision)) == (not fits)


@given(RECORDS, REQUESTS)
def test_a_booking_is_accepted_at_its_earliest_start_and_on_no_earlier_day(
    records: list[Record], request: BookingRequest
) -> None:
    assert request.start
    length = request.end - request.start
    earliest = judged_among(records, request).earliest_start
    assert earliest is not None

    def accepted(start: datetime) -> bool:
        # Requested at that moment, as by a user who has waited.
        return judged_among(
            records, a_request(start, start + length, count=request.count, topology="any"), start
        ).is_accepted

    assert accepted(earliest)
    day_before, first = START, earliest
    while day_before < first:
        assert not accepted(day_before)
        day_before += timedelta(days=1)


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
