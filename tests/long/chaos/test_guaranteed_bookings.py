"""What was guaranteed is compared with what is there: a lost booking is found, a lost answer is no breach."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from cluster.objects.bookings import Booking, BookingSpec
from devcluster.demo.rest import RestAnswer
from tests.long.chaos.guaranteed_bookings import BOOKINGS, GuaranteedBookings, unmirrored

NOW = datetime(2026, 1, 2, tzinfo=UTC)
START, END, SOONER = (NOW + timedelta(hours=hours) for hours in (1, 5, 3))
ONE = f"{BOOKINGS}/b-1"


def booking(**changes: Any) -> dict[str, Any]:
    fields = {"id": "b-1", "model": "A", "count": 2, "start": START, "end": END, "state": "planned"} | changes
    return {key: v.isoformat() if isinstance(v, datetime) else v for key, v in fields.items()}


@pytest.fixture
def guaranteed() -> GuaranteedBookings:
    made = GuaranteedBookings()
    made.answered("POST", BOOKINGS, {}, RestAnswer(201, booking()))
    return made


def test_a_booking_that_is_as_guaranteed_is_no_breach(guaranteed: GuaranteedBookings) -> None:
    assert guaranteed.bookings == ("b-1",)
    assert not guaranteed.broken({"b-1": booking()}, NOW)
    assert not guaranteed.broken({"b-1": booking(state="active")}, START)
    assert not guaranteed.broken({"b-1": booking(state="ended")}, END)


@pytest.mark.parametrize(
    "shown",
    [None, booking(count=1), booking(end=SOONER), booking(state="cancelled"), booking(state="ended")],
    ids=["gone", "smaller", "shorter", "cancelled", "ended"],
)
def test_a_booking_that_is_gone_or_changed_is_a_breach(
    guaranteed: GuaranteedBookings, shown: dict[str, Any] | None
) -> None:
    (message,) = guaranteed.broken({"b-1": shown}, NOW)
    assert "b-1" in message


def test_a_confirmed_change_must_be_stored(guaranteed: GuaranteedBookings) -> None:
    change = {"end": SOONER.isoformat()}
    guaranteed.answered("PATCH", ONE, change, RestAnswer(200, booking(end=SOONER)))
    assert guaranteed.broken({"b-1": booking()}, NOW)
    assert not guaranteed.broken({"b-1": booking(end=SOONER)}, NOW)


def test_a_confirmed_end_must_be_stored(guaranteed: GuaranteedBookings) -> None:
    cancelled = booking(state="cancelled", cancelled=NOW)
    guaranteed.answered("DELETE", ONE, None, RestAnswer(200, cancelled))
    assert guaranteed.broken({"b-1": booking()}, NOW)
    assert not guaranteed.broken({"b-1": cancelled}, NOW)


def test_a_change_whose_answer_was_lost_may_be_stored_or_not_but_nothing_else_may(
    guaranteed: GuaranteedBookings,
) -> None:
    guaranteed.unanswered("PATCH", ONE, {"end": SOONER.isoformat()})
    assert not guaranteed.broken({"b-1": booking()}, NOW)
    assert not guaranteed.broken({"b-1": booking(end=SOONER)}, NOW)
    assert guaranteed.broken({"b-1": booking(state="cancelled")}, NOW)


def test_a_failing_server_guarantees_nothing_new_and_earlier_guarantees_still_hold(
    guaranteed: GuaranteedBookings,
) -> None:
    guaranteed.answered("POST", f"{ONE}/release", None, RestAnswer(503, {}))
    assert not guaranteed.broken({"b-1": booking(state="ended", end=NOW)}, NOW)
    assert not guaranteed.broken({"b-1": booking(state="active")}, START)
    assert guaranteed.broken({"b-1": None}, NOW)


def test_a_refused_request_was_guaranteed_nothing() -> None:
    guaranteed = GuaranteedBookings()
    guaranteed.answered("POST", BOOKINGS, {}, RestAnswer(422, {"violations": []}))
    guaranteed.answered("PATCH", ONE, {}, RestAnswer(404, {}))
    assert guaranteed.bookings == ()
    assert not guaranteed.broken({}, NOW)


def test_a_running_booking_must_be_in_the_cluster_as_it_is() -> None:
    shown = {"b-1": booking(state="active"), "b-2": booking(state="planned"), "b-3": None}
    spec = BookingSpec(user="alice", model="A", count=2, start=START, end=END)
    assert not unmirrored(shown, {"b-1": Booking(spec=spec)})
    for wrong in ({}, {"b-1": Booking(spec=msgspec.structs.replace(spec, end=SOONER))}):
        (message,) = unmirrored(shown, wrong)
        assert "b-1" in message
