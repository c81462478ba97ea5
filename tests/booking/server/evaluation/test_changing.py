"""Changes of bookings, as ``evaluate`` judges them: extend, shorten, move, more and fewer GPUs."""

from datetime import timedelta
from typing import Any

import msgspec

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.capacity.capacity import Capacity
from booking.server.evaluation.evaluate import Decision, evaluate
from booking.server.records import BookingRequest, Place, Record
from cluster.fake.clock import START
from tests.booking.server.evaluation.planned import planned
from tests.fakes.objects import A100
from tests.fakes.records import CLUSTER, a_record, day

RUNNING = a_record(day(-1), day(3), count=2, plan=(Place("n0", 2),), topology="single-node")
PLANNED = a_record(day(2), day(5), count=2, plan=(Place("n0", 2),), topology="single-node")


def changed(
    mine: Record,
    *,
    others: tuple[Record, ...] = (),
    limits: Limits | None = None,
    capacity: Capacity = CLUSTER,
    **fields: Any,
) -> Decision:
    records = (mine, *others)
    request = BookingRequest(
        model=mine.model, start=mine.start, end=mine.end, count=mine.count, topology=mine.topology
    )
    return evaluate(
        START,
        lambda _: limits or Limits(),
        history=[each for each in records if each.user == mine.user],
        free_capacity_for=planned(records, capacity, START, mine),
        capacity=capacity,
        request=msgspec.structs.replace(request, **fields),
        changing=mine,
    )


def rules(decision: Decision) -> list[str]:
    return [violation.rule for violation in decision.violations]


def test_a_running_booking_is_extended_where_it_is() -> None:
    decision = changed(RUNNING, end=day(6))
    assert rules(decision) == []
    assert (decision.start, decision.end) == (day(-1), day(6))
    assert decision.plan == (Place("n0", 2),)


def test_an_extension_without_room_is_offered_as_far_as_there_is_room() -> None:
    full = a_record(day(5), day(9), user="bob", id="b-bob", count=6)
    decision = changed(RUNNING, others=(full,), end=day(8), topology="any")
    assert rules(decision) == ["capacity"]
    assert decision.earliest_start is None, "a running booking does not begin at another time"
    best = decision.alternatives[0]
    assert (best.why, best.start, best.end, best.count) == ("shorter", day(-1), day(5), 2)


def test_the_start_of_a_running_booking_stays() -> None:
    decision = changed(RUNNING, start=day(1))
    assert rules(decision) == ["has-begun"]
    assert "its start cannot be moved" in decision.violations[0].message


def test_a_planned_booking_is_moved_like_a_new_one() -> None:
    assert rules(changed(PLANNED, start=day(1), end=day(4))) == []
    assert rules(changed(PLANNED, start=day(-1))) == ["starts-in-the-past"]
    assert rules(changed(PLANNED, end=day(1))) == ["ends-before-it-starts"]
    assert rules(changed(PLANNED, count=0)) == ["count-below-one"]
    past = a_record(day(-15), day(-13), id="b-past")
    assert rules(changed(PLANNED, others=(past,))) == []
    assert rules(changed(PLANNED, others=(past,), start=day(0.5))) == ["cooldown"]


def test_giving_back_needs_no_room_and_no_new_permission() -> None:
    # Half of the devices are gone, and the policy is stricter than it was.
    gone = Capacity({A100: {"n0": 1}})
    strict = Limits(
        longest=Duration(days=1),
        max_gpus_per_booking=0,
        max_concurrent_gpus=0,
        horizon=Duration(),
        may_extend=False,
    )
    for fields in ({"end": day(2)}, {"end": day(3), "namespace": "lab"}):
        decision = changed(RUNNING, capacity=gone, limits=strict, count=1, **fields)
        assert rules(decision) == []
        assert decision.plan == (Place("n0", 1),)
    assert rules(changed(PLANNED, capacity=gone, limits=strict, start=day(3), count=1)) == []


def test_giving_back_leaves_at_least_the_shortest_booking() -> None:
    assert rules(changed(PLANNED, end=day(2.5))) == ["shortest"]


def offers(decision: Decision) -> list[tuple[object, ...]]:
    return [(each.why, each.start, each.end, each.count) for each in decision.alternatives]


