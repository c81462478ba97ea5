"""Days by REST are days of the site's calendar, whatever the clocks do; hours are elapsed."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from flask.testing import FlaskClient

from booking.policy.limits import Limits
from booking.server.service import BookingService
from tests.booking.server.web.served import BOOKINGS, Served, about, problem
from tests.fakes.objects import A100

SITE = "Europe/Stockholm"
AUTHORIZED = {"Authorization": "Bearer alice-token"}


@pytest.fixture
def stockholm(served: Served) -> FlaskClient:
    """The API of a site in Stockholm."""
    service = BookingService(served.store, served.clock, Limits(zone=SITE), lambda: served.capacity)
    return served.client_of(replace(served.parts, bookings=service, zone=lambda: ZoneInfo(SITE)))


def span(client: FlaskClient, start: str, duration: str) -> tuple[str, str]:
    body = {"model": A100, "start": start, "duration": duration}
    answer = client.post(f"{BOOKINGS}?dry_run=true", json=body, headers=AUTHORIZED)
    assert answer.status_code == 200, answer.text
    reply: dict[str, Any] = answer.get_json()
    return reply["start"], reply["end"]


def test_a_day_over_the_spring_gap_has_23_hours(stockholm: FlaskClient) -> None:
    wanted = ("2026-03-28T11:00:00Z", "2026-03-29T10:00:00Z")
    assert span(stockholm, "2026-03-28T12:00:00+01:00", "P1D") == wanted


def test_a_day_over_the_autumn_fold_has_25_hours(served: Served, stockholm: FlaskClient) -> None:
    served.clock.advance(timedelta(days=230).total_seconds())
    wanted = ("2026-10-24T10:00:00Z", "2026-10-25T11:00:00Z")
    assert span(stockholm, "2026-10-24T12:00:00+02:00", "P1D") == wanted


def test_24_hours_are_24_hours_over_the_spring_gap(stockholm: FlaskClient) -> None:
    wanted = ("2026-03-28T11:00:00Z", "2026-03-29T11:00:00Z")
    assert span(stockholm, "2026-03-28T12:00:00+01:00", "PT24H") == wanted


def test_a_day_that_would_end_in_the_gap_ends_after_it(stockholm: FlaskClient) -> None:
    wanted = ("2026-03-27T01:30:00Z", "2026-03-29T01:00:00Z")
    assert span(stockholm, "2026-03-27T02:30:00+01:00", "P2D") == wanted


@pytest.mark.parametrize(
    "text", ["2026-03-29T02:30:00", "2026-03-29T02:30:00[Europe/Stockholm]", "2026-03-29 02:30"]
)
def test_a_local_time_without_an_offset_is_refused(stockholm: FlaskClient, text: str) -> None:
    body = {"model": A100, "start": text, "duration": "P1D"}
    refusal = problem(stockholm.post(BOOKINGS, json=body, headers=AUTHORIZED), 400)

    assert about(refusal) == {"start": "malformed-field"}
    assert "offset from UTC" in refusal["detail"]


@pytest.mark.parametrize(
    "text", ["2026-03-29T02:30:00+25:00", "2026-03-29T02:30:00 CET", "2026-03-29T02:30:00+0100"]
)
def test_an_invalid_offset_is_refused(stockholm: FlaskClient, text: str) -> None:
    body = {"model": A100, "start": text, "duration": "P1D"}
    assert about(problem(stockholm.post(BOOKINGS, json=body, headers=AUTHORIZED), 400)) == {
        "start": "malformed-field"
    }
