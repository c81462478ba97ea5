"""A small HTTPS server in place of the API server: records its requests, and streams what a test sends."""

import json
import queue
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from devcluster.faultproxy.certificate import make_identity

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


class Upstream(ThreadingHTTPServer):
    """``events`` go to the running watch, one piece each; None ends it cleanly."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        identity = make_identity(folder, "127.0.0.1")
        self.ca_file = identity.certificate
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(identity.certificate, identity.key)
        self.url = f"https://127.0.0.1:{self.server_address[1]}"
        self.requests: list[tuple[str, str, Mapping[str, str], bytes]] = []
        self.events: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.watch_broke = threading.Event()
        """Set when a watch could not be served to its end."""
        self.connections = 0

    def finish_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        with self.context.wrap_socket(request, server_side=True) as connection:
            _Handler(connection, client_address, self)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore it: a client that goes away is no error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Upstream

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def log_message(self, *_words: object) -> None:
        """Log nothing."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append((self.command, self.path, dict(self.headers.items()), body))
        self.send_response_only(403 if "forbidden" in self.path else 200)
        self.send_header("Date", DATE)
        if "watch=" in self.path:
            self._stream()
            return
        answer = json.dumps({"metadata": {"name": f"{self.command} {self.path}"}}).encode()
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _stream(self) -> None:
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            while (event := self.server.events.get(timeout=30)) is not None:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
            self.server.watch_broke.set()


@contextmanager
def upstream(folder: Path) -> Iterator[Upstream]:
    """A server for one test."""
    server = Upstream(folder)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.events.put(None)
        server.shutdown()
        server.server_close()
        thread.join()
