"""Changing a booking: judged as a whole, stored as a whole or not at all."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.principals import Principal
from booking.server.capacity.capacity import Capacity
from booking.server.errors import RefusedError, StaleError, UnknownBookingError
from booking.server.records import Change, Place, Record
from booking.server.service import BookingService, Key
from booking.server.store import Store
from cluster.fake.clock import START, FakeClock
from tests.booking.server.service.verdicts import verdict
from tests.fakes.objects import A100
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import CLUSTER, a_request, day

ALICE, BOB, ROOT = somebody("alice"), somebody("bob"), an_administrator()
DAY = timedelta(days=1).total_seconds()


def rules(service: BookingService, record: Record, change: Change) -> list[str]:
    """The rules that it breaks; nothing is changed then, and a dry run answers the same."""
    tried = service.dry_run_change(ALICE, record.id, change)
    with pytest.raises(RefusedError) as refused:
        service.change(ALICE, record.id, change)
    assert service.show(ALICE, record.id) == record
    assert refused.value.violations == tried.violations
    return [violation.rule for violation in refused.value.violations]


@pytest.mark.parametrize(
    "change",
    [
        Change(end=day(5)),
        Change(end=day(2)),
        Change(start=day(3), end=day(5)),
        Change(start=day(0.5)),
        Change(count=4),
        Change(count=1),
        Change(namespace="lab"),
        Change(start=day(2), end=day(6), count=3, namespace=None),
    ],
)
def test_a_planned_booking_is_changed_as_requested(
    service: BookingService, store: Store, change: Change
) -> None:
    record = service.create(ALICE, a_request(day(1), day(3), count=2, namespace="team"))
    tried = service.dry_run_change(ALICE, record.id, change)
    after = service.change(ALICE, record.id, change, expected=record.version)
    for name in Change.__struct_fields__:
        requested = getattr(change, name)
        kept = getattr(record, name)
        assert getattr(after, name) == (kept if requested is Change().start else requested)
    assert (after.id, after.created, after.topology) == (record.id, record.created, "single-node")
    assert sum(place.count for place in after.plan) == after.count
    assert (tried.start, tried.end, tried.count) == (after.start, after.end, after.count)
    assert store.records_ending_after(START) == [after]


def test_the_gpus_of_an_extended_booking_are_free_for_itself(service: BookingService) -> None:
    record = service.create(ALICE, a_request(end=day(2), count=4))
    service.create(BOB, a_request(end=day(2), count=2))
    assert service.change(ALICE, record.id, Change(end=day(14))).end == day(14)


def test_an_extension_over_bookings_of_others_is_refused_with_all_broken_rules(
    service: BookingService,
) -> None:
    record = service.create(ALICE, a_request(end=day(2), count=4))
    service.create(BOB, a_request(day(2), day(4), count=4))
    assert rules(service, record, Change(end=day(15))) == ["longest", "capacity"]
    assert service.change(ALICE, record.id, Change(end=day(2))) == record


def test_a_running_booking_cannot_move_its_start(service: BookingService, clock: FakeClock) -> None:
    record = service.create(ALICE, a_request())
    clock.advance(60)
    assert rules(service, record, Change(start=day(1))) == ["has-begun"]
    assert rules(service, record, Change(start=day(-1), end=day(3))) == ["has-begun"]
    assert service.change(ALICE, record.id, Change(start=record.start, end=day(3))).end == day(3)


def test_a_planned_booking_can_begin_now(service: BookingService, clock: FakeClock) -> None:
    record = service.create(ALICE, a_request(day(5), day(8)))
    clock.advance(DAY)
    after = service.change(ALICE, record.id, Change(start=day(1), end=day(3)))
    assert (after.start, after.state(clock.now())) == (day(1), "active")
    assert rules(service, after, Change(start=day(2))) == ["has-begun"]


@pytest.mark.parametrize("end", [day(1), day(0.5)])
def test_a_booking_shortened_to_now_or_earlier_is_released(
    service: BookingService, clock: FakeClock, end: object
) -> None:
    record = service.create(ALICE, a_request(end=day(5)))
    clock.advance(DAY + 0.5)
    tried = service.dry_run_change(ALICE, record.id, Change(end=end))
    after = service.change(ALICE, record.id, Change(end=end))
    assert (after.end, after.released) == (day(1) + timedelta(seconds=1), day(1))
    assert tried.end == after.end
    assert after.state(clock.now()) == "ended"
    with pytest.raises(RefusedError) as refused:
        service.create(ALICE, a_request())
    assert refused.value.earliest_start == day(15) + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (Change(count=0), "count-below-one"),
        (Change(count=10**9), "more-than-exist"),
        (Change(count=5), "more-than-one-node-has"),
        (Change(namespace="No Namespace"), "not-a-namespace"),
        (Change(end=day(0)), "ends-before-it-starts"),
        (Change(end=day(5).replace(tzinfo=None)), "no-offset"),
        (Change(end=day(5).replace(year=9999)), "too-far-ahead"),
        (Change(start=day(-2)), "starts-in-the-past"),
        (Change(end=day(1.5)), "shortest"),
        (Change(end=day(15.1)), "longest"),
    ],
)
def test_an_impossible_change_is_refused_and_nothing_is_changed(
    service: BookingService, change: Change, rule: str
) -> None:
    record = service.create(ALICE, a_request(day(1), day(3), count=2))
    assert rule in rules(service, record, change)


def test_giving_back_is_granted_even_with_lost_devices_and_tighter_limits(
    store: Store, clock: FakeClock
) -> None:
    there, limits = [CLUSTER], [Limits()]
    service = BookingService(store, clock, limits[0], lambda: there[0])
    record = service.create(ALICE, a_request(end=day(14), count=4))
    clock.advance(DAY)
    there[0] = Capacity({A100: {"n0": 3, "n1": 1}})
    tighter = BookingService(store, clock, Limits(longest=Duration(days=3)), lambda: there[0])
    after = tighter.change(ALICE, record.id, Change(end=day(10), count=3))
    assert (after.end, after.count, sum(place.count for place in after.plan)) == (day(10), 3, 3)


def test_a_booking_whose_devices_are_all_gone_can_still_be_shortened_but_not_extended(
    store: Store, clock: FakeClock
) -> None:
    there = [CLUSTER]
    service = BookingService(store, clock, Limits(), lambda: there[0])
    record = service.create(ALICE, a_request(end=day(10), count=4))
    for gone in (Capacity({A100: {"n0": 3, "n1": 1}}), Capacity({A100: {}}), Capacity({})):
        there[0] = gone
        assert rules(service, record, Change(end=day(11))) == ["capacity"]
        record = service.change(ALICE, record.id, Change(end=record.end - timedelta(days=1)))
    assert (record.end, record.count) == (day(7), 4)


def test_a_stale_version_changes_nothing(service: BookingService, store: Store) -> None:
    record = service.create(ALICE, a_request(day(1)))
    newer = service.change(ALICE, record.id, Change(end=day(5)), expected=record.version)
    doing: list[Callable[[], Record]] = [
        lambda: service.change(ALICE, record.id, Change(end=day(6)), expected=record.version),
        lambda: service.cancel(ALICE, record.id, expected=record.version),
        lambda: service.release(ALICE, record.id, expected=record.version),
    ]
    for do in doing:
        with pytest.raises(StaleError) as stale:
            do()
        assert stale.value.version == newer.version
    assert store.records_ending_after(START) == [newer]
    assert service.cancel(ALICE, record.id, expected=newer.version).cancelled == START


def test_moving_a_booking_in_the_plan_keeps_its_version(service: BookingService, store: Store) -> None:
    record = service.create(ALICE, a_request(day(1)))
    store.write(lambda writing: writing.replan(record.id, (Place("n1", 1),)))
    moved = service.show(ALICE, record.id)
    assert (moved.plan, moved.change > record.change) == ((Place("n1", 1),), True)
    assert moved.version == record.version
    after = service.change(ALICE, record.id, Change(end=day(5)), expected=record.version)
    assert after.version != record.version


def test_only_administrators_change_bookings_of_others_and_by_the_owners_rules(
    service: BookingService,
) -> None:
    record = service.create(ALICE, a_request(day(1)))
    with pytest.raises(UnknownBookingError):
        service.change(BOB, record.id, Change(end=day(5)))
    with pytest.raises(UnknownBookingError):
        service.dry_run_change(BOB, record.id, Change(end=day(5)))
    with pytest.raises(RefusedError) as refused:
        service.change(ROOT, record.id, Change(end=day(16)), reason="they asked on the phone")
    assert [violation.rule for violation in refused.value.violations] == ["longest"]
    with pytest.raises(RefusedError, match="reason is missing"):
        service.change(ROOT, record.id, Change(end=day(5)))
    after = service.change(ROOT, record.id, Change(end=day(5)), reason="they asked on the phone")
    assert (after.user, after.end) == ("alice", day(5))
    newest = service.audit(ROOT).entries[0]
    assert (newest.actor, newest.reason) == ("root", "they asked on the phone")


def test_a_change_is_audited_and_a_refused_one_is_recorded_as_denied_demand(service: BookingService) -> None:
    record = service.create(ALICE, a_request(day(1), day(3)))
    after = service.change(ALICE, record.id, Change(count=2))
    newest = service.audit(ROOT).entries[0]
    assert (newest.actor, newest.action, newest.subject) == ("alice", "booking.change", record.id)
    assert newest.before is not None
    assert newest.after is not None
    assert (newest.before["count"], newest.after["count"]) == (1, 2)
    assert rules(service, after, Change(end=day(20))) == ["longest"]
    (denied,) = service.denied(ROOT).entries
    assert (denied.user, denied.end, denied.rules) == ("alice", day(20), ("longest",))
    assert len(service.audit(ROOT).entries) == 2


def test_a_booking_grown_to_several_gpus_lies_on_one_node_unless_requested_otherwise(
    service: BookingService,
) -> None:
    one = service.create(ALICE, a_request(day(1)))
    assert service.change(ALICE, one.id, Change(count=2)).topology == "single-node"
    several = service.create(BOB, a_request(day(1), count=2, topology="any"))
    assert service.change(BOB, several.id, Change(count=3)).topology == "any"


# --- overbooking -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "free"),
    [
        (Change(count=4), 3),
        (Change(end=day(4)), 1),
        (Change(start=day(2), end=day(4)), 1),
        (Change(count=3, end=day(5)), 1),
    ],
    ids=["more", "longer", "later", "more and longer"],
)
def test_a_change_that_would_overbook_is_refused_in_any_namespaces(
    service: BookingService, store: Store, change: Change, free: int
) -> None:
    """Six GPUs: three are booked on the first two days, and five from the third on, by others elsewhere."""
    mine = service.create(ALICE, a_request(day(1), day(3), count=2, topology="any", namespace="mine"))
    service.create(somebody("carol"), a_request(day(1), day(2.5), count=3, topology="any", namespace="hers"))
    service.create(BOB, a_request(day(3), day(5), count=5, topology="any", namespace="his"))
    before = store.records_ending_after(START)
    with pytest.raises(RefusedError) as refused:
        service.change(ALICE, mine.id, change)
    (violation,) = (each for each in refused.value.violations if each.rule == "capacity")
    assert violation.limit == free
    assert store.records_ending_after(START) == before
    assert service.change(ALICE, mine.id, Change(count=3)).count == 3


def test_bookings_that_move_for_a_change_are_written_with_it(service: BookingService) -> None:
    mine = service.create(ALICE, a_request(day(1), day(3), count=2))
    his = service.create(BOB, a_request(day(1), day(3), count=4))
    assert (mine.plan, his.plan) == ((Place("n1", 2),), (Place("n0", 4),))
    service.cancel(BOB, his.id)
    single = service.create(BOB, a_request(day(1), day(3), count=2))
    assert single.plan == (Place("n0", 2),)
    larger = service.change(BOB, single.id, Change(count=4))
    assert larger.plan == (Place("n0", 4),)
    assert service.show(ALICE, mine.id).plan == (Place("n1", 2),)


def test_a_change_to_the_present_state_writes_nothing(service: BookingService, store: Store) -> None:
    record = service.create(ALICE, a_request(day(1), day(3), count=2, namespace="lab"))
    same = Change(start=record.start, end=record.end, count=2, namespace="lab")
    for change in (Change(), same):
        assert service.change(ALICE, record.id, change) == record
    assert store.change() == record.change
    assert [entry.action for entry in service.audit(ROOT).entries] == ["booking.create"]


def test_a_booking_that_is_shortened_to_now_is_audited_as_released(
    service: BookingService, clock: FakeClock
) -> None:
    record = service.create(ALICE, a_request())
    clock.advance(DAY)
    after = service.change(ROOT, record.id, Change(end=day(1)), reason="power cut")
    assert (after.ended_by, after.reason, after.waived) == ("root", "power cut", True)
    newest = service.audit(ROOT).entries[0]
    assert (newest.actor, newest.action, newest.reason) == ("root", "booking.release", "power cut")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (Change(end=day(0)), "ends-before-it-starts"),
        (Change(end=day(-1)), "ends-before-it-starts"),
        (Change(start=day(0.25), end=day(0.5)), "has-begun"),
        (Change(end=day(0.5).replace(tzinfo=None)), "no-offset"),
    ],
)
def test_an_impossible_end_of_a_running_booking_releases_nothing(
    service: BookingService, clock: FakeClock, change: Change, rule: str
) -> None:
    record = service.create(ALICE, a_request())
    clock.advance(DAY)
    assert rule in rules(service, record, change)


def test_a_repeated_change_is_answered_as_before_even_with_an_old_version(
    service: BookingService, store: Store
) -> None:
    record, key = service.create(ALICE, a_request(day(1))), Key.of("k-1", b"PATCH")
    after = service.change(ALICE, record.id, Change(end=day(4)), expected=record.version, key=key)
    newer = service.change(ALICE, record.id, Change(end=day(5)), expected=after.version)
    assert service.change(ALICE, record.id, Change(end=day(4)), expected=record.version, key=key) == after
    assert store.records_ending_after(START) == [newer]


CHANGES = {
    "nothing": Change(),
    "longer": Change(end=day(4)),
    "too long": Change(end=day(30)),
    "shorter": Change(end=day(2.5)),
    "to now": Change(end=day(1)),
    "to the past": Change(end=day(0.5)),
    "later": Change(start=day(4), end=day(6)),
    "into the past": Change(start=day(-2)),
    "more": Change(count=3),
    "overbooked": Change(count=4, end=day(8)),
    "none": Change(count=0),
    "elsewhere": Change(namespace="lab"),
    "nowhere": Change(namespace="No Namespace"),
    "without an offset": Change(end=day(5).replace(tzinfo=None)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("start", [None, 2], ids=["running", "planned"])
def test_a_dry_run_of_a_change_answers_as_the_change_does_for_every_user(
    service: BookingService, store: Store, clock: FakeClock, start: int | None, change: Change
) -> None:
    record = service.create(ALICE, a_request(None if start is None else day(start), day(3.5), count=2))
    service.create(BOB, a_request(day(5), day(9), count=4))
    clock.advance(DAY + 0.5)
    asking: list[tuple[Principal, str | None]] = [
        (BOB, None),
        (ROOT, None),
        (ALICE, " "),
        (ROOT, "they asked on the phone"),
        (ALICE, None),
    ]
    for who, reason in asking:
        now = service.show(ALICE, record.id)
        for expected in ("0", now.version):
            stored = store.change()
            tried = verdict(
                lambda who=who, reason=reason, expected=expected: service.dry_run_change(
                    who, record.id, change, expected=expected, reason=reason
                )
            )
            assert store.change() == stored
            made = verdict(
                lambda who=who, reason=reason, expected=expected: service.change(
                    who, record.id, change, expected=expected, reason=reason
                )
            )
            assert tried == made
