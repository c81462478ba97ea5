from datetime import UTC, datetime, timedelta

import pytest

from booking.alternatives import MOST, Alternative
from booking.capacity import Capacity
from booking.evaluate import Decision, evaluate
from booking.policy.limits import Limits
from booking.promises.calendars import calendar_of
from booking.promises.room import Rooms
from booking.records import BookingRequest, Place, Record
from booking.spans import Span
from cluster.fake.clock import START
from tests.fakes.objects import A100, A6000
from tests.fakes.records import CLUSTER, a_record, a_request, day

NO_COOLDOWN = Limits(cooldown=Span())


def judged(
    request: BookingRequest,
    *records: Record,
    limits: Limits | None = None,
    capacity: Capacity = CLUSTER,
    now: datetime = START,
) -> Decision:
    return evaluate(
        now,
        lambda _: limits or Limits(),
        history=[record for record in records if record.user == "alice"],
        room_for=Rooms(
            capacity=capacity,
            now=now,
            calendar_of=lambda model: calendar_of(each for each in records if each.model == model),
        ),
        capacity=capacity,
        request=request,
    )


def brief(found: tuple[Alternative, ...]) -> list[tuple[object, ...]]:
    return [(each.why, each.start, each.end, each.count, each.model) for each in found]


def test_what_is_accepted_needs_none() -> None:
    assert judged(a_request()).alternatives == ()


def test_a_full_calendar_has_later_shorter_and_fewer() -> None:
    booked = a_record(day(3), day(6), user="bob", count=4, plan=(Place("n0", 4),))
    found = judged(a_request(day(1), day(8), count=4, topology="any"), booked).alternatives
    assert brief(found) == [
        ("later", day(6), day(13), 4, A100),
        ("shorter", day(1), day(3), 4, A100),
        ("fewer-gpus", day(1), day(8), 2, A100),
    ]


def test_another_model_is_offered_too() -> None:
    booked = a_record(day(0), day(900), user="bob", count=6, plan=(Place("n0", 4), Place("n1", 2)))
    decision = judged(a_request(day(1), day(3)), booked, limits=Limits(horizon=Span(days=30)))
    assert decision.alternatives[0].why == "other-model"
    assert decision.alternatives[0].model == A6000
    assert len(decision.alternatives) == MOST, "and later days of it"


def test_who_needs_no_single_node_is_told_so() -> None:
    booked = a_record(day(0), day(9), user="bob", count=2, plan=(Place("n0", 2),))
    found = judged(a_request(day(1), day(3), count=4), booked).alternatives
    assert ("several-nodes", "any") in [(each.why, each.topology) for each in found]


def test_more_than_the_largest_node_has_may_be_had_on_several() -> None:
    found = judged(a_request(day(1), day(3), count=5)).alternatives
    assert (found[0].why, found[0].topology, found[0].count) == ("several-nodes", "any", 5)


def test_a_booking_that_is_too_long_is_offered_as_long_as_is_allowed() -> None:
    found = judged(a_request(day(1), day(30))).alternatives
    assert brief(found)[0] == ("within-limits", day(1), day(15), 1, A100)


def test_a_booking_that_is_too_short_is_offered_as_long_as_is_demanded() -> None:
    found = judged(a_request(day(1), day(1.5))).alternatives
    assert brief(found)[0] == ("within-limits", day(1), day(2), 1, A100)


def test_too_many_gpus_become_as_many_as_are_allowed() -> None:
    found = judged(a_request(day(1), day(3), count=4), limits=Limits(max_gpus_per_booking=2)).alternatives
    assert brief(found)[0] == ("within-limits", day(1), day(3), 2, A100)


def test_a_start_in_the_past_becomes_now() -> None:
    found = judged(a_request(day(-3), day(-1))).alternatives
    assert brief(found)[0] == ("within-limits", START, day(2), 1, A100)


def test_a_start_beside_the_steps_is_moved_to_the_next_one() -> None:
    limits = Limits(granularity=Span(seconds=3600))
    found = judged(a_request(day(1) + timedelta(minutes=5), day(3)), limits=limits).alternatives
    assert found[0].start == day(1) + timedelta(hours=1)
    assert (found[0].end - found[0].start).total_seconds() % 3600 == 0


def test_a_start_that_is_too_far_ahead_comes_nearer() -> None:
    limits = Limits(horizon=Span(days=10))
    found = judged(a_request(day(20), day(22)), limits=limits).alternatives
    assert ("earlier", START, day(2), 1, A100) in brief(found)


def test_after_a_cooldown_the_first_day_is_offered() -> None:
    past = a_record(day(-5), day(-3))
    found = judged(a_request(day(1), day(3)), past).alternatives
    assert brief(found) == [("later", day(11 + n), day(13 + n), 1, A100) for n in range(3)]


def test_who_has_a_running_booking_has_no_alternative() -> None:
    decision = judged(a_request(day(1), day(3)), a_record(day(-1), day(3)))
    assert decision.alternatives == ()
    assert decision.earliest_start == day(17)


def test_an_unknown_model_has_those_that_there_are() -> None:
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
def test_more_than_can_be_had_at_any_time_becomes_fewer_or_on_several_nodes_and_later(
    request_: BookingRequest,
    records: tuple[Record, ...],
    limits: Limits | None,
    first: tuple[object, ...],
) -> None:
    found = judged(request_, *records, limits=limits).alternatives
    assert len([each for each in found if each.model == A100]) == MOST
    assert (found[0].why, found[0].start, found[0].count, found[0].topology) == first


def test_what_makes_no_sense_has_none() -> None:
    for request in (
        a_request(day(3), day(1)),
        a_request(day(1), datetime(9999, 1, 1, tzinfo=UTC)),
        a_request(START.replace(tzinfo=None), day(1)),
    ):
        assert judged(request).alternatives == ()


def test_a_wrong_namespace_alone_is_no_reason_for_another_time() -> None:
    decision = judged(a_request(day(1), day(3), namespace="No Such"))
    assert decision.alternatives == ()
