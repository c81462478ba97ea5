"""Malicious input in every text, and a missing database: neither changes anything."""

from typing import Any

import pytest

from booking.server.web.rest.table import table
from tests.booking.server.web.served import AVAILABILITY, BOOKINGS, Served, problem
from tests.fakes.objects import A100

SQL = "x'; DROP TABLE booking; --"
HTML = '"><script>alert(1)</script>'
HARM = [
    SQL,
    HTML,
    "größer-🎓",
    "ALICE",
    "../../etc/passwd",
    "%00",
    "${jndi:ldap://x}",
    "x" * 300,
    "\u202eecila",
]
BODY = {"model": A100, "duration": "P2D"}
ELSEWHERE = {"policy", "now", "queue", "why"}
"""Routes that answer from the policy file and the cluster."""
TEXTS = ("model", "namespace", "topology", "user", "start", "end", "duration")


@pytest.mark.parametrize("text", HARM)
def test_no_text_of_a_booking_does_harm(served: Served, text: str) -> None:
    for field in TEXTS:
        answer = served.ask("POST", BOOKINGS, json=BODY | {field: text})
        assert answer.status_code in {400, 403, 422}, answer.text
        problem(answer, answer.status_code)
    assert served.stored == 0
    assert served.ask("GET", BOOKINGS).get_json() == {"bookings": []}


@pytest.mark.parametrize("text", HARM)
def test_a_strange_user_id_is_kept_as_it_is_or_refused(served: Served, text: str) -> None:
    """A user id is whatever the identity rules yield: an administrator may name any."""
    served.signing_in.administrators.add("alice")
    answer = served.ask("POST", BOOKINGS, json=BODY | {"user": text})

    if answer.status_code == 201:
        assert answer.get_json()["user"] == text
    else:
        problem(answer, 400)
        assert served.stored == 0


@pytest.mark.parametrize("text", HARM)
def test_no_id_does_harm(served: Served, text: str) -> None:
    served.booked()
    for method, path in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/release")):
        body = None if method == "GET" else {}
        answer = served.ask(method, f"{BOOKINGS}/{text}{path}", json=body)
        assert answer.status_code in {404, 405}, answer.text
    assert served.stored == 1


def test_other_users_see_the_load_without_names(served: Served) -> None:
    served.booked(user="bob", count=3)
    for path in (AVAILABILITY, BOOKINGS, "/api/v1/me", "/api/v1/policy"):
        answer = served.ask("GET", path)
        assert answer.status_code == 200
        assert "bob" not in answer.text


def requests(served: Served) -> list[tuple[str, str, dict[str, Any] | None]]:
    """A valid request to every address that reads the database."""
    span = {"start": "2026-03-10T00:00:00Z", "end": "2026-03-11T00:00:00Z", "reason": "why not"}
    bodies: dict[str, dict[str, Any]] = {
        "create": BODY,
        "slots": BODY,
        "book-earliest": BODY,
        "add-block": {"node": "node-a", **span},
        "add-exemption": {"user": "bob", "limits": {"longest": "P20D"}, **span},
        "evict": {"namespace": "research", "pod": "train-0", "reason": "why not"},
        "order-gpu": {"node": "node-a", "gpu": "0", "order": "cordon", "reason": "why not"},
    }
    return [
        (
            route.method,
            f"/api/v1{route.path}".replace("{id}", "b-1"),
            bodies.get(route.name, {}) if route.takes_body else None,
        )
        for route in table(served.parts, root="/api/v1", audience="gpu-booking")
        if route.access != "anybody" and route.name not in ELSEWHERE
    ]


def test_every_address_reports_that_the_database_is_missing_and_nothing_is_lost(
    served: Served,
) -> None:
    booking = served.booked()
    served.signing_in.administrators.add("alice")
    away = served.file.with_suffix(".away")
    served.file.rename(away)
    for method, path, body in requests(served):
        answer = served.ask(method, path, json=body)
        refusal = problem(answer, 503)
        assert int(answer.headers["Retry-After"]) > 0, path
        assert str(served.file) not in refusal["detail"]
    away.rename(served.file)

    assert served.ask("GET", f"{BOOKINGS}/{booking}").get_json()["state"] == "active"
    assert served.stored == 1
    assert served.book(user="bob", model=A100, duration="P1D").status_code == 201
