"""A site whose people sign in: pages, login, REST; the OIDC provider is a process of its own."""

import base64
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import urllib3
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from booking.server.web.app import create_app
from booking.server.web.login.cookies import Cookies
from booking.server.web.login.id_tokens import IdTokens
from booking.server.web.login.kept_forms import SessionForms
from booking.server.web.login.oidc import Oidc
from booking.server.web.login.provider import Provider
from booking.server.web.login.session_auth import LoginContext, SessionAuth
from booking.server.web.login.session_csrf import SessionTokens
from booking.server.web.login.sessions import Sessions
from booking.server.web.login.views import login_pages
from booking.server.web.pages.blueprint import pages
from booking.server.web.rate_limits import RateLimits
from booking.server.web.request_guard import RequestGuard
from cluster.decide.identity import DEFAULT_RULES
from cluster.fake.clock import FakeClock, eventually
from cluster.process.clock import SystemClock
from tests.booking.server.web.pages.site import MANY, Site

PUBLIC = "http://localhost"
CLIENT = "gpu-booking-page"
HTTP = urllib3.PoolManager(retries=False)
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Idp:
    """An OIDC provider."""

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        self.issuer = f"http://127.0.0.1:{port}"
        self._process = process

    @contextmanager
    def silent(self) -> Iterator[None]:
        """It does not answer during the block."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def put(self, sub: str, **claims: Any) -> None:
        """Add a person with these claims."""
        answer = HTTP.request("PUT", f"{self.issuer}/users/{sub}", json=claims)
        assert answer.status == 204

    def sign_in(self, address: str, sub: str, **changed: str) -> str:
        """Fill in the provider's form; where the browser is sent. ``changed``: fields of the query."""
        split = urlsplit(address)
        query = urlencode({**dict(parse_qsl(split.query)), **changed})
        url = urlunsplit(split._replace(query=query))
        answer = HTTP.request("POST", url, body=urlencode({"sub": sub}), headers=FORM, redirect=False)
        assert answer.status == 302, answer.data
        return str(answer.headers["Location"])


@contextmanager
def provider(port: int | None = None, *words: str) -> Iterator[tuple[Idp, int]]:
    """A process that runs one, and its port."""
    port = port or free_port()
    command = [sys.executable, "-m", "oidc_provider_mock", "--port", str(port), *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: _answers(port), deadline=60)
            yield Idp(port, process), port
        finally:
            process.terminate()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        return HTTP.request("GET", f"http://127.0.0.1:{port}/jwks", timeout=1).status == 200
    except urllib3.exceptions.HTTPError:
        return False


class Entrance(Site):
    """A booking server with its login, without its threads."""

    def __init__(self, folder: Path, issuer: str | None = None, **named: Any) -> None:
        super().__init__(folder)
        self.wall = FakeClock(SystemClock().now())
        """The clock for the provider's tokens, set to the system's."""
        secret = folder / "client-secret"
        secret.write_text("any\n")
        named = {"secret_file": secret, **named}
        self.oidc = Oidc(issuer=issuer, client_id=CLIENT, **named) if issuer else None
        self.provider = Provider(self.oidc, self.wall) if self.oidc else None
        self.context = LoginContext(
            bearers=self.authenticator,
            sessions=Sessions(self.store, self.clock, idle=timedelta(hours=2), longest=timedelta(hours=12)),
            cookies=Cookies(PUBLIC if issuer else None),
            roles=self.roles,
            rules=DEFAULT_RULES,
            public=PUBLIC if issuer else None,
            oidc=self.oidc,
            id_tokens=IdTokens(self.provider, self.oidc, self.wall) if self.provider and self.oidc else None,
        )
        often = RateLimits(self.clock, per_second=1, burst=MANY)
        guard = RequestGuard(SessionAuth(self.context), often, self.strangers())
        self.app = create_app(
            self.parts,
            guard,
            audience="gpu-booking",
            blueprints=[
                pages(self.page_parts(guard, SessionTokens(self.context), SessionForms(self.context))),
                login_pages(self.context, guard, audience="gpu-booking", provider=self.provider),
            ],
        )
        self.browser = self.app.test_client()

    def close(self) -> None:
        """Close everything."""
        self.store.close()
        if self.provider:
            self.provider.close()

    def paste(self, token: str, *, then: str = "/mine", **named: Any) -> TestResponse:
        """Sign in with a Kubernetes token."""
        headers = {"Origin": "http://localhost", **named.pop("headers", {})}
        return self.browser.post("/login", data={"token": token, "next": then}, headers=headers, **named)

    def come_back(self, idp: Idp, sub: str = "alice", *, then: str = "/mine", **changed: str) -> TestResponse:
        """Sign in with the provider; the last answer of the booking server."""
        away = self.browser.get("/login", query_string={"next": then})
        assert away.status_code == 302, away.text
        return self.browser.get(idp.sign_in(away.headers["Location"], sub, **changed))

    def me(self, browser: FlaskClient | None = None, **named: Any) -> TestResponse:
        """``GET /me`` of the user who is signed in."""
        return (browser or self.browser).get("/api/v1/me", **named)


def jwt_like(**claims: Any) -> str:
    """A token with these claims, without a signature."""
    middle = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{middle}.c2ln"
