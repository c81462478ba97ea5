"""Requests that are not what the API takes: each a clear problem, nothing stored."""

from dataclasses import replace

import msgspec
import pytest
from prometheus_client import generate_latest

from booking.policy.limits import Limits
from booking.principals import Principal
from booking.records import Record
from booking.server import LONGEST_BODY
from booking.service import BookingService
from booking.web.app import create_app
from cluster.process.probes import serve
from tests.booking.web.raw_http import raw_request
from tests.booking.web.served import BOOKINGS, Served, about, problem
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
def test_a_body_that_is_no_json_object_is_told_so(served: Served, body: bytes, says: str) -> None:
    told = problem(served.ask("POST", BOOKINGS, data=body, **JSON), 400)

    assert says in told["detail"]
    assert served.stored == 0


@pytest.mark.parametrize("twice", ["model", "duration", "count"])
def test_a_key_that_stands_twice_is_told_so(served: Served, twice: str) -> None:
    fields = '"model": "a", "duration": "P1D", "count": 1'
    body = f'{{{fields}, "{twice}": "b"}}'
    told = problem(served.ask("POST", BOOKINGS, data=body, **JSON), 400)

    assert about(told)[twice] == "duplicated-field"


def test_a_deep_value_that_is_still_json_is_a_malformed_field(served: Served) -> None:
    body = b'{"duration": "P1D", "model": ' + b"[" * 500 + b"]" * 500 + b"}"
    told = problem(served.ask("POST", BOOKINGS, data=body, **JSON), 400)

    assert about(told) == {"model": "malformed-field"}


@pytest.mark.parametrize("number", [b"9" * 5000, b"-" + b"9" * 5000, b"1e999999", b"1E400"])
def test_an_enormous_number_is_a_malformed_field(served: Served, number: bytes) -> None:
    body = GOOD[:-1] + b', "count": ' + number + b"}"
    told = problem(served.ask("POST", BOOKINGS, data=body, **JSON), 400)

    assert about(told) == {"count": "malformed-field"}


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", None])
def test_another_media_type_is_refused(served: Served, kind: str | None) -> None:
    told = problem(served.ask("POST", BOOKINGS, data=GOOD, content_type=kind), 415)

    assert "Content-Type: application/json" in told["detail"]
    assert served.stored == 0


def test_a_charset_does_not_matter(served: Served) -> None:
    answer = served.ask("POST", BOOKINGS, data=GOOD, content_type="application/json; charset=utf-8")

    assert answer.status_code == 201


def test_a_body_over_64_kib_is_refused(served: Served) -> None:
    fits = GOOD + b" " * (64 * 1024 - len(GOOD))
    problem(served.ask("POST", BOOKINGS, data=fits + b" ", **JSON), 413)
    assert served.stored == 0

    assert served.ask("POST", BOOKINGS, data=fits, **JSON).status_code == 201


def test_what_is_not_there_is_told_so(served: Served) -> None:
    told = problem(served.ask("GET", "/api/v2/all bookings"), 404)

    assert "GET /api/v1" in told["detail"]
    assert told["instance"] == "/api/v2/all%20bookings"


def test_an_address_with_a_slash_too_many_leads_nowhere(served: Served) -> None:
    for path in ("/api//v1/bookings", "//api/v1/bookings", f"{BOOKINGS}/"):
        problem(served.ask("GET", path), 404)


@pytest.mark.parametrize(
    "booking", ["nothing", "b-1%00", "%F0%9F%98%80", "a" * 300, "'; DROP TABLE bookings"]
)
def test_an_unknown_booking_is_told_so(served: Served, booking: str) -> None:
    problem(served.ask("GET", f"{BOOKINGS}/{booking}"), 404)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS"])
def test_a_method_that_an_address_does_not_know_is_told_with_those_that_it_does(
    served: Served, method: str
) -> None:
    answer = served.ask(method, BOOKINGS)

    problem(answer, 405)
    assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD", "POST"}


@pytest.mark.parametrize(
    "query", ["?dryrun=true", "?dry_run=1", "?dry_run=", "?dry_run=true&dry_run=false", "?past=true"]
)
def test_a_slip_in_the_query_books_nothing(served: Served, query: str) -> None:
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
        """Fail in a way that nobody thought of."""
        raise ZeroDivisionError(f"a secret of {who.user}: {booking_id}")


def test_a_bug_of_ours_is_told_without_a_traceback(served: Served) -> None:
    broken = Broken(served.store, served.clock, Limits(), lambda: served.capacity)
    client = served.client_of(replace(served.parts, bookings=broken))
    answer = client.get(f"{BOOKINGS}/b-1", headers={"Authorization": "Bearer alice-token"})

    problem(answer, 500)
    assert "secret" not in answer.text


def test_the_index_says_what_is_here_to_everybody(served: Served) -> None:
    answer = served.client.get("/api/v1")

    assert answer.status_code == 200
    told = answer.get_json()
    assert "POST /api/v1/bookings" in told["addresses"]
    assert "--audience gpu-booking" in told["token"]


def test_answers_are_not_cached(served: Served) -> None:
    headers = served.ask("GET", BOOKINGS).headers

    assert (headers["Cache-Control"], headers["X-Content-Type-Options"]) == ("no-store", "nosniff")


def test_requests_are_counted_by_endpoint_and_status(served: Served) -> None:
    served.ask("GET", BOOKINGS)
    served.ask("GET", BOOKINGS, user="mallory")
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
        status, _, told = raw_request(server.port, "POST", BOOKINGS, body=GOOD)
        assert status == 201, told
    finally:
        server.close()
