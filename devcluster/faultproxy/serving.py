"""Serves the requests on each client's connection one by one: asks the rules, forwards, and answers.

If the API server cannot be reached the connection ends without an answer: the client sees what it would see
without the proxy.
"""

import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final

import msgspec
import urllib3
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse, HTTPResponse

from cluster.process.clock import Clock
from devcluster.faultproxy.calls import Call
from devcluster.faultproxy.rules import FaultAnswer, Lose, Record, Refuse, Rules, Slow
from devcluster.faultproxy.streams import Gate, Stream, Streams

_BETWEEN_TWO_ALONE: Final = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}
)
"""Headers that concern one connection, not the message."""
_CHUNK: Final = 65536
_ANSWERED_WITHIN: Final = 60.0
"""Seconds that the API server may take for anything but a watch."""
_BROKEN: Final = (OSError, HTTPError, ValueError, AttributeError)
"""What a connection raises if it ends while it is used, even if another thread of ours ended it."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """What calls need on their way from the clients to the API server."""

    server: str
    """URL of the API server."""
    upstream: urllib3.PoolManager
    rules: Rules
    streams: Streams
    clock: Clock


class Entrance(ThreadingHTTPServer):
    """Accepts the clients' connections. TLS handshakes happen in the connection's own thread."""

    daemon_threads = True
    # A client may keep its connection for as long as it likes: closing does not wait for it.
    block_on_close = False
    request_queue_size = 128

    def __init__(self, host: str, context: ssl.SSLContext, way: Way) -> None:
        super().__init__((host, 0), _Handler)
        self.way = way
        self._context = context
        self._open: set[socket.socket] = set()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Speak TLS, then HTTP, until either side ends the connection."""
        with suppress(*_BROKEN), self._context.wrap_socket(request, server_side=True) as connection:
            self._open.add(connection)
            try:
                _Handler(connection, client_address, self)
            finally:
                self._open.discard(connection)

    def end_connections(self) -> None:
        """End all open connections in the middle."""
        for connection in list(self._open):
            with suppress(*_BROKEN):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Entrance
    # An event of a watch must not wait for the acknowledgement of the one before.
    disable_nagle_algorithm: ClassVar[bool] = True

    def __getattr__(self, name: str) -> Any:
        """``do_GET`` and so on: every method is treated alike."""
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def log_message(self, *_words: object) -> None:
        """Log nothing: the rules keep the record."""

    def _serve(self) -> None:
        way = self.server.way
        call = Call(
            verb=self.command,
            target=self.path,
            caller=(self.headers.get("User-Agent") or "").partition("/")[0],
            body=self.rfile.read(int(self.headers.get("Content-Length") or 0)),
        )
        record = way.rules.decide(call)
        match record.action:
            case FaultAnswer() as answer:
                record.status = answer.code
                self._make_up(call, answer)
            case Refuse(meanwhile=meanwhile):
                self.close_connection = True
                meanwhile(call)
            case action:
                if isinstance(action, Slow) and action.forwarded_late:
                    self._wait(action.seconds)
                self._forward(record)

    def _forward(self, record: Record) -> None:
        try:
            answer = self._ask(record.call)
        except _BROKEN:
            self.close_connection = True
            return
        record.status = answer.status
        match record.action:
            case Lose(meanwhile=meanwhile):
                self.close_connection = True
                _give_up(record.call, answer)
                meanwhile(record.call)
                return
            case Slow(seconds=seconds, forwarded_late=False):
                self._wait(seconds)
        if record.call.is_watch and answer.status == HTTPStatus.OK:
            self._stream(record, answer)
        else:
            self._bring(answer)

    def _wait(self, seconds: float) -> None:
        """Wait in the connection's own thread, which has nothing else to do; closing the proxy ends it."""
        way = self.server.way
        way.clock.wait(way.streams.closed, seconds)

    def _ask(self, call: Call) -> BaseHTTPResponse:
        way = self.server.way
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _BETWEEN_TWO_ALONE}
        return way.upstream.request(
            call.verb,
            way.server + call.target,
            body=call.body or None,
            headers=headers,
            timeout=urllib3.Timeout(connect=3.0, read=None if call.is_watch else _ANSWERED_WITHIN),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )

    def _begin(self, answer: BaseHTTPResponse, header: str, value: str) -> None:
        self.send_response_only(answer.status)
        for key, text in answer.headers.items():
            if key.lower() not in _BETWEEN_TWO_ALONE:
                self.send_header(key, text)
        self.send_header(header, value)
        self.end_headers()

    def _bring(self, answer: BaseHTTPResponse) -> None:
        try:
            body = answer.data
        except _BROKEN:
            self.close_connection = True
            return
        self._begin(answer, "Content-Length", str(len(body)))
        self.wfile.write(body)

    def _stream(self, record: Record, answer: BaseHTTPResponse) -> None:
        def stop_reading() -> None:
            if isinstance(answer, HTTPResponse):
                # ValueError, RuntimeError: it was read to its end meanwhile.
                with suppress(RuntimeError, *_BROKEN):
                    answer.shutdown()

        way = self.server.way
        stream = Stream(record.call, self.connection, stop_reading)
        gate = Gate(record.action, way.clock, stream)
        way.streams.add(stream)
        try:
            self._begin(answer, "Transfer-Encoding", "chunked")
            for piece in answer.stream(_CHUNK, decode_content=False):
                if not gate.passes():
                    break
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            if not stream.ended.is_set():
                self.wfile.write(b"0\r\n\r\n")
        except _BROKEN:
            self.close_connection = True
        finally:
            way.streams.remove(stream)
            self.close_connection = self.close_connection or stream.ended.is_set()
            answer.close()

    def _make_up(self, call: Call, made: FaultAnswer) -> None:
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": made.message,
            "reason": made.reason,
            "code": made.code,
        }
        if made.retry_after is not None:
            status["details"] = {"retryAfterSeconds": made.retry_after}
        body, code = msgspec.json.encode(status), made.code
        if call.is_watch and made.code == HTTPStatus.GONE:
            body, code = b'{"type":"ERROR","object":%s}\n' % body, HTTPStatus.OK
        self.send_response_only(code)
        self.send_header("Date", self.date_time_string())
        self.send_header("Content-Type", "application/json")
        if made.retry_after is not None:
            self.send_header("Retry-After", str(made.retry_after))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _give_up(call: Call, answer: BaseHTTPResponse) -> None:
    """Drop a response that no client gets; the response to a watch does not end by itself."""
    if call.is_watch:
        answer.close()
    else:
        answer.drain_conn()
