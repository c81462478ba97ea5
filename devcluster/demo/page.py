"""The page at an address of this machine, where people can sign in without TLS."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Final
from urllib.parse import urlsplit

PORT: Final = 8080
"""If it is free; else any other."""
_HTTP: Final = 80
_PIECE: Final = 65536
_HERE: Final = "127.0.0.1"


@contextmanager
def opened(booking_url: str, *, port: int = PORT) -> Iterator[str]:
    """Yields a local address of the page, which passes connections on until the block ends.

    Browsers keep the session of a login only over TLS, or at an address of their own machine.

    Args:
        booking_url: where the booking server answers, without a path.
        port: tried first; if it is taken, any other is used.
    """
    there = urlsplit(booking_url)
    with _listening((there.hostname or "", there.port or _HTTP), port) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://localhost:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingTCPServer):
    daemon_threads = True
    # A browser keeps its connections open: closing does not wait for them.
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, port: int, target: tuple[str, int]) -> None:
        self.target = target
        super().__init__((_HERE, port), _PassingOn)


class _PassingOn(BaseRequestHandler):
    """Passes on the bytes of one connection, in both directions."""

    server: _Server
    request: socket.socket

    def handle(self) -> None:
        """Pass on what either side sends, until both have ended."""
        with suppress(OSError), socket.create_connection(self.server.target) as there:
            back = threading.Thread(target=_pass, args=(there, self.request), daemon=True)
            back.start()
            _pass(self.request, there)
            back.join()


def _listening(target: tuple[str, int], port: int) -> _Server:
    try:
        return _Server(port, target)
    except OSError:
        return _Server(0, target)


def _pass(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(_PIECE):
            sink.sendall(piece)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
