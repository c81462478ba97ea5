"""Changing a booking: judged as a whole, stored as a whole or not at all."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.principals import Principal
from booking.server.capacity.capacity import Capacity
from booking.server.errors import RefusedError, StaleError, UnknownBookingError
from booking.server.records import BookingChange, Record
from booking.server.service import BookingService
from booking.server.store import Store
from cluster.fake.clock import START, FakeClock
from tests.booking.server.service.verdicts import verdict
from tests.fakes.objects import A100
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import CLUSTER, a_request, day

ALICE, BOB, ROOT = somebody("alice"), somebody("bob"), an_administrator()
DAY = timedelta(days=1).total_seconds()


def rules(service: BookingService, record: Record, change: BookingChange) -> list[str]:
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
        BookingChange(end=day(5)),
        BookingChange(end=day(2)),
        BookingChange(start=day(3), end=day(5)),
        BookingChange(start=day(0.5)),
        BookingChange(count=4),
        BookingChange(count=1),
        BookingChange(namespace="lab"),
        BookingChange(start=day(2), end=day(6), count=3, namespace=None),
    ],
)
def test_a_planned_booking_is_changed_as_requested(
    service: BookingService, store: Store, change: BookingChange
) -> None:
    record = service.create(ALICE, a_request(day(1), day(3), count=2, namespace="team"))
    tried = service.dry_run_change(ALICE, record.id, change)
    after = service.change(ALICE, record.id, change, expected=record.version)
    for name in BookingChange.__struct_fields__:
        requested = getattr(change, name)
        kept = getattr(record, name)
        assert getattr(after, name) == (kept if requested is BookingChange().start else requested)
    assert (after.id, after.created, after.topology) == (record.id, record.created, "single-node")
    assert sum(place.count for place in after.plan) == after.count
    assert (tried.start, tried.end, tried.count) == (after.start, after.end, after.count)
    assert store.records_ending_after(START) == [after]


def test_giving_back_is_granted_even_with_lost_devices_and_tighter_limits(
    store: Store, clock: FakeClock
) -> None:
    there, limits = [CLUSTER], [Limits()]
    service = BookingService(store, clock, limits[0], lambda: there[0])
    record = service.create(ALICE, a_request(end=day(14), count=4))
    clock.advance(DAY)
    there[0] = Capacity({A100: {"n0": 3, "n1": 1}})
    tighter = BookingService(store, clock, Limits(longest=Duration(days=3)), lambda: there[0])
    after = tighter.change(ALICE, record.id, BookingChange(end=day(10), count=3))
    assert (after.end, after.count, sum(place.count for place in after.plan)) == (day(10), 3, 3)


def test_a_booking_whose_devices_are_all_gone_can_still_be_shortened_but_not_extended(
    store: Store, clock: FakeClock
) -> None:
    there = [CLUSTER]
    service = BookingService(store, clock, Limits(), lambda: there[0])
    record = service.create(ALICE, a_request(end=day(10), count=4))
    for gone in (Capacity({A100: {"n0": 3, "n1": 1}}), Capacity({A100: {}}), Capacity({})):
        there[0] = gone
        assert rules(service, record, BookingChange(end=day(11))) == ["capacity"]
        record = service.change(ALICE, record.id, BookingChange(end=record.end - timedelta(days=1)))
    assert (record.end, record.count) == (day(7), 4)


def test_a_stale_version_changes_nothing(service: BookingService, store: Store) -> None:
    record = service.create(ALICE, a_request(day(1)))
    newer = service.change(ALICE, record.id, BookingChange(end=day(5)), expected=record.version)
    doing: list[Callable[[], Record]] = [
        lambda: service.change(ALICE, record.id, BookingChange(end=day(6)), expected=record.version),
        lambda: service.cancel(ALICE, record.id, expected=record.version),
        lambda: service.release(ALICE, record.id, expected=record.version),
    ]
    for do in doing:
        with pytest.raises(StaleError) as stale:
            do()
        assert stale.value.version == newer.version
    assert store.records_ending_after(START) == [newer]
    assert service.cancel(ALICE, record.id, expected=newer.version).cancelled == START


def test_only_administrators_change_bookings_of_others_and_by_the_owners_rules(
    service: BookingService,
) -> None:
    record = service.create(ALICE, a_request(day(1)))
    with pytest.raises(UnknownBookingError):
        service.change(BOB, record.id, BookingChange(end=day(5)))
    with pytest.raises(UnknownBookingError):
        service.dry_run_change(BOB, record.id, BookingChange(end=day(5)))
    with pytest.raises(RefusedError) as refused:
        service.change(ROOT, record.id, BookingChange(end=day(16)), reason="they asked on the phone")
    assert [violation.rule for violation in refused.value.violations] == ["longest"]
    with pytest.raises(RefusedError, match="reason is missing"):
        service.change(ROOT, record.id, BookingChange(end=day(5)))
    after = service.change(ROOT, record.id, BookingChange(end=day(5)), reason="they asked on the phone")
    assert (after.user, after.end) == ("alice", day(5))
    newest = service.audit(ROOT).entries[0]
    assert (newest.actor, newest.reason) == ("root", "they asked on the phone")


# --- overbooking -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "free"),
    [
        (BookingChange(count=4), 3),
        (BookingChange(end=day(4)), 1),
        (BookingChange(start=day(2), end=day(4)), 1),
        (BookingChange(count=3, end=day(5)), 1),
    ],
    ids=["more", "longer", "later", "more and longer"],
)
def test_a_change_that_would_overbook_is_refused_in_any_namespaces(
    service: BookingService, store: Store, change: BookingChange, free: int
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
    assert service.change(ALICE, mine.id, BookingChange(count=3)).count == 3


CHANGES = {
    "nothing": BookingChange(),
    "longer": BookingChange(end=day(4)),
    "too long": BookingChange(end=day(30)),
    "shorter": BookingChange(end=day(2.5)),
    "to now": BookingChange(end=day(1)),
    "to the past": BookingChange(end=day(0.5)),
    "later": BookingChange(start=day(4), end=day(6)),
    "into the past": BookingChange(start=day(-2)),
    "more": BookingChange(count=3),
    "overbooked": BookingChange(count=4, end=day(8)),
    "none": BookingChange(count=0),
    "elsewhere": BookingChange(namespace="lab"),
    "nowhere": BookingChange(namespace="No Namespace"),
    "without an offset": BookingChange(end=day(5).replace(tzinfo=None)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("start", [None, 2], ids=["running", "planned"])
def test_a_dry_run_of_a_change_answers_as_the_change_does_for_every_user(
    service: BookingService, store: Store, clock: FakeClock, start: int | None, change: BookingChange
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
