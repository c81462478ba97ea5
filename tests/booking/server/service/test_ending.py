"""Release and cancel at the edges of a booking, which users may do them, and their dry runs."""

from datetime import datetime, timedelta

import pytest

from booking.policy.limits import Limits
from booking.principals import Principal
from booking.server.capacity.capacity import Capacity
from booking.server.errors import KeyReusedError, RefusedError
from booking.server.records import Record, State
from booking.server.service import BookingService, Key
from booking.server.service.ending import Ending
from booking.server.service.states import TABLE, Next
from booking.server.store import Store
from cluster.fake.clock import START, FakeClock
from tests.booking.server.service.verdicts import record_of
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import CLUSTER, a_request, day

ALICE, BOB, ROOT = somebody("alice"), somebody("bob"), an_administrator()
DAY = timedelta(days=1).total_seconds()
TWO_DAYS = 2 * DAY
KEY = Key.of("k-1", b"POST /release")


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("at", "released", "end"),
    [
        (0, 0, 1),
        (0.5, 0, 1),
        (1, 1, 1),
        (1.000001, 1, 2),
        (TWO_DAYS - 1, TWO_DAYS - 1, TWO_DAYS - 1),
        (TWO_DAYS - 0.5, TWO_DAYS - 1, TWO_DAYS),
    ],
)
def test_a_release_ends_the_booking_with_the_current_second_never_empty_and_never_later(
    service: BookingService, clock: FakeClock, at: float, released: float, end: float
) -> None:
    record = service.create(ALICE, a_request())
    clock.advance(at)
    ended = service.release(ALICE, record.id)
    assert (ended.released, ended.end) == (after(released), after(end))
    assert ended.state(clock.now()) == "ended"


@pytest.mark.parametrize("late", [0, 0.000001, 1, DAY])
def test_a_booking_cannot_be_released_from_its_end_on(
    service: BookingService, clock: FakeClock, store: Store, late: float
) -> None:
    record = service.create(ALICE, a_request())
    clock.advance(TWO_DAYS + late)
    with pytest.raises(RefusedError, match=r"is over \(ended\): there is nothing to release"):
        service.release(ALICE, record.id)
    assert store.change() == record.change


def test_a_booking_is_cancelled_before_its_start_and_released_from_then_on(
    service: BookingService, clock: FakeClock
) -> None:
    early, late = service.create(ALICE, a_request(day(1))), service.create(BOB, a_request(day(1)))
    clock.advance(DAY - 0.25)
    with pytest.raises(RefusedError, match="has not begun: cancel it instead"):
        service.release(ALICE, early.id)
    cancelled = service.cancel(ALICE, early.id)
    assert (cancelled.cancelled, cancelled.end) == (day(1) - timedelta(seconds=1), early.end)
    clock.advance(0.25)
    with pytest.raises(RefusedError, match="is running: release it instead"):
        service.cancel(BOB, late.id)
    assert service.release(BOB, late.id).end == day(1) + timedelta(seconds=1)


def test_a_booking_can_be_given_back_while_the_capacity_is_unknown(store: Store, clock: FakeClock) -> None:
    def unknown() -> Capacity:
        raise ConnectionError

    known = BookingService(store, clock, Limits(), lambda: CLUSTER)
    running, planned = known.create(ALICE, a_request()), known.create(BOB, a_request(day(1)))
    blind = BookingService(store, clock, Limits(), unknown)
    clock.advance(60)
    assert blind.release(ALICE, running.id).released == after(60)
    assert blind.cancel(BOB, planned.id).cancelled == after(60)


def test_the_administrator_who_booked_is_not_the_owner_and_needs_a_reason(
    service: BookingService, clock: FakeClock
) -> None:
    record = service.create(ROOT, a_request(), user="alice")
    clock.advance(60)
    with pytest.raises(RefusedError, match="a reason is missing"):
        service.release(ROOT, record.id)
    assert service.release(ALICE, record.id).created_by == "root"


def test_an_administrator_who_ends_a_booking_is_named_in_it_and_its_owner_is_not(
    service: BookingService,
) -> None:
    first = service.create(ALICE, a_request(day(1)))
    taken = service.cancel(ROOT, first.id, reason=" the rack moves ")
    assert (taken.ended_by, taken.reason, taken.waived) == ("root", "the rack moves", False)
    second = service.create(ALICE, a_request(day(1)))
    taken = service.cancel(ALICE, second.id, reason="not needed")
    assert (taken.ended_by, taken.reason) == (None, None)
    newest = service.audit(ROOT).entries[0]
    assert (newest.actor, newest.action, newest.reason) == ("alice", "booking.cancel", "not needed")
    assert newest.before is not None
    assert newest.after is not None
    assert (newest.before["cancelled"], newest.after["cancelled"]) == (None, "2026-03-02T09:00:00Z")


def test_the_key_of_an_end_belongs_to_its_user_and_to_one_verb(
    service: BookingService, clock: FakeClock
) -> None:
    record = service.create(ALICE, a_request())
    clock.advance(60)
    released = service.release(ROOT, record.id, reason="fire", key=KEY)
    clock.advance(60)
    assert service.release(ROOT, record.id, reason="fire", key=KEY) == released
    with pytest.raises(RefusedError, match="is over"):
        service.release(ALICE, record.id, key=KEY)
    with pytest.raises(KeyReusedError):
        service.cancel(ROOT, record.id, reason="fire", key=Key.of(KEY.text, b"DELETE"))


def test_a_repeated_end_is_answered_before_its_version_is_checked(
    service: BookingService, clock: FakeClock
) -> None:
    record = service.create(ALICE, a_request())
    clock.advance(60)
    released = service.release(ALICE, record.id, expected=record.version, key=KEY)
    assert released.version != record.version
    assert service.release(ALICE, record.id, expected=record.version, key=KEY) == released


def in_state(service: BookingService, clock: FakeClock, state: State) -> Record:
    """Alice's, in that state now."""
    record = service.create(ALICE, a_request(day(1) if state in {"planned", "cancelled"} else None))
    if state == "cancelled":
        return service.cancel(ALICE, record.id)
    clock.advance(DAY / 2 + 0.5 if state != "ended" else 3 * DAY)
    return record


@pytest.mark.parametrize("verb", ["release", "cancel"])
@pytest.mark.parametrize("state", TABLE)
@pytest.mark.parametrize("who", [ALICE, BOB, ROOT], ids=lambda who: who.user)
def test_a_dry_run_of_an_end_answers_as_the_end_does(
    service: BookingService, store: Store, clock: FakeClock, who: Principal, state: State, verb: Ending
) -> None:
    record = in_state(service, clock, state)
    ends = []
    for reason in ("x" * 501, "a\x00b", " ", " The rack burns. ", None):
        for expected in ("0", frozenset({"0", record.version}), None):
            change = store.change()
            tried = record_of(
                lambda reason=reason, expected=expected: service.dry_run_end(
                    who, record.id, verb, expected=expected, reason=reason
                )
            )
            assert store.change() == change
            end = service.release if verb == "release" else service.cancel
            made = record_of(
                lambda reason=reason, expected=expected, end=end: end(
                    who, record.id, expected=expected, reason=reason
                )
            )
            assert tried == made
            ends.append(made)
    may_end = who is not BOB and isinstance(TABLE[state][verb], Next)
    assert len([made for made in ends if isinstance(made, Record)]) == may_end
