"""Bodies that every address refuses: each is answered with a problem and changes nothing."""

from typing import Any

import msgspec
import pytest

from booking.server.web.rest.table import table
from tests.booking.server.web.served import BOOKINGS, Served, problem
from tests.booking.server.web.test_harm import HARM, requests
from tests.fakes.objects import A100

PLANNED = {"start": "2026-03-10T09:00:00Z", "duration": "P2D"}
JSON = {"content_type": "application/json"}


@pytest.fixture
def admin(served: Served) -> Served:
    """Alice is an administrator with a planned booking; the addresses of b-1 are those of that booking."""
    served.signing_in.administrators.add("alice")
    return served


def addresses(served: Served) -> list[tuple[str, str, dict[str, Any]]]:
    """Every address that takes a body, each with a body that it accepts."""
    booking = served.booked(**PLANNED)
    taking = [(method, path, body) for method, path, body in requests(served) if body is not None]
    assert len(taking) == sum(
        route.takes_body for route in table(served.parts, root="/api/v1", audience="gpu-booking")
    )
    return [(method, path.replace("b-1", booking), body) for method, path, body in taking]


def twice(body: dict[str, Any]) -> bytes:
    """The body with its first field given twice, with the same value."""
    text = msgspec.json.encode(body or {"reason": "r"}).decode()
    first = text[1:].split(",")[0].rstrip("}")
    return f"{{{first},{text[1:]}".encode()


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        pytest.param(twice, 400, id="a key twice"),
        pytest.param(lambda _: b'{"reason": ' + b"[" * 30_000 + b"]" * 30_000 + b"}", 400, id="deep"),
        pytest.param(lambda _: b'{"reason": "' + b"x" * 10_000_000 + b'"}', 413, id="10 MB"),
        pytest.param(lambda body: msgspec.json.encode([body]), 400, id="a list"),
        pytest.param(lambda body: msgspec.json.encode(body) + b"}", 400, id="no JSON"),
        pytest.param(lambda _: b'{"reason": "\xff"}', 400, id="no UTF-8"),
        pytest.param(lambda body: msgspec.json.encode(body | {"x" * 300: 1}), 400, id="an unknown field"),
    ],
)
def test_an_invalid_body_is_refused_by_every_address(admin: Served, bad: Any, status: int) -> None:
    taking = addresses(admin)
    stored = admin.stored
    for method, path, body in taking:
        answer = admin.ask(method, path, data=bad(body), **JSON)
        assert answer.status_code == status, (method, path, answer.text)
        problem(answer, status)
    assert admin.stored == stored
    assert admin.evictions.orders == []


@pytest.mark.parametrize("text", HARM)
def test_no_text_of_a_slot_or_of_a_change_does_harm(served: Served, text: str) -> None:
    booking = served.booked(**PLANNED)
    stored, before = served.stored, served.ask("GET", f"{BOOKINGS}/{booking}").get_json()
    for field in ("model", "namespace", "topology", "duration", "not_before", "deadline", "user"):
        fields = {"model": A100, "duration": "P2D", "count": 2} | {field: text}
        answer = served.ask("POST", "/api/v1/slots", json=fields)
        assert answer.status_code in {400, 403, 422}, (field, answer.text)
        problem(answer, answer.status_code)
    for field in ("namespace", "start", "end", "duration", "topology", "model"):
        answer = served.ask("PATCH", f"{BOOKINGS}/{booking}", json={field: text})
        assert answer.status_code in {400, 422}, (field, answer.text)
        problem(answer, answer.status_code)
    assert served.stored == stored
    assert served.ask("GET", f"{BOOKINGS}/{booking}").get_json() == before
