"""Every verb in every state."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import get_args

import pytest

from booking.errors import RefusedError
from booking.records import Change, Record, State
from booking.service import BookingService
from booking.service.states import STATES, TABLE, VERBS, Next, Verb, Why, rejection
from booking.store import Store
from cluster.fake.clock import START, FakeClock
from tests.fakes.principals import somebody
from tests.fakes.records import a_record, a_request, day

ALICE = somebody("alice")
DAY = timedelta(days=1).total_seconds()


def in_state(service: BookingService, clock: FakeClock, state: State) -> Record:
    """A booking of two days that is in that state now."""
    record = service.create(ALICE, a_request(day(1) if state in {"planned", "cancelled"} else None))
    if state == "cancelled":
        return service.cancel(ALICE, record.id)
    clock.advance(DAY / 2 if state != "ended" else 3 * DAY)
    return record


def applied(service: BookingService, verb: Verb, record: Record) -> Record:
    doing: dict[Verb, Callable[[], Record]] = {
        "change": lambda: service.change(ALICE, record.id, Change(end=record.end + timedelta(days=1))),
        "release": lambda: service.release(ALICE, record.id),
        "cancel": lambda: service.cancel(ALICE, record.id),
    }
    return doing[verb]()


def test_the_table_has_every_state_and_every_verb() -> None:
    assert set(STATES) == set(get_args(State)) == set(TABLE)
    assert set(VERBS) == set(get_args(Verb))
    assert all(set(verbs) == set(VERBS) for verbs in TABLE.values())


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("state", STATES)
def test_each_verb_has_in_each_state_the_effect_of_the_table(
    service: BookingService, store: Store, clock: FakeClock, state: State, verb: Verb
) -> None:
    record = in_state(service, clock, state)
    assert record.state(clock.now()) == state
    expected, change = TABLE[state][verb], store.change()
    if isinstance(expected, Next):
        after = applied(service, verb, record)
        assert after.state(clock.now()) in expected.states
        assert store.change() == change + 1
        assert service.show(ALICE, record.id) == after
        return
    with pytest.raises(RefusedError) as refused:
        applied(service, verb, record)
    (violation,) = refused.value.violations
    assert violation.rule == expected.rule
    assert violation.message == f"The booking {record.id} {expected.because}"
    assert store.change() == change
    assert service.show(ALICE, record.id) == record


@pytest.mark.parametrize(
    ("instant", "state"),
    [
        (day(-1), "planned"),
        (day(0) - timedelta(microseconds=1), "planned"),
        (day(0), "active"),
        (day(2) - timedelta(microseconds=1), "active"),
        (day(2), "ended"),
    ],
)
def test_a_state_begins_at_its_first_instant(instant: datetime, state: State) -> None:
    record = a_record(day(0), day(2))
    refused = {verb for verb in VERBS if isinstance(TABLE[state][verb], Why)}
    assert {verb for verb in VERBS if rejection(record, verb, instant)} == refused


def test_a_released_booking_has_ended_even_while_its_last_second_still_counts() -> None:
    record = a_record(day(0), START + timedelta(seconds=61), released=START + timedelta(seconds=60))
    assert record.state(START + timedelta(seconds=60, milliseconds=500)) == "ended"
