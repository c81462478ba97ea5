"""Serves a WSGI app to the kube-scheduler next to us: a thread for each of its few connections.

waitress hands every request from the thread that reads to one that answers, and back, which costs more than
many answers do. Here one thread reads, answers and writes. HTTP is parsed by httptools (Node.js's parser).
"""

import io
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import httptools
import structlog

from cluster.process.clock import Clock
from cluster.process.probes import (
    BACKLOG,
    IDLE_SECONDS,
    LONGEST_ANSWER_SECONDS,
    LONGEST_BODY_BYTES,
    RECEIVED_AT_ONCE,
    SLOWEST_REQUEST_SECONDS,
    ServeError,
)

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = structlog.get_logger(__name__)

LONGEST_HEAD_BYTES: Final = 64 * 1024
CHECKED_EVERY: Final = 1.0
"""Seconds between two looks for connections that are idle or slow for too long."""


@lru_cache(maxsize=64)
def _variable(name: bytes) -> str:
    """The WSGI variable of a header."""
    return f"HTTP_{name.decode('latin-1').upper().replace('-', '_')}"


class _RefusedError(Exception):
    """The request cannot be read; its connection is closed after this answer."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


@dataclass(slots=True)
class _Request:
    """A request while it is read: httptools calls the methods ``on_...``."""

    longest_body: int
    target: bytes = b""
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: list[bytes] = field(default_factory=list)
    length: int = 0
    """Bytes of the body so far."""
    received: int = 0
    """Bytes so far, head included."""
    has_head: bool = False
    is_complete: bool = False

    def on_message_begin(self) -> None:
        """A request begins: no second one is read before the first is answered."""
        if self.is_complete:
            raise _RefusedError(HTTPStatus.BAD_REQUEST)

    def on_url(self, url: bytes) -> None:
        """A part of the target has been read."""
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header has been read."""
        name = name.lower()
        self.headers[name] = self.headers[name] + b", " + value if name in self.headers else value

    def on_headers_complete(self) -> None:
        """The body begins: one that is announced as too long is not awaited."""
        self.has_head = True
        if int(self.headers.get(b"content-length", b"0")) > self.longest_body:
            raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

    def on_body(self, body: bytes) -> None:
        """A part of the body has been read."""
        self.length += len(body)
        if self.length > self.longest_body:
            raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        self.body.append(body)

    def on_message_complete(self) -> None:
        """The whole request has been read."""
        self.is_complete = True

    def feed(self, parser: httptools.HttpRequestParser, part: bytes) -> None:
        """Let its parser read a part.

        Raises:
            _RefusedError: it is no HTTP, or more than may be sent.
        """
        self.received += len(part)
        try:
            parser.feed_data(part)
        except httptools.HttpParserCallbackError as error:
            if isinstance(error.__context__, _RefusedError):
                raise error.__context__ from None
            raise
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise _RefusedError(HTTPStatus.BAD_REQUEST) from error
        if self.received > LONGEST_HEAD_BYTES and not self.has_head:
            raise _RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def environ(self, method: str, version: str) -> dict[str, Any]:
        """The request as the WSGI app reads it."""
        path, _, query = self.target.decode("latin-1").partition("?")
        body = b"".join(self.body)
        named = {_variable(name): value.decode("latin-1") for name, value in self.headers.items()}
        return named | {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "SERVER_PROTOCOL": f"HTTP/{version}",
            "CONTENT_TYPE": named.get("HTTP_CONTENT_TYPE", ""),
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
        }


class _Connection:
    """One connection, read by a thread of its own."""

    def __init__(self, sock: socket.socket, clock: Clock) -> None:
        self.sock: Final = sock
        self._clock = clock
        self.since = clock.monotonic()
        """Since when it waits for a request, or for the rest of one."""
        self.is_reading = False
        """Whether a part of a request has come."""
        self.is_answering = False
        self.is_sending = False
        """Whether its answer is on the way, since ``since``."""

    def rests(self) -> None:
        """It waits for the next request."""
        self.since, self.is_reading, self.is_sending = self._clock.monotonic(), False, False
        self.is_answering = False

    def begins(self) -> None:
        """The first part of a request has come."""
        if not self.is_reading:
            self.since, self.is_reading = self._clock.monotonic(), True

    def send(self, answer: bytes) -> None:
        """Send an answer. Who does not read it is cut off, as who does not send a request.

        Raises:
            OSError: the client is gone, or has been cut off.
        """
        self.since, self.is_sending = self._clock.monotonic(), True
        self.sock.sendall(answer)

    def read_no_more(self) -> None:
        """Read no further request; what is being answered is sent."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RD)

    def cut(self) -> None:
        """End it: its thread reads the end."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)


