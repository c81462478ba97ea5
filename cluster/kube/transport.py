"""HTTP to the API server: connections, credentials, errors, the server's clock. Used by the client alone."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse, HTTPResponse

from cluster.kube.connection import Connection
from cluster.kube.errors import Malformed, Refusal, Request, Unreachable, refusal_of, refused
from cluster.runtime.clock import Clock

KEEPALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""A peer that vanished without a word is noticed after a minute, also in the pool."""

_CHUNK: Final = 65536
_IDLE_CONNECTIONS: Final = 16


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """Seconds."""

    connect: float = 3.0
    read: float = 15.0
    """Between two bytes of an answer."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request."""

    verb: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = "application/json"

    @property
    def request(self) -> Request:
        """For errors."""
        return Request(self.verb, self.path)


class Transport:
    """A pool of connections to one API server."""

    def __init__(self, connection: Connection, clock: Clock, *, user_agent: str, timeouts: Timeouts) -> None:
        self._server = connection.server.rstrip("/")
        self._credentials = connection.credentials
        self._clock = clock
        self._headers = {"User-Agent": user_agent, "Accept": "application/json"}
        self._timeouts = timeouts
        self._skew: timedelta | None = None
        self._pool = urllib3.PoolManager(
            num_pools=1,
            maxsize=_IDLE_CONNECTIONS,
            socket_options=[*HTTPConnection.default_socket_options, *KEEPALIVE],
            cert_reqs="CERT_REQUIRED",
            ca_certs=str(connection.ca_file) if connection.ca_file else None,
            cert_file=str(connection.client_certificate) if connection.client_certificate else None,
            key_file=str(connection.client_key) if connection.client_key else None,
        )

    def skew(self) -> timedelta | None:
        """The API server's clock minus ours, by its last answer; to the second. None before the first."""
        return self._skew

    def send(self, call: Call) -> bytes:
        """The body of the answer.

        Raises:
            StatusError: 4xx or 5xx.
            Unreachable: no answer, or a broken one.
        """
        return self._answer(call, read_timeout=self._timeouts.read, stream=False).data

    def stream(self, call: Call, *, silence: float) -> "Stream":
        """An answer that is read while it comes.

        Raises:
            StatusError: 4xx or 5xx.
            Unreachable: no answer.
        """
        return Stream(self._answer(call, read_timeout=silence, stream=True), call.request)

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.clear()

    def _answer(self, call: Call, *, read_timeout: float, stream: bool) -> BaseHTTPResponse:
        answer = self._exchange(call, read_timeout=read_timeout, stream=stream)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            # Nothing was done yet; the token may just have been rotated.
            self._credentials.refused()
            _discard(answer)
            answer = self._exchange(call, read_timeout=read_timeout, stream=stream)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise refused(call.request, _refusal(answer))
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            _discard(answer)
            raise Malformed(
                call.request, f"it is a redirect ({answer.status}), which the API server never sends"
            )
        return answer

    def _exchange(self, call: Call, *, read_timeout: float, stream: bool) -> BaseHTTPResponse:
        headers = dict(self._headers)
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        token = self._credentials.token()
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        url = self._server + call.path + ("?" + urlencode(call.query) if call.query else "")
        try:
            answer = self._pool.request(
                call.verb,
                url,
                body=call.body,
                headers=headers,
                timeout=urllib3.Timeout(connect=self._timeouts.connect, read=read_timeout),
                retries=False,
                redirect=False,
                preload_content=not stream,
            )
        except (HTTPError, OSError) as error:
            raise Unreachable(call.request, str(error)) from error
        self._note_date(answer.headers.get("Date"))
        return answer

    def _note_date(self, date: str | None) -> None:
        if date is None:
            return
        try:
            theirs = parsedate_to_datetime(date)
        except ValueError:
            return
        self._skew = theirs.replace(tzinfo=theirs.tzinfo or UTC) - self._clock.now()


class Stream:
    """The lines of an answer, as they come. One thread reads, any thread closes."""

    def __init__(self, answer: BaseHTTPResponse, request: Request) -> None:
        self._answer = answer
        self._request = request
        self._closed = False
        self._reading = False

    def lines(self) -> Iterator[bytes]:
        """Whole lines without their ends; stops when the server ends the answer, or after ``close``.

        Raises:
            Unreachable: silence, or the connection broke.
        """
        # Either this thread sees that it is closed, or whoever closes sees that it reads.
        self._reading = True
        pending = b""
        try:
            if self._closed:
                return
            for chunk in self._answer.stream(_CHUNK, decode_content=False):
                *whole, pending = (pending + chunk).split(b"\n")
                yield from (line for line in whole if line)
        except (HTTPError, OSError, ValueError, AttributeError) as error:
            # A close from another thread shows here in many ways; only then is it no failure.
            if not self._closed:
                raise Unreachable(self._request, str(error)) from error
        finally:
            self._reading = False
            _discard(self._answer)

    def close(self) -> None:
        """Wake the reading thread and let it end; without one, close the connection."""
        self._closed = True
        if self._reading and isinstance(self._answer, HTTPResponse):
            # ValueError, RuntimeError: the answer was read to its end meanwhile.
            with suppress(ValueError, RuntimeError, OSError):
                self._answer.shutdown()
        else:
            _discard(self._answer)


def _refusal(answer: BaseHTTPResponse) -> Refusal:
    try:
        body = answer.data
    except (HTTPError, OSError):
        body = b""
    return refusal_of(answer.status, body, retry_after=answer.headers.get("Retry-After"))


def _discard(answer: BaseHTTPResponse) -> None:
    answer.close()
    answer.release_conn()
