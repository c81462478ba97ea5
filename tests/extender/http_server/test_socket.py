"""What no test client can send: broken HTTP over a real socket, to the server that is really used."""

import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from cluster.process.clock import SystemClock
from cluster.process.probes import Probes, Server, serve
from extender.http_server.server import with_probes
from tests.extender.http_server.test_server import LIMIT, Served, captured


@pytest.fixture
def server() -> Iterator[Server]:
    app = with_probes(Served().app, Probes(CollectorRegistry()))
    made = serve(app, "127.0.0.1", 0, threads=4, longest_body=LIMIT)
    yield made
    made.close()


def response_to(server: Server, request: bytes) -> bytes:
    """Everything that the server says until it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
        sock.sendall(request)
        parts = []
        while part := sock.recv(65536):
            parts.append(part)
        return b"".join(parts)


def is_alive(server: Server) -> bool:
    client = HTTPConnection("127.0.0.1", server.port, timeout=10)
    client.request("GET", "/healthz")
    status = client.getresponse().status
    client.close()
    return status == 200


@pytest.mark.parametrize(
    "request_line",
    [
        b"nonsense\r\n\r\n",
        b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
        b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_broken_http_is_answered_with_4xx_and_no_traceback(server: Server, request_line: bytes) -> None:
    answer = response_to(server, request_line)

    assert answer.split(b" ")[1] == b"400"
    assert b"Traceback" not in answer
    assert is_alive(server)


def test_a_body_announced_as_too_large_is_refused_before_it_is_sent(server: Server) -> None:
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"

    answer = response_to(server, head % (LIMIT + 1))

    assert answer.split(b" ")[1] == b"413"
    assert is_alive(server)


def test_a_chunked_body_that_grows_too_large_is_refused(server: Server) -> None:
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    fits = b"%x\r\n" % (LIMIT - 1) + b" " * (LIMIT - 1) + b"\r\n"
    # Nothing follows what is too much: a server that closes with bytes unread resets the connection.
    too_much = b"10\r\n" + b" " * 16

    answer = response_to(server, head + b"Transfer-Encoding: chunked\r\n\r\n" + fits + too_much)

    assert answer.split(b" ")[1] == b"413"
    assert is_alive(server)


def test_one_connection_serves_many_requests_each_with_a_length(server: Server) -> None:
    client = HTTPConnection("127.0.0.1", server.port, timeout=10)
    client.connect()
    first = client.sock
    for _ in range(3):
        client.request("POST", "/filter", captured("filter"), {"Content-Type": "application/json"})
        answer = client.getresponse()
        assert answer.headers["Content-Length"] is not None
        assert answer.headers["Transfer-Encoding"] is None
        assert msgspec.json.decode(answer.read())["NodeNames"] == ["n0", "n1", "n2"]
        assert client.sock is first
    client.close()


def test_requests_in_parallel_are_all_answered(server: Server) -> None:
    statuses: list[int] = []

    def ask() -> None:
        client = HTTPConnection("127.0.0.1", server.port, timeout=10)
        client.request("POST", "/prioritize", captured("prioritize"), {"Content-Type": "application/json"})
        statuses.append(client.getresponse().status)
        client.close()

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert statuses == [200] * 16


def test_the_probes_are_served_next_to_the_verbs(server: Server) -> None:
    assert is_alive(server)
    assert b"405" in response_to(server, b"POST /healthz HTTP/1.0\r\n\r\n")


def test_a_request_that_never_ends_is_cut_off_however_busily_it_is_sent() -> None:
    made = serve(Served().app, "127.0.0.1", 0, threads=4, slowest_request=0.5)
    sock = socket.create_connection(("127.0.0.1", made.port), timeout=60)
    with sock, pytest.raises(OSError, match=r"reset|pipe"):
        drip(sock, b"POST /filter HTTP/1.1\r\nHost: x\r\n", b"X-Slow: 1\r\n")
    made.close()


def drip(sock: socket.socket, head: bytes, drop: bytes) -> None:
    """Send a head that never ends."""
    clock, never = SystemClock(), threading.Event()
    sock.sendall(head)
    while True:
        sock.sendall(drop)
        clock.wait(never, 0.1)
