"""A tiny HTTP server on loopback that answers as a script says: for the client's own tests."""

import queue
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar


@dataclass(frozen=True)
class Answer:
    """What to answer. ``chunks`` are sent one by one; None among them keeps the stream open and silent."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: Sequence[bytes | None] | None = None
    cut: bool = False
    """Break the connection after the chunks, or instead of any answer where there are none."""


@dataclass(frozen=True)
class Received:
    """What was asked."""

    verb: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class ScriptedServer:
    """Answers requests in the order of the script."""

    def __init__(self) -> None:
        self.script: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self.received: list[Received] = []
        self.closing = threading.Event()
        self._server = _Server(self)
        threading.Thread(
            target=self._server.serve_forever, args=(0.01,), name="scripted", daemon=True
        ).start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answers(self, *answers: Answer) -> None:
        """Add to the script."""
        for answer in answers:
            self.script.put(answer)

    def close(self) -> None:
        """Stop it and end open streams."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    """A server for one test."""
    server = ScriptedServer()
    try:
        yield server
    finally:
        server.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Streams are left when the test ends; no test has to wait for a client that keeps its connection.
    block_on_close = False

    def __init__(self, owner: ScriptedServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.owner = owner


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    # Small writes must not wait for an acknowledgement.
    disable_nagle_algorithm: ClassVar[bool] = True

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        owner = self.server.owner
        owner.received.append(Received(self.command, self.path, dict(self.headers.items()), body))
        answer = owner.script.get(timeout=10)
        if answer.cut and answer.chunks is None:
            self._cut()
            return
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.chunks is None:
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._stream(answer.chunks)
        if answer.cut:
            self._cut()
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _stream(self, chunks: Sequence[bytes | None]) -> None:
        for chunk in chunks:
            if chunk is None:
                self.server.owner.closing.wait()
            else:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - names that http.server calls

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Say nothing."""
