"""Requests that the API refuses: each is answered with a clear problem, and nothing is stored."""

from dataclasses import replace

import msgspec
import pytest
from prometheus_client import generate_latest

from booking.policy.limits import Limits
from booking.principals import Principal
from booking.server.__main__ import LONGEST_BODY
from booking.server.records import Record
from booking.server.service import BookingService
from booking.server.web.app import create_app
from cluster.process.probes import serve
from tests.booking.server.web.raw_http import raw_request
from tests.booking.server.web.served import BOOKINGS, Served, about, problem
from tests.fakes.objects import A100

JSON = {"content_type": "application/json"}
GOOD = msgspec.json.encode({"model": A100, "duration": "P1D"})


@pytest.mark.parametrize(
    ("body", "says"),
    [
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(b"{", "not JSON", id="cut off"),
        pytest.param(b'{"model": NaN}', "NaN", id="NaN"),
        pytest.param(b'{"count": -Infinity}', "-Infinity", id="infinite"),
        pytest.param(b'[{"model": "a"}]', "must be a JSON object", id="a list"),
        pytest.param(b'"model"', "must be a JSON object", id="a text"),
        pytest.param(b"null", "must be a JSON object", id="null"),
        pytest.param(b"{'model': 'a'}", "not JSON", id="Python"),
        pytest.param(b'{"model": "\xff"}', "not UTF-8", id="no UTF-8"),
        pytest.param(GOOD.decode().encode("utf-16"), "not UTF-8", id="UTF-16"),
        pytest.param(b'{"model": ' + b"[" * 60_000, "nested too deeply", id="deep lists"),
        pytest.param(b'{"a":' * 12_000, "The body is", id="deep objects"),
        pytest.param(GOOD + b" x", "not JSON", id="something after it"),
    ],
)
def test_a_body_that_is_not_a_json_object_is_refused(served: Served, body: bytes, says: str) -> None:
    refusal = problem(served.ask("POST", BOOKINGS, data=body, **JSON), 400)

    assert says in refusal["detail"]
    assert served.stored == 0


@pytest.mark.parametrize("twice", ["model", "duration", "count"])
def test_a_duplicate_key_is_refused(served: Served, twice: str) -> None:
    fields = '"model": "a", "duration": "P1D", "count": 1'
    body = f'{{{fields}, "{twice}": "b"}}'
    refusal = problem(served.ask("POST", BOOKINGS, data=body, **JSON), 400)

    assert about(refusal)[twice] == "duplicated-field"


def test_a_deep_value_that_is_still_json_is_a_malformed_field(served: Served) -> None:
    body = b'{"duration": "P1D", "model": ' + b"[" * 500 + b"]" * 500 + b"}"
    refusal = problem(served.ask("POST", BOOKINGS, data=body, **JSON), 400)

    assert about(refusal) == {"model": "malformed-field"}


@pytest.mark.parametrize("number", [b"9" * 5000, b"-" + b"9" * 5000, b"1e999999", b"1E400"])
def test_an_enormous_number_is_a_malformed_field(served: Served, number: bytes) -> None:
    body = GOOD[:-1] + b', "count": ' + number + b"}"
    refusal = problem(served.ask("POST", BOOKINGS, data=body, **JSON), 400)

    assert about(refusal) == {"count": "malformed-field"}


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", None])
def test_another_media_type_is_refused(served: Served, kind: str | None) -> None:
    refusal = problem(served.ask("POST", BOOKINGS, data=GOOD, content_type=kind), 415)

    assert "Content-Type: application/json" in refusal["detail"]
    assert served.stored == 0


def test_a_charset_does_not_matter(served: Served) -> None:
    answer = served.ask("POST", BOOKINGS, data=GOOD, content_type="application/json; charset=utf-8")

    assert answer.status_code == 201


def test_a_body_over_64_kib_is_refused(served: Served) -> None:
    fits = GOOD + b" " * (64 * 1024 - len(GOOD))
    problem(served.ask("POST", BOOKINGS, data=fits + b" ", **JSON), 413)
    assert served.stored == 0

    assert served.ask("POST", BOOKINGS, data=fits, **JSON).status_code == 201


def test_an_unknown_address_is_answered_with_404(served: Served) -> None:
    refusal = problem(served.ask("GET", "/api/v2/all bookings"), 404)

    assert "GET /api/v1" in refusal["detail"]
    assert refusal["instance"] == "/api/v2/all%20bookings"


