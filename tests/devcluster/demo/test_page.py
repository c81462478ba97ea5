"""The page of ``make run`` at an address of this machine."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import urllib3

from devcluster.demo import page


class Answering(BaseHTTPRequestHandler):
    """Answers with the host and path of the request, and with what it was sent."""

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        body = f"{self.headers['Host']} {self.path} ".encode() + sent
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def ask(address: str, body: bytes = b"") -> bytes:
    return urllib3.request("POST", f"{address}/login", body=body, retries=False, timeout=60.0).data


def test_requests_are_passed_on_under_the_name_of_this_machine(url: str) -> None:
    body = b"x" * 1_000_000
    with page.opened(url, port=0) as address:
        host = address.removeprefix("http://")
        assert host.startswith("localhost:")
        assert ask(address, body) == f"{host} /login ".encode() + body


def test_another_port_is_used_where_the_first_is_taken(url: str) -> None:
    with page.opened(url, port=0) as first:
        taken = int(first.rpartition(":")[2])
        with page.opened(url, port=taken) as second:
            assert second != first
            assert ask(second)


def test_a_server_that_is_away_ends_the_connection() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        with page.opened(away, port=0) as address, pytest.raises(urllib3.exceptions.ProtocolError):
            ask(address)
