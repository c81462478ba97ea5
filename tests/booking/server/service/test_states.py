"""Every verb in every state."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import get_args

import pytest

from booking.server.errors import RefusedError
from booking.server.records import BookingChange, Record, State
from booking.server.service import BookingService
from booking.server.service.states import STATES, TABLE, VERBS, Next, Verb, Why, rejection
from booking.server.store import Store
from cluster.fake.clock import START, FakeClock
from tests.fakes.principals import somebody
from tests.fakes.records import a_record, a_request, day

ALICE = somebody("alice")
DAY = timedelta(days=1).total_seconds()
HOUR = timedelta(hours=1)


def in_state(service: BookingService, clock: FakeClock, state: State) -> Record:
    """A booking of two days that is in that state now."""
    record = service.create(ALICE, a_request(day(1) if state in {"planned", "cancelled"} else None))
    if state == "cancelled":
        return service.cancel(ALICE, record.id)
    clock.advance(DAY / 2 if state != "ended" else 3 * DAY)
    return record


def applied(service: BookingService, verb: Verb, record: Record) -> Record:
    doing: dict[Verb, Callable[[], Record]] = {
        "change": lambda: service.change(ALICE, record.id, BookingChange(end=record.end + timedelta(days=1))),
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


Ways = dict[tuple[State, Verb], dict[State, Callable[[BookingService, Record, datetime], Record]]]
WAYS: Ways = {
    ("planned", "change"): {
        "planned": lambda service, record, _: service.change(
            ALICE, record.id, BookingChange(end=record.end + HOUR)
        ),
        "active": lambda service, record, now: service.change(ALICE, record.id, BookingChange(start=now)),
    },
    ("planned", "cancel"): {"cancelled": lambda service, record, _: service.cancel(ALICE, record.id)},
    ("active", "change"): {
        "active": lambda service, record, _: service.change(
            ALICE, record.id, BookingChange(end=record.end + HOUR)
        ),
        "ended": lambda service, record, now: service.change(ALICE, record.id, BookingChange(end=now)),
    },
    ("active", "release"): {"ended": lambda service, record, _: service.release(ALICE, record.id)},
}
"""State and verb -> the state that follows -> what a user does for it."""


def test_the_table_lists_exactly_the_states_that_can_be_reached() -> None:
    listed = {
        (state, verb): set(found.states)
        for state, verbs in TABLE.items()
        for verb, found in verbs.items()
        if isinstance(found, Next)
    }
    assert listed == {cell: set(ways) for cell, ways in WAYS.items()}


@pytest.mark.parametrize(
    ("state", "verb", "after"), [(*cell, after) for cell, ways in WAYS.items() for after in ways]
)
def test_each_state_that_a_verb_may_lead_to_is_reached(
    service: BookingService, clock: FakeClock, state: State, verb: Verb, after: State
) -> None:
    record, now = in_state(service, clock, state), clock.now()
    assert WAYS[state, verb][after](service, record, now).state(now) == after
    assert service.show(ALICE, record.id).state(now) == after


@pytest.mark.parametrize(
    ("state", "verb", "rule", "sentence"),
    [
        ("planned", "release", "not-begun", "The booking b-one has not begun: cancel it instead."),
        ("active", "cancel", "begun", "The booking b-one is running: release it instead."),
        ("ended", "change", "over", "The booking b-one is over (ended): nothing about it changes any more."),
        ("ended", "release", "over", "The booking b-one is over (ended): there is nothing to release."),
        ("ended", "cancel", "over", "The booking b-one is over (ended): there is nothing to cancel."),
        (
            "cancelled",
            "change",
            "over",
            "The booking b-one is over (cancelled): nothing about it changes any more.",
        ),
        (
            "cancelled",
            "release",
            "over",
            "The booking b-one is over (cancelled): there is nothing to release.",
        ),
        ("cancelled", "cancel", "over", "The booking b-one is over (cancelled): there is nothing to cancel."),
    ],
)
def test_a_refusal_names_the_state_and_what_to_do_instead(
    state: State, verb: Verb, rule: str, sentence: str
) -> None:
    record = a_record(day(0), day(2), cancelled=day(-1) if state == "cancelled" else None)
    instant = {"planned": day(-1), "active": day(1), "ended": day(2), "cancelled": day(1)}[state]
    refused = rejection(record, verb, instant)
    assert refused is not None
    assert (refused.rule, refused.message) == (rule, sentence)


@pytest.mark.parametrize("instant", [day(-2), day(0), day(1), day(3)])
def test_a_booking_that_was_taken_back_stays_so_at_its_start_and_after_its_end(instant: datetime) -> None:
    taken_back = a_record(day(0), day(2), cancelled=day(-3))
    assert {verb: found.message for verb in VERBS if (found := rejection(taken_back, verb, instant))} == {
        "change": "The booking b-one is over (cancelled): nothing about it changes any more.",
        "release": "The booking b-one is over (cancelled): there is nothing to release.",
        "cancel": "The booking b-one is over (cancelled): there is nothing to cancel.",
    }


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