def test_a_long_extension_of_an_old_booking_is_offered_as_far_as_there_is_room() -> None:
    long = a_record(day(-9), day(1), count=2, plan=(Place("n0", 2),), topology="single-node")
    full = a_record(day(3), day(9), user="bob", id="b-bob", count=6)
    decision = changed(long, others=(full,), end=day(5))
    assert rules(decision) == ["capacity"]
    assert offers(decision) == [
        ("shorter", day(-9), day(3), 2),
        ("shorter", day(-9), day(2), 2),
        ("fewer-gpus", day(-9), day(3), 1),
    ]


def test_the_booking_as_it_is_already_is_no_alternative() -> None:
    full = a_record(day(3), day(9), user="bob", id="b-bob", count=6)
    assert changed(RUNNING, others=(full,), end=day(6)).alternatives == ()
    assert changed(RUNNING, others=(full,), end=day(3), count=6).alternatives[0].count == 4
    other = a_record(day(-1), day(9), user="bob", id="b-bob", count=4, plan=(Place("n0", 2), Place("n1", 2)))
    assert changed(RUNNING, others=(other,), count=4).alternatives == ()


def test_moving_a_running_booking_is_offered_from_its_own_start() -> None:
    decision = changed(RUNNING, start=day(1), end=day(5))
    assert rules(decision) == ["has-begun"]
    assert offers(decision)[0] == ("within-limits", day(-1), day(5), 2)


def test_moving_a_planned_booking_to_the_past_is_offered_from_now_on() -> None:
    decision = changed(PLANNED, start=day(-5), end=day(-2))
    assert rules(decision) == ["starts-in-the-past"]
    assert offers(decision)[0] == ("within-limits", START, day(3), 2)


def test_giving_back_part_of_what_is_lost_is_accepted_even_where_the_rest_is_gone_too() -> None:
    gone = Capacity({A100: {"n0": 1}})
    decision = changed(RUNNING, capacity=gone, end=day(2))
    assert (rules(decision), decision.plan) == ([], (Place("n0", 2),))
    assert rules(changed(RUNNING, capacity=gone, end=day(4))) == ["capacity"]


def test_the_start_of_a_booking_that_has_just_begun_is_not_moved_to_now() -> None:
    begun = msgspec.structs.replace(RUNNING, start=START - timedelta(minutes=2))
    decision = changed(begun, end=day(5))
    assert (rules(decision), decision.start) == ([], START - timedelta(minutes=2))


def test_l5_what_others_had_before_now_leaves_no_less_for_an_extension() -> None:
    over = a_record(day(-2), day(0), user="bob", id="b-bob", count=4, plan=(Place("n0", 2), Place("n1", 2)))
    decision = changed(RUNNING, others=(over,), capacity=Capacity({A100: {"n0": 2}}), end=day(5))
    assert (rules(decision), decision.plan) == ([], (Place("n0", 2),))


def test_a_booking_that_would_become_too_short_is_offered_as_short_as_is_allowed() -> None:
    decision = changed(PLANNED, end=day(2.5))
    assert rules(decision) == ["shortest"]
    assert offers(decision)[0] == ("within-limits", day(2), day(3), 2)


def test_a_later_start_is_offered_even_where_nothing_else_than_less_is_left() -> None:
    full = a_record(day(5), day(20), user="bob", id="b-bob", count=6)
    decision = changed(PLANNED, others=(full,), start=day(3), end=day(8))
    assert offers(decision) == [
        ("later", day(20), day(25), 2),
        ("shorter", day(3), day(5), 2),
        ("earlier", day(0), day(5), 2),
    ]


def test_a_running_booking_off_the_steps_of_the_policy_keeps_its_start_in_the_offer_of_less() -> None:
    late = timedelta(minutes=5)
    mine = msgspec.structs.replace(RUNNING, start=day(-5) + late, end=day(5) + late)
    decision = changed(mine, end=day(20) + late, limits=Limits(granularity=Duration(seconds=3600)))
    assert rules(decision) == ["longest"]
    assert offers(decision)[0] == ("within-limits", mine.start, day(9) + late, 2)
