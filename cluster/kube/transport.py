"""HTTP to the API server: connections, credentials, errors, the server's clock."""

import math
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3.connection import HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError
from urllib3.response import BaseHTTPResponse, HTTPResponse
from urllib3.util.ssl_ import create_urllib3_context

from cluster.kube.brief_answers import BriefAnswer, read_answer, request_bytes
from cluster.kube.connection import ApiServerAccess
from cluster.kube.errors import Malformed, Refusal, Request, Unreachable, Unsent, refusal_of, refused
from cluster.process.clock import Clock

if TYPE_CHECKING:
    from urllib3._base_connection import BaseHTTPSConnection

KEEPALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""A peer that vanished without closing the connection is noticed after a minute, also in the pool."""

_OPTIONS: Final = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), *KEEPALIVE)
_CHUNK: Final = 65536
CONNECTIONS: Final = 16
"""Number of connections to keep; further simultaneous requests open, and close, one each."""


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """Seconds."""

    connect: float = 3.0
    read: float = 15.0
    """Maximum between two bytes of an answer."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """A request to the API server, and how much time it has."""

    verb: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = "application/json"
    within: float | None = None
    """Seconds within which it is sent, or not at all; None for no limit."""
    answered: float | None = None
    """Seconds to wait for its answer; None for the usual timeout."""
    is_brief: bool = False
    """Whether request and answer are of one object: then they cost less."""

    @property
    def request(self) -> Request:
        """The call as errors name it."""
        return Request(self.verb, self.path)


class _Socket(ssl.SSLSocket):
    """A socket that is closed if the peer hangs up before the TLS handshake.

    Python then reads once; older releases of 3.11 and 3.12 leave the socket to garbage collection
    (cpython#113280).
    """

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """As in ``SSLSocket``, but closes the socket on a connection error."""
        try:
            return super().recv(buflen, flags)
        except ConnectionError:
            self.close()
            raise


def _context() -> ssl.SSLContext:
    context = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED)
    context.sslsocket_class = _Socket
    return context


class _SharedContext:
    """The TLS context of a pool's connections, made anew when a file of its certificates has changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: tuple[object, ssl.SSLContext] | None = None

    def of(self, authorities: str, certificate: tuple[str | None, ...]) -> ssl.SSLContext:
        """Args: certificate: of the client, as for ``load_cert_chain``; none if it begins with None.

        Raises:
            OSError: a file cannot be read.
        """
        files = (authorities, *certificate[:2])
        versions = tuple(Path(file).stat().st_mtime_ns for file in files if file)
        with self._lock:
            if self._made is None or self._made[0] != versions:
                context = _context()
                context.load_verify_locations(authorities)
                if certificate[0]:
                    context.load_cert_chain(certificate[0], *certificate[1:])
                self._made = versions, context
            return self._made[1]


class ApiServer(HTTPSConnection):
    """One connection. The name of this class is in messages of errors."""

    shared: _SharedContext
    """Where the context with our certificates comes from."""
    authorities: str | None = None
    """File with the authorities that are trusted; None for the system's, which are loaded each time."""
    certificate: tuple[str | None, ...] = (None, None, None)
    """Of the client: its file, its key's, and the password of that."""

    def _new_conn(self) -> socket.socket:
        """Connect; the TLS handshake that follows makes a ``_Socket`` of it."""
        made = super()._new_conn()
        try:
            self.ssl_context = self._trusting()
        except OSError:
            made.close()
            raise
        return made

    def _trusting(self) -> ssl.SSLContext:
        if self.authorities is not None:
            return self.shared.of(self.authorities, self.certificate)
        context = _context()
        context.load_default_certs()
        return context


class _Brief(HTTPConnectionPool):
    """A pool that can also exchange a brief request and its answer, on the same connections."""

    def exchange(self, request: bytes, connect: float, left: Callable[[], float]) -> BriefAnswer:
        """Send a request, and read its answer whole.

        Args:
            request: as ``request_bytes`` makes it.
            connect: seconds for the connection, TCP and TLS each.
            left: returns the seconds in which the next bytes of the answer must come.

        Raises:
            HTTPError: no connection, or a broken answer.
            OSError: the connection broke, or was silent for too long.
        """
        connection, stays = self._get_conn(), False
        try:
            connection.timeout = connect
            if connection.is_closed:
                connection.connect()
            sock: socket.socket = connection.sock  # type: ignore[attr-defined]
            sock.settimeout(left())
            sock.sendall(request)

            def receive(most: int) -> bytes:
                sock.settimeout(left())
                return sock.recv(most)

            answer = read_answer(receive)
            stays = answer.stays
        finally:
            if not stays:
                connection.close()
            self._put_conn(connection)
        return answer


class _Pool(_Brief, HTTPSConnectionPool):
    ConnectionCls = ApiServer

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._shared = _SharedContext()

    def _new_conn(self) -> "BaseHTTPSConnection":
        made = super()._new_conn()
        if isinstance(made, ApiServer):
            made.shared = self._shared
            if made.ca_certs is not None:
                # What the context has is not loaded again: a third of the time to connect.
                made.authorities, made.ca_certs = made.ca_certs, None
                made.certificate = (made.cert_file, made.key_file, made.key_password)
                made.cert_file = made.key_file = None
        return made


_Answer = TypeVar("_Answer", BaseHTTPResponse, BriefAnswer)


class Transport:
    """A pool of connections to one API server."""

    def __init__(
        self,
        connection: ApiServerAccess,
        clock: Clock,
        *,
        user_agent: str,
        timeouts: Timeouts,
        connections: int = CONNECTIONS,
    ) -> None:
        self._server = connection.server.rstrip("/")
        self._credentials = connection.credentials
        self._clock = clock
        self._headers = {"User-Agent": user_agent, "Accept": "application/json"}
        self._timeouts = timeouts
        self._began: datetime | None = None
        """The API server's time at the zero of our monotonic clock, by its last answer."""
        self._dated: tuple[str, datetime] = ("", datetime.min.replace(tzinfo=UTC))
        """The last date of an answer, and when that was."""
        self._pools = connection.pools(connections, _OPTIONS)
        self._pools.pool_classes_by_scheme = {"http": _Brief, "https": _Pool}
        # Looked up once: finding the pool of an address takes a sixth of the time of a request.
        self._pool = self._pools.connection_from_url(self._server)
        self._root = urlsplit(self._server).path
        self._host = urlsplit(self._server).netloc.rpartition("@")[2]

    def skew(self) -> timedelta | None:
        """The API server's clock minus ours, to the second; None before its first answer.

        Since its last answer the server's clock is assumed to run like our monotonic one: so a change of our
        wall clock is noticed even without answers.
        """
        if self._began is None:
            return None
        return self._began + timedelta(seconds=self._clock.monotonic()) - self._clock.now()

    def send(self, call: Call) -> bytes:
        """Send a request; returns the body of the answer.

        Raises:
            StatusError: 4xx or 5xx.
            Unreachable: no answer, or a broken one.
            Unsent: no connection, or none in time.
        """
        pool, until, read = self._pool, _Until.of(call, self._clock.monotonic()), self._timeouts.read
        if call.is_brief and isinstance(pool, _Brief) and pool.proxy is None:
            return self._answer(call, lambda: self._brief(pool, call, until, read_timeout=read)).body
        return self._answer(call, lambda: self._whole(call, until, read_timeout=read)).data or b""

    def stream(self, call: Call, *, silence: float) -> "Stream":
        """Send a request; returns its answer to be read while it arrives.

        Raises:
            StatusError: 4xx or 5xx.
            Unreachable: no answer.
        """
        until = _Until.of(call, self._clock.monotonic())
        answer = self._answer(call, lambda: self._whole(call, until, read_timeout=silence, stream=True))
        return Stream(answer, call.request)

    def close(self) -> None:
        """Close the idle connections."""
        self._pools.clear()
        self._pool = self._pools.connection_from_url(self._server)

    def _answer(self, call: Call, exchange: Callable[[], _Answer]) -> _Answer:
        """The answer to a request that is sent by a function, twice if need be; not a refusal."""
        answer = exchange()
        if answer.status == HTTPStatus.UNAUTHORIZED:
            # The server has done nothing yet; the token may just have been rotated.
            self._credentials.invalidate()
            _discard(answer)
            answer = exchange()
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise refused(call.request, _refusal(answer))
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            _discard(answer)
            raise Malformed(
                call.request, f"it is a redirect ({answer.status}), which the API server never sends"
            )
        return answer

    def _sent_headers(self, call: Call) -> dict[str, str]:
        headers = dict(self._headers)
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        token = self._credentials.token()
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return headers

    def _url(self, call: Call) -> str:
        return self._root + call.path + ("?" + urlencode(call.query) if call.query else "")

    def _whole(
        self, call: Call, until: "_Until", *, read_timeout: float, stream: bool = False
    ) -> BaseHTTPResponse:
        """The answer by urllib3."""
        try:
            answer = self._pool.request(
                call.verb,
                self._url(call),
                body=call.body,
                headers=self._sent_headers(call),
                timeout=self._timeout(call, until, read_timeout),
                retries=False,
                redirect=False,
                preload_content=not stream,
            )
        except (ConnectTimeoutError, NewConnectionError) as error:
            raise Unsent(call.request, str(error)) from error
        except (HTTPError, OSError) as error:
            raise Unreachable(call.request, str(error)) from error
        self._note_date(answer.headers.get("Date"))
        return answer

    def _brief(self, pool: _Brief, call: Call, until: "_Until", *, read_timeout: float) -> BriefAnswer:
        """The answer, past everything of urllib3 but its pool and its way to connect."""
        headers = {"Host": self._host, **self._sent_headers(call)}
        connect = self._connecting(call, until, self._clock.monotonic())

        def left() -> float:
            seconds = min(read_timeout, until.answered - self._clock.monotonic())
            if seconds <= 0:
                raise TimeoutError("the answer did not come in time")
            return seconds

        try:
            request = request_bytes(call.verb, self._url(call), headers, call.body or b"")
            answer = pool.exchange(request, connect, left)
        except (ConnectTimeoutError, NewConnectionError) as error:
            raise Unsent(call.request, str(error)) from error
        except (HTTPError, OSError) as error:
            raise Unreachable(call.request, str(error)) from error
        self._note_date(answer.headers.get("date"))
        return answer

    def _timeout(self, call: Call, until: "_Until", read: float) -> urllib3.Timeout:
        """Timeouts for the connection, TCP and TLS each, and for the answer."""
        now = self._clock.monotonic()
        connect = self._connecting(call, until, now)
        total = None if until.answered == math.inf else until.answered - now
        return urllib3.Timeout(total=total, connect=connect, read=read)

    def _connecting(self, call: Call, until: "_Until", now: float) -> float:
        """Seconds for the connection, TCP and TLS each."""
        if now >= min(until.sent, until.answered):
            raise Unsent(call.request, "it is too late for it")
        return min(self._timeouts.connect, (until.sent - now) / 2, (until.answered - now) / 2)

    def _note_date(self, date: str | None) -> None:
        if date is None:
            return
        text, theirs = self._dated
        if date != text:  # many answers come within one second
            try:
                theirs = parsedate_to_datetime(date)
            except ValueError:
                return
            theirs = theirs.replace(tzinfo=theirs.tzinfo or UTC)
            self._dated = date, theirs
        self._began = theirs - timedelta(seconds=self._clock.monotonic())


@dataclass(frozen=True, slots=True)
class _Until:
    """When to give up a request, by our monotonic clock: before it is sent, and before its answer."""

    sent: float
    answered: float

    @classmethod
    def of(cls, call: Call, now: float) -> "_Until":
        """The limits of the request, counted from now."""
        sent, answered = (
            math.inf if seconds is None else now + seconds for seconds in (call.within, call.answered)
        )
        return cls(sent, answered)


class Stream:
    """The lines of an answer, as they arrive. One thread reads, any thread may close."""

    def __init__(self, answer: BaseHTTPResponse, request: Request) -> None:
        self._answer = answer
        self._request = request
        self._closed = False
        self._reading = False
        self._lock = threading.RLock()
        """Held while the stream ends: a connection that is returned twice would be in the pool twice."""

    def lines(self) -> Iterator[bytes]:
        """Whole lines without their ends; stops when the server ends the answer, or after ``close``.

        Raises:
            Unreachable: silence, or the connection broke.
        """
        with self._lock:
            if self._closed:
                return
            self._reading = True
        pending = b""
        try:
            for chunk in self._answer.stream(_CHUNK, decode_content=False):
                *whole, pending = (pending + chunk).split(b"\n")
                yield from (line for line in whole if line)
        except (HTTPError, OSError, ValueError, AttributeError) as error:
            # A close from another thread shows here as one of many errors; then it is not a failure.
            if not self._closed:
                raise Unreachable(self._request, str(error)) from error
        finally:
            with self._lock:
                self._reading = False
                _discard(self._answer)

    def close(self) -> None:
        """Wake the reading thread, which then ends; if none reads, close the connection."""
        with self._lock:
            self._closed = True
            if self._reading and isinstance(self._answer, HTTPResponse):
                # ValueError, RuntimeError: the answer was read to its end meanwhile.
                with suppress(ValueError, RuntimeError, OSError):
                    self._answer.shutdown()
            else:
                _discard(self._answer)


def _refusal(answer: BaseHTTPResponse | BriefAnswer) -> Refusal:
    try:
        body = answer.body if isinstance(answer, BriefAnswer) else answer.data or b""
    except (HTTPError, OSError):
        body = b""
    return refusal_of(answer.status, body, retry_after=answer.headers.get("retry-after"))


def _discard(answer: BaseHTTPResponse | BriefAnswer) -> None:
    if not isinstance(answer, BriefAnswer):  # of that nothing is left to be read
        answer.close()
        answer.release_conn()
