"""When a number of GPUs is free for a length of time, before a deadline."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.errors import NotAllowedError, RefusedError
from booking.server.records import BookingRequest, Slot, SlotRequest
from booking.server.service import BookingService
from booking.server.service.idempotency import Key
from booking.server.store import Store
from cluster.fake.clock import START, FakeClock
from tests.fakes.objects import A100
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import CLUSTER, a_request, day

ALICE, BOB, CAROL, ROOT = somebody("alice"), somebody("bob"), somebody("carol"), an_administrator()
HOUR = timedelta(hours=1)


def slot_request(count: int = 4, days: int = 3, **more: object) -> SlotRequest:
    return SlotRequest(model=A100, count=count, duration=Duration(days=days), **more)


def rules(service: BookingService, request: SlotRequest) -> list[str]:
    with pytest.raises(RefusedError) as refused:
        service.earliest(ALICE, request)
    return [violation.rule for violation in refused.value.violations]


def booked(service: BookingService, slot: Slot) -> None:
    """Every slot can be booked."""
    request = BookingRequest(
        model=slot.model, count=slot.count, start=slot.start, end=slot.end, topology=slot.topology
    )
    assert service.dry_run_create(ALICE, request).is_accepted


def test_the_first_slots_are_of_different_days_and_each_can_be_booked(service: BookingService) -> None:
    service.create(BOB, a_request(end=day(5.5), count=4))
    slots = service.earliest(ALICE, slot_request())
    midnight = day(5.5).replace(hour=0)
    assert [slot.start for slot in slots] == [
        day(5.5),
        midnight + timedelta(days=1),
        midnight + timedelta(days=2),
    ]
    assert all(slot.end - slot.start == timedelta(days=3) for slot in slots)
    assert {slot.topology for slot in slots} == {"single-node"}
    for slot in slots:
        booked(service, slot)


def test_a_slot_from_now_on_is_now(service: BookingService) -> None:
    assert service.earliest(ALICE, slot_request(), most=1)[0].start == START


def test_slots_that_are_shorter_than_a_day_follow_each_other(store: Store, clock: FakeClock) -> None:
    service = BookingService(store, clock, Limits(shortest=Duration(seconds=3600)), lambda: CLUSTER)
    request = SlotRequest(model=A100, duration=Duration(seconds=7200), not_before=day(1))
    assert [slot.start for slot in service.earliest(ALICE, request)] == [
        day(1),
        day(1) + 2 * HOUR,
        day(1) + 4 * HOUR,
    ]


def test_a_slot_ends_by_the_deadline_or_the_refusal_names_the_first_slot(service: BookingService) -> None:
    service.create(BOB, a_request(end=day(5), count=4))
    assert [slot.end for slot in service.earliest(ALICE, slot_request(deadline=day(8)))] == [day(8)]
    with pytest.raises(RefusedError) as refused:
        service.earliest(ALICE, slot_request(deadline=day(7.9)))
    assert [violation.rule for violation in refused.value.violations] == ["after-the-deadline", "capacity"]
    assert refused.value.earliest_start == day(5)


def test_a_user_who_may_not_book_now_is_refused_with_the_reason_and_the_earliest_start(
    service: BookingService,
) -> None:
    service.create(ALICE, a_request(end=day(2)))
    with pytest.raises(RefusedError) as refused:
        service.earliest(ALICE, slot_request())
    assert "no-active-overlap" in [violation.rule for violation in refused.value.violations]
    assert refused.value.earliest_start == day(16)


def test_a_planned_booking_hides_no_free_times_from_somebody_who_asks_despite_it(
    service: BookingService,
) -> None:
    service.create(BOB, a_request(end=day(2), count=4))
    service.create(ALICE, a_request(start=day(20), end=day(22)))
    assert "one-planned" in rules(service, slot_request())
    assert service.earliest(ALICE, slot_request(), despite_planned=True, most=1)[0].start == day(2)
    service.create(CAROL, a_request(end=day(2)))
    with pytest.raises(RefusedError) as refused:
        service.earliest(CAROL, slot_request(), despite_planned=True)
    assert "no-active-overlap" in [violation.rule for violation in refused.value.violations]


def test_the_first_slot_is_after_the_cooldown(service: BookingService, clock: FakeClock) -> None:
    service.create(ALICE, a_request(end=day(2)))
    clock.advance(timedelta(days=3).total_seconds())
    assert service.earliest(ALICE, slot_request())[0].start == day(16)


@pytest.mark.parametrize(
    ("booking_request", "rule"),
    [
        (slot_request(count=0), "count-below-one"),
        (slot_request(count=5), "more-than-one-node-has"),
        (slot_request(count=10**9), "more-than-exist"),
        (slot_request(days=0), "ends-before-it-starts"),
        (slot_request(days=15), "longest"),
        (slot_request(namespace="No"), "not-a-namespace"),
        (slot_request(not_before=day(1).replace(tzinfo=None)), "no-offset"),
        (slot_request(deadline=day(1).replace(tzinfo=None)), "no-offset"),
        (slot_request(not_before=day(9).replace(year=9999)), "too-far-ahead"),
        (SlotRequest(model="H100", duration=Duration(days=2)), "unknown-model"),
    ],
)
def test_a_request_that_can_never_be_granted_is_refused(
    service: BookingService, booking_request: SlotRequest, rule: str
) -> None:
    assert rule in rules(service, booking_request)


def test_administrators_search_slots_for_others(service: BookingService) -> None:
    service.create(ALICE, a_request(end=day(2)))
    assert service.earliest(ROOT, slot_request())
    with pytest.raises(RefusedError):
        service.earliest(ROOT, slot_request(), user="alice")
    with pytest.raises(NotAllowedError):
        service.earliest(BOB, slot_request(), user="alice")


def test_the_first_slot_is_booked_in_the_transaction_that_finds_it(service: BookingService) -> None:
    service.create(BOB, a_request(end=day(5.5), count=4))
    (first, *_) = service.earliest(ALICE, slot_request())
    key = Key.of("once", b"the request")
    made = service.create_earliest(ALICE, slot_request(), key=key)
    assert (made.start, made.end, made.count, made.user) == (first.start, first.end, 4, "alice")
    assert service.create_earliest(ALICE, slot_request(), key=key) == made
    assert [entry.action for entry in service.audit(ROOT, subject=made.id).entries] == ["booking.create"]


def test_without_a_slot_in_time_nothing_is_booked_and_the_demand_is_recorded(
    service: BookingService,
) -> None:
    service.create(BOB, a_request(end=day(5), count=4))
    with pytest.raises(RefusedError) as refused:
        service.create_earliest(ALICE, slot_request(deadline=day(7)))
    assert [violation.rule for violation in refused.value.violations] == ["after-the-deadline", "capacity"]
    assert service.list(ALICE).entries == ()
    (denied,) = service.denied(ROOT).entries
    assert (denied.user, denied.count, denied.start) == ("alice", 4, START)
    assert denied.rules == ("after-the-deadline", "capacity")


def test_a_first_slot_after_the_deadline_is_refused_with_the_cooldown_that_causes_it(
    store: Store, clock: FakeClock
) -> None:
    """The step of the grid on which it would begin is no reason."""
    limits = Limits(granularity=Duration(seconds=3600))
    service = BookingService(store, clock, limits, lambda: CLUSTER)
    service.create(ALICE, a_request(end=day(1)))
    clock.advance(86400 + 60)
    with pytest.raises(RefusedError) as refused:
        service.earliest(ALICE, slot_request(days=2, deadline=day(5)))
    assert [violation.rule for violation in refused.value.violations] == ["after-the-deadline", "cooldown"]
    assert refused.value.earliest_start == day(15)


def test_users_who_want_the_first_slot_at_once_each_get_another(store: Store, clock: FakeClock) -> None:
    """No other booking takes a slot between its search and its booking."""
    service = BookingService(store, clock, Limits(), lambda: CLUSTER)
    people = [somebody(f"u{number}") for number in range(6)]
    with ThreadPoolExecutor(len(people)) as pool:
        made = list(pool.map(lambda who: service.create_earliest(who, slot_request()), people))
    assert len({one.id for one in made}) == len(people)
    for one in made:
        overlapping = [other for other in made if other.start < one.end and one.start < other.end]
        assert sum(other.count for other in overlapping) <= CLUSTER.total(one.model)


def why(refused: pytest.ExceptionInfo[RefusedError]) -> dict[str, tuple[int, object, object]]:
    return {each.why: (each.count, each.start, each.end) for each in refused.value.alternatives}


def offers(refused: pytest.ExceptionInfo[RefusedError]) -> list[tuple[object, ...]]:
    return [(each.why, each.count, each.start, each.end) for each in refused.value.alternatives]


def test_a_request_over_a_limit_is_refused_with_what_would_be_accepted(service: BookingService) -> None:
    with pytest.raises(RefusedError) as refused:
        service.earliest(ALICE, slot_request(days=15))
    assert why(refused)["within-limits"] == (4, day(0), day(14))
    with pytest.raises(RefusedError) as refused:
        service.create_earliest(ALICE, slot_request(days=15))
    assert why(refused)["within-limits"] == (4, day(0), day(14))


def test_alternatives_before_a_deadline_end_by_then(service: BookingService) -> None:
    """Three days of four GPUs begin after two: a slot that ends by the fourth day has fewer of them."""
    service.create(BOB, a_request(end=day(2), count=2))
    service.create(CAROL, a_request(end=day(2), count=2))
    request = SlotRequest(
        model=A100, count=4, duration=Duration(days=3), topology="single-node", deadline=day(4)
    )
    with pytest.raises(RefusedError) as refused:
        service.earliest(ALICE, request)
    assert [each.rule for each in refused.value.violations] == ["after-the-deadline", "capacity"]
    assert all(each.end <= day(4) for each in refused.value.alternatives)
    assert why(refused)


def test_a_slot_that_begins_in_time_and_ends_too_late_is_offered_shorter(service: BookingService) -> None:
    with pytest.raises(RefusedError) as refused:
        service.earliest(ALICE, slot_request(days=5, deadline=day(3)))
    assert [each.rule for each in refused.value.violations] == ["after-the-deadline"]
    assert offers(refused) == [("shorter", 4, day(start), day(3)) for start in range(3)]


def test_shorter_slots_are_offered_when_the_first_would_end_too_late(service: BookingService) -> None:
    """Full until day six: of the three days that are left before the deadline."""
    service.create(BOB, a_request(end=day(6), count=4))
    service.create(CAROL, a_request(end=day(6), count=2))
    with pytest.raises(RefusedError) as refused:
        service.earliest(ALICE, slot_request(days=5, deadline=day(9)))
    assert [each.rule for each in refused.value.violations] == ["after-the-deadline", "capacity"]
    assert offers(refused) == [("shorter", 4, day(start), day(9)) for start in (6, 7, 8)]