class LoopbackServer:
    """A WSGI app on a port, served by a thread for each connection."""

    def __init__(
        self,
        app: "WSGIApplication",
        host: str,
        port: int,
        clock: Clock,
        *,
        connections: int,
        longest_body: int = LONGEST_BODY_BYTES,
        slowest_request: float = SLOWEST_REQUEST_SECONDS,
    ) -> None:
        """Serve until closed.

        Args:
            app: called by several threads at once.
            host: an IP address.
            port: 0 for a free one.
            clock: for the times that a connection may take.
            connections: number of connections at one time; of more, those that are idle longest are closed.
            longest_body: bytes; a longer request is answered with 413.
            slowest_request: seconds in which a request must be complete.

        Raises:
            ServeError: the address is taken or not ours.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as error:
            raise ServeError(error.errno, f"Cannot listen on {host} port {port}: {error.strerror}") from error
        self.port: Final[int] = self._listening.getsockname()[1]
        """The port that it really listens on."""
        self._app, self._clock = app, clock
        self._most, self._longest_body, self._slowest = connections, longest_body, slowest_request
        self._lock = threading.Lock()
        self._connections: dict[_Connection, threading.Thread] = {}
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._accept, name=f"http-{self.port}", daemon=True),
            threading.Thread(target=self._watch, name=f"http-{self.port}-idle", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Answer the requests in progress, then end every connection."""
        if self._closing.is_set():
            return
        self._closing.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        with self._lock:
            open_ones = dict(self._connections)
        for connection in open_ones:
            connection.read_no_more()
        until = self._clock.monotonic() + LONGEST_ANSWER_SECONDS
        for thread in open_ones.values():
            thread.join(max(0.0, until - self._clock.monotonic()))
        for connection in open_ones:
            connection.cut()
        for thread in self._threads:
            thread.join()
        self._listening.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                self._accept_one()
            except Exception:
                if self._closing.is_set():
                    return
                log.exception("a connection could not be accepted", port=self.port)
                self._clock.wait(self._closing, CHECKED_EVERY)

    def _accept_one(self) -> None:
        with suppress(ConnectionError):
            sock, _ = self._listening.accept()
            try:
                self._begin(sock)
            except BaseException:
                sock.close()
                raise
            while len(self._connections) >= 2 * self._most and not self._closing.is_set():
                self._clock.wait(self._closing, CHECKED_EVERY / 10)

    def _begin(self, sock: socket.socket) -> None:
        """Have a thread serve a connection."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = _Connection(sock, self._clock)
        thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
        with self._lock:  # ``close`` joins only threads that have been started
            if self._closing.is_set():
                sock.close()
                return
            thread.start()
            self._connections[connection] = thread

    def _watch(self) -> None:
        while not self._clock.wait(self._closing, min(CHECKED_EVERY, self._slowest / 4)):
            try:
                self._cut_off()
            except Exception:
                log.exception("connections could not be checked", port=self.port)

    def _cut_off(self) -> None:
        """End the connections that are idle or slow for too long."""
        now = self._clock.monotonic()
        with self._lock:
            waiting = sorted(
                (one for one in self._connections if one.is_sending or not one.is_answering),
                key=lambda one: one.since,
            )
            too_many = len(self._connections) - self._most
        for number, one in enumerate(waiting):
            longest = self._slowest if one.is_reading else IDLE_SECONDS
            if now - one.since > (CHECKED_EVERY if number < too_many else longest):
                one.cut()

    def _serve(self, connection: _Connection) -> None:
        try:
            with connection.sock, suppress(OSError):
                while not self._closing.is_set() and self._serve_one(connection):
                    connection.rests()
        finally:
            with self._lock:
                self._connections.pop(connection, None)

    def _serve_one(self, connection: _Connection) -> bool:
        """Read a request and answer it; returns whether the connection stays."""
        request, stays = _Request(self._longest_body), True
        parser = httptools.HttpRequestParser(request)
        try:
            while not request.is_complete:
                part = connection.sock.recv(RECEIVED_AT_ONCE)
                if not part:
                    return False
                connection.begins()
                request.feed(parser, part)
        except _RefusedError as refused:
            if not request.is_complete:
                connection.send(_answer(refused.status, [], b"", stays=False))
                return False
            stays = False  # what came after the whole request is not read
        connection.is_answering = True
        method = parser.get_method().decode("latin-1")
        status, headers, body, afterwards = self._call(request.environ(method, parser.get_http_version()))
        stays = stays and parser.should_keep_alive() and not self._closing.is_set()
        try:
            connection.send(_answer(status, headers, b"" if method == "HEAD" else body, stays=stays))
        finally:
            afterwards()
        return stays

    def _call(
        self, environ: dict[str, Any]
    ) -> tuple["HTTPStatus | str", list[tuple[str, str]], bytes, Callable[[], None]]:
        """What the app answers: status, headers, body, and what is to do once that has been sent."""
        found: list[Any] = []

        def start_response(status: str, headers: list[tuple[str, str]], _error: Any = None) -> Any:
            found[:] = [status, headers]

        try:
            answer = self._app(environ, start_response)
            body = b"".join(answer)
            status, headers = found
        except Exception:
            log.exception("internal error while answering a request", path=environ["PATH_INFO"])
            return HTTPStatus.INTERNAL_SERVER_ERROR, [], b"", lambda: None
        return status, headers, body, getattr(answer, "close", lambda: None)


def _answer(status: HTTPStatus | str, headers: list[tuple[str, str]], body: bytes, *, stays: bool) -> bytes:
    line = f"{status.value} {status.phrase}" if isinstance(status, HTTPStatus) else status
    named = [*headers, *([] if headers else [("Content-Length", "0")])]
    named += [] if stays else [("Connection", "close")]
    head = "".join(f"{name}: {value}\r\n" for name, value in named)
    return f"HTTP/1.1 {line}\r\n{head}\r\n".encode("latin-1") + body
