"""What no test client can send: broken HTTP over a real socket, to the servers that are really used."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from cluster.process.clock import SystemClock
from cluster.process.loopback import LONGEST_HEAD_BYTES, LoopbackServer
from cluster.process.probes import Probes, Server, serve
from extender.http_server.server import with_probes
from tests.extender.http_server.test_server import LIMIT, Served, captured

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

Serving = Server | LoopbackServer


def waitress(app: "WSGIApplication", slowest: float = 20) -> Serving:
    """What serves probes, and the verbs behind TLS."""
    return serve(app, "127.0.0.1", 0, threads=4, longest_body=LIMIT, slowest_request=slowest)


def loopback(app: "WSGIApplication", slowest: float = 20) -> Serving:
    """What serves the verbs next to kube-scheduler."""
    limits = {"longest_body": LIMIT, "connections": 4}
    return LoopbackServer(app, "127.0.0.1", 0, SystemClock(), slowest_request=slowest, **limits)


@pytest.fixture(params=[waitress, loopback])
def serving(request: pytest.FixtureRequest) -> Callable[..., Serving]:
    found: Callable[..., Serving] = request.param
    return found


@pytest.fixture
def server(serving: Callable[..., Serving]) -> Iterator[Serving]:
    made = serving(with_probes(Served().app, Probes(CollectorRegistry())))
    yield made
    made.close()


def response_to(server: Serving, request: bytes) -> bytes:
    """Everything that the server says until it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
        sock.sendall(request)
        parts = []
        while part := sock.recv(65536):
            parts.append(part)
        return b"".join(parts)


def is_alive(server: Serving) -> bool:
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
def test_broken_http_is_answered_with_4xx_and_no_traceback(server: Serving, request_line: bytes) -> None:
    answer = response_to(server, request_line)

    assert answer.split(b" ")[1] == b"400"
    assert b"Traceback" not in answer
    assert is_alive(server)


def test_a_body_announced_as_too_large_is_refused_before_it_is_sent(server: Serving) -> None:
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"

    answer = response_to(server, head % (LIMIT + 1))

    assert answer.split(b" ")[1] == b"413"
    assert is_alive(server)


def test_a_chunked_body_that_grows_too_large_is_refused(server: Serving) -> None:
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    fits = b"%x\r\n" % (LIMIT - 1) + b" " * (LIMIT - 1) + b"\r\n"
    # Nothing follows what is too much: a server that closes with bytes unread resets the connection.
    too_much = b"10\r\n" + b" " * 16

    answer = response_to(server, head + b"Transfer-Encoding: chunked\r\n\r\n" + fits + too_much)

    assert answer.split(b" ")[1] == b"413"
    assert is_alive(server)


def test_one_connection_serves_many_requests_each_with_a_length(server: Serving) -> None:
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


def test_requests_in_parallel_are_all_answered(server: Serving) -> None:
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


def test_the_probes_are_served_next_to_the_verbs(server: Serving) -> None:
    assert is_alive(server)
    assert b"405" in response_to(server, b"POST /healthz HTTP/1.0\r\n\r\n")


def test_a_request_that_never_ends_is_cut_off_however_busily_it_is_sent(
    serving: Callable[..., Serving],
) -> None:
    made = serving(Served().app, 0.5)
    sock = socket.create_connection(("127.0.0.1", made.port), timeout=60)
    with sock, pytest.raises(OSError, match=r"reset|pipe"):
        drip(sock, b"POST /filter HTTP/1.1\r\nHost: x\r\n", b"X-Slow: 1\r\n")
    made.close()


def test_a_head_that_grows_without_end_is_refused() -> None:
    made = loopback(with_probes(Served().app, Probes(CollectorRegistry())))
    # Nothing follows what is too much, as above.
    head = b"POST /filter HTTP/1.1\r\nX-Long: "
    assert response_to(made, head.ljust(LONGEST_HEAD_BYTES + 1, b"x")).split(b" ")[1] == b"431"
    assert is_alive(made)
    made.close()


def test_of_too_many_connections_the_one_that_is_idle_longest_is_closed() -> None:
    made = loopback(Served().app)
    with ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", made.port), timeout=60))
            for _ in range(5)
        ]
        assert idle[0].recv(1) == b""
        request = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
        idle[4].sendall(request)
        assert idle[4].recv(65536).startswith(b"HTTP/1.1 200 OK")
        idle[3].sendall(request + request)  # what comes before its answer is not read
        answers = b"".join(iter(lambda: idle[3].recv(65536), b""))
        assert answers.count(b"HTTP/1.1 200 OK") == 1
        assert b"Connection: close" in answers
    made.close()


def test_clients_that_do_not_read_their_answers_keep_nobody_from_being_served() -> None:
    def long_answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> list[bytes]:
        body = b"x" * (2**24 if environ["PATH_INFO"] == "/long" else 1)
        start_response("200 OK", [("Content-Length", str(len(body)))])
        return [body]

    made = loopback(long_answer, 0.5)
    with ExitStack() as stack:
        for _ in range(8):
            silent = stack.enter_context(socket.create_connection(("127.0.0.1", made.port), timeout=60))
            silent.sendall(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
        assert is_alive(made)
    made.close()


def test_a_request_in_progress_is_answered_before_the_server_ends() -> None:
    entered, may_answer = threading.Event(), threading.Event()

    def slow(_environ: object, start_response: "StartResponse") -> list[bytes]:
        entered.set()
        may_answer.wait(60)
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    made = loopback(slow)
    sock = socket.create_connection(("127.0.0.1", made.port), timeout=60)
    sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    entered.wait(60)
    closing = threading.Thread(target=made.close)
    closing.start()
    may_answer.set()
    assert b"".join(iter(lambda: sock.recv(65536), b"")).endswith(b"ok")
    closing.join()
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", made.port), timeout=60)
    sock.close()


def drip(sock: socket.socket, head: bytes, drop: bytes) -> None:
    """Send a head that never ends."""
    clock, never = SystemClock(), threading.Event()
    sock.sendall(head)
    while True:
        sock.sendall(drop)
        clock.wait(never, 0.1)
