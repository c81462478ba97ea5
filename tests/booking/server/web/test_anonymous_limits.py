"""Clients that are not signed in are counted by address, without cost to users who are."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from booking.server.web.app import create_app
from booking.server.web.rate_limits import RateLimits
from booking.server.web.request_guard import RequestGuard
from cluster import names
from cluster.kube.errors import Request, Unreachable
from tests.booking.server.web.login.entrance import Entrance
from tests.booking.server.web.served import BOOKINGS, STRANGERS, Served, problem

INDEX = "/api/v1"
ELSEWHERE = {"REMOTE_ADDR": "203.0.113.5"}


@pytest.fixture
def entrance(tmp_path: Path) -> Iterator[Entrance]:
    made = Entrance(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("path", ["/api/v1", "/api/v1/openapi.json"])
def test_requests_without_login_are_limited_per_address(served: Served, path: str) -> None:
    for _ in range(STRANGERS):
        assert served.client.get(path).status_code == 200
    refused = served.client.get(path)
    assert "127.0.0.1" in problem(refused, 429)["detail"]
    wait = int(refused.headers["Retry-After"])

    assert served.client.get(path, environ_overrides=ELSEWHERE).status_code == 200
    served.clock.advance(wait)
    assert served.client.get(path).status_code == 200


def test_a_known_token_is_not_limited_by_strangers_from_the_same_address(served: Served) -> None:
    assert served.ask("GET", BOOKINGS).status_code == 200
    for _ in range(STRANGERS + 1):
        served.client.get(INDEX)
    problem(served.client.get(INDEX), 429)

    # The answer of the API server about a token has expired, but it is still known that the token was valid.
    served.clock.advance(10)
    for _ in range(STRANGERS):
        served.client.get(INDEX)
    assert served.ask("GET", BOOKINGS).status_code == 200
    problem(served.ask("GET", BOOKINGS, user="bob"), 429)
    assert served.ask("GET", BOOKINGS, user="bob", environ_overrides=ELSEWHERE).status_code == 200


def test_a_request_without_credentials_is_not_counted(served: Served) -> None:
    for _ in range(2 * STRANGERS):
        problem(served.client.get(BOOKINGS), 401)
    assert served.client.get(INDEX).status_code == 200


def test_a_request_with_an_unknown_session_is_counted(served: Served) -> None:
    served.client.set_cookie(names.SESSION_COOKIE, "a" * 43)
    for _ in range(STRANGERS):
        problem(served.client.get(BOOKINGS), 401)
    problem(served.client.get(INDEX), 429)


def test_a_token_that_is_no_longer_valid_counts_as_anonymous(served: Served) -> None:
    assert served.ask("GET", BOOKINGS).status_code == 200
    served.tokens.names.clear()
    served.clock.advance(10)
    for _ in range(STRANGERS):
        problem(served.ask("GET", BOOKINGS), 401)
    problem(served.ask("GET", BOOKINGS), 429)


def test_guessed_tokens_soon_cause_no_more_requests_to_the_api_server(served: Served) -> None:
    def guess(number: int) -> int:
        headers = {"Authorization": f"Bearer guess-{number}"}
        return served.client.get(BOOKINGS, headers=headers).status_code

    assert {guess(number) for number in range(STRANGERS)} == {401}
    assert {guess(number) for number in range(STRANGERS, 2 * STRANGERS)} == {429}
    assert served.tokens.calls.total() == STRANGERS

    served.clock.advance(1)
    assert guess(0) == 401
    assert guess(-1) == 429


def test_a_name_that_no_rule_maps_counts_as_anonymous_too(served: Served) -> None:
    served.tokens.names["robot-token"] = "system:serviceaccount:research:robot"
    for _ in range(STRANGERS):
        problem(served.ask("GET", BOOKINGS, user="robot"), 403)
    problem(served.ask("GET", BOOKINGS, user="robot"), 429)


def test_an_outage_of_the_api_server_counts_against_nobody(served: Served) -> None:
    served.tokens.problem = Unreachable(Request("POST", "/apis"), "refused")
    for _ in range(STRANGERS + 1):
        problem(served.ask("GET", BOOKINGS), 503)
    served.tokens.problem = None
    assert served.ask("GET", BOOKINGS).status_code == 200


class Behind:
    """A client behind a proxy, which names the client in a header."""

    def __init__(self, client: FlaskClient) -> None:
        self._client = client

    def ask(self, forwarded: str) -> int:
        """A request that needs no login."""
        return self._client.get("/api/v1", headers={"X-Forwarded-For": forwarded}).status_code


class TestProxies:
    def client(self, served: Served, *proxies: str) -> Behind:
        limits = RateLimits(served.clock, per_second=1, burst=1000)
        guard = RequestGuard(served.signing_in, limits, served.strangers(*proxies))
        return Behind(create_app(served.parts, guard, audience="x").test_client())

    def test_clients_behind_a_trusted_proxy_are_counted_separately(self, served: Served) -> None:
        behind = self.client(served, "127.0.0.0/8")
        assert {behind.ask("203.0.113.5") for _ in range(STRANGERS)} == {200}
        assert behind.ask("203.0.113.5") == 429
        assert behind.ask("203.0.113.6") == 200

    def test_the_limit_cannot_be_evaded_with_a_forged_header(self, served: Served) -> None:
        behind = self.client(served)
        assert {behind.ask(f"203.0.113.{number}") for number in range(STRANGERS)} == {200}
        assert behind.ask("198.51.100.1") == 429


class TestLogin:
    def test_the_login_form_is_limited_per_address(self, entrance: Entrance) -> None:
        for _ in range(STRANGERS - 1):
            assert entrance.paste("guess").status_code == 401
        assert entrance.browser.get("/login").status_code == 200
        calls = entrance.tokens.calls.total()
        refused = entrance.paste("another-guess")

        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) > 0
        assert "too many requests" in refused.text
        assert entrance.tokens.calls.total() == calls
        assert entrance.browser.get("/login").status_code == 429
        elsewhere = entrance.browser.get("/login", environ_overrides=ELSEWHERE)
        assert elsewhere.status_code == 200

    def test_a_signed_in_user_remains_signed_in_and_may_sign_out(self, entrance: Entrance) -> None:
        entrance.paste("alice-token")
        stranger = entrance.app.test_client()
        for _ in range(STRANGERS):
            stranger.get("/login")
        assert stranger.get("/login").status_code == 429

        page = entrance.browser.get("/mine")
        assert page.status_code == 200
        csrf = page.text.split('name="csrf" value="')[1].split('"')[0]
        answer = entrance.browser.post("/logout", data={"csrf": csrf}, headers={"Origin": "http://localhost"})
        assert answer.status_code == 303
        assert entrance.me().status_code == 401