def test_an_address_with_an_extra_slash_is_answered_with_404(served: Served) -> None:
    for path in ("/api//v1/bookings", "//api/v1/bookings", f"{BOOKINGS}/"):
        problem(served.ask("GET", path), 404)


@pytest.mark.parametrize(
    "booking", ["nothing", "b-1%00", "%F0%9F%98%80", "a" * 300, "'; DROP TABLE bookings"]
)
def test_an_unknown_booking_is_answered_with_404(served: Served, booking: str) -> None:
    problem(served.ask("GET", f"{BOOKINGS}/{booking}"), 404)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS"])
def test_an_unsupported_method_is_refused_with_the_supported_ones(served: Served, method: str) -> None:
    answer = served.ask(method, BOOKINGS)

    problem(answer, 405)
    assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD", "POST"}


@pytest.mark.parametrize(
    "query", ["?dryrun=true", "?dry_run=1", "?dry_run=", "?dry_run=true&dry_run=false", "?past=true"]
)
def test_a_typo_in_the_query_books_nothing(served: Served, query: str) -> None:
    problem(served.book(query=query, model=A100, duration="P1D"), 400)
    assert served.stored == 0


def test_other_addresses_take_no_unknown_parameters_either(served: Served) -> None:
    booking = served.booked()

    problem(served.ask("GET", f"{BOOKINGS}?all=true"), 400)
    problem(served.ask("GET", f"{BOOKINGS}/{booking}?x=1"), 400)
    problem(served.ask("POST", f"{BOOKINGS}/{booking}/release?force=true"), 400)
    problem(served.ask("DELETE", f"{BOOKINGS}/{booking}?force=true"), 400)
    assert served.stored == 1


class Broken(BookingService):
    """A service with a bug."""

    def show(self, who: Principal, booking_id: str) -> Record:
        """Fail with an unexpected error."""
        raise ZeroDivisionError(f"a secret of {who.user}: {booking_id}")


def test_a_bug_is_reported_without_a_traceback(served: Served) -> None:
    broken = Broken(served.store, served.clock, Limits(), lambda: served.capacity)
    client = served.client_of(replace(served.parts, bookings=broken))
    answer = client.get(f"{BOOKINGS}/b-1", headers={"Authorization": "Bearer alice-token"})

    problem(answer, 500)
    assert "secret" not in answer.text


def test_the_index_is_open_to_everybody_and_lists_the_addresses(served: Served) -> None:
    answer = served.client.get("/api/v1")

    assert answer.status_code == 200
    body = answer.get_json()
    assert "POST /api/v1/bookings" in body["addresses"]
    assert "--audience gpu-booking" in body["token"]


def test_answers_are_not_cached(served: Served) -> None:
    headers = served.ask("GET", BOOKINGS).headers

    assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-store", "nosniff")


def test_requests_are_counted_by_endpoint_and_status(served: Served) -> None:
    served.ask("GET", BOOKINGS)
    served.ask("GET", BOOKINGS, user="carol")
    served.ask("GET", "/nothing")

    counted = generate_latest(served.registry).decode()
    for endpoint, status in (("list", 200), ("list", 401), ("unknown", 404)):
        line = f'gpu_booking_server_requests_total{{endpoint="{endpoint}",status="{status}"}} 1.0'
        assert line in counted


def test_over_a_socket_a_large_body_is_refused_and_the_next_request_served(served: Served) -> None:
    app = create_app(served.parts, served.guard, audience="gpu-booking")
    server = serve(app, "127.0.0.1", 0, longest_body=LONGEST_BODY)
    try:
        status, headers, _ = raw_request(server.port, "POST", BOOKINGS, body=b" " * 70_000)
        assert (status, headers["Content-Type"]) == (413, "application/problem+json")
        status, headers, _ = raw_request(server.port, "POST", BOOKINGS, body=b"[" * 10_000_000)
        assert (status, headers["Content-Type"]) == (413, "application/problem+json")
        status, _, _ = raw_request(server.port, "POST", BOOKINGS, length=LONGEST_BODY + 1)
        assert status == 413
        status, _, content = raw_request(server.port, "POST", BOOKINGS, body=GOOD)
        assert status == 201, content
    finally:
        server.close()
