"""The webhook over real TLS."""

import contextlib
import os
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from http import HTTPStatus
from tempfile import gettempdir
from typing import Any

import pytest
import urllib3
from prometheus_client import CollectorRegistry

from booking.controller.admission.certificate_authority import new_authority, new_certificate
from booking.controller.admission.endpoint import Endpoint
from booking.controller.admission.metrics import Metrics
from booking.controller.admission.webhook import Reply
from cluster.process.certificates import KeyPair
from cluster.process.clock import SystemClock
from cluster.process.https import TlsServer, reserved_socket
from cluster.process.probes import ServeError

CLOCK = SystemClock()
AUTHORITY = new_authority(CLOCK.now())
HOSTS = ("localhost", "127.0.0.1")
LONGEST = 64 * 1024


def a_certificate() -> KeyPair:
    return new_certificate(AUTHORITY, HOSTS, CLOCK.now())


def length(body: bytes) -> Reply:
    """The answers of the endpoint under test."""
    return Reply(HTTPStatus.OK, str(len(body)).encode())


def last(body: bytes) -> Reply:
    """The answers at the other path."""
    return Reply(HTTPStatus.OK, b"last " + body)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def endpoint(registry: CollectorRegistry) -> Endpoint:
    return Endpoint(length, CLOCK, Metrics(registry), admit_last=last, longest_body=LONGEST, body_seconds=0.5)


@contextlib.contextmanager
def serving(endpoint: Endpoint) -> Iterator[TlsServer]:
    server = TlsServer(endpoint, CLOCK, host="127.0.0.1", port=0)
    server.present(a_certificate())
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def server(endpoint: Endpoint) -> Iterator[TlsServer]:
    with serving(endpoint) as server:
        yield server


def context() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=AUTHORITY.certificate.decode())


@contextlib.contextmanager
def clients(server: TlsServer) -> Iterator[urllib3.HTTPSConnectionPool]:
    pool = urllib3.HTTPSConnectionPool(
        "127.0.0.1", server.port, ssl_context=context(), retries=False, timeout=20, maxsize=4
    )
    try:
        yield pool
    finally:
        pool.close()


def post(server: TlsServer, body: bytes = b"abc", path: str = "/admit?timeout=3s") -> tuple[int, str]:
    with clients(server) as pool:
        answer = pool.request("POST", path, body=body)
        return answer.status, answer.data.decode()


def connected(server: TlsServer) -> ssl.SSLSocket:
    """A client that has completed the handshake and sends nothing."""
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    return context().wrap_socket(plain, server_hostname="localhost")


class TestAnswers:
    def test_a_client_that_trusts_the_authority_is_answered(self, server: TlsServer) -> None:
        assert post(server) == (200, "3")

    def test_a_client_of_another_authority_refuses_the_server(self, server: TlsServer) -> None:
        stranger = ssl.create_default_context(cadata=new_authority(CLOCK.now()).certificate.decode())
        pool = urllib3.HTTPSConnectionPool("127.0.0.1", server.port, ssl_context=stranger, retries=False)
        with pytest.raises(urllib3.exceptions.SSLError):
            pool.request("POST", "/admit", body=b"")
        pool.close()

    def test_tls_1_2_is_supported_too(self, server: TlsServer) -> None:
        older = context()
        older.maximum_version = ssl.TLSVersion.TLSv1_2
        plain = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        with older.wrap_socket(plain, server_hostname="localhost") as client:
            assert client.version() == "TLSv1.2"

    def test_connections_are_kept_alive(self, server: TlsServer) -> None:
        with clients(server) as pool:
            for _ in range(3):
                assert pool.request("POST", "/admit", body=b"x").status == 200
            assert pool.num_connections == 1

    @pytest.mark.parametrize(
        ("method", "path", "status", "message"),
        [
            ("POST", "/", 404, "There is nothing here but /admit and /admit/last.\n"),
            ("POST", "/admit/x", 404, "There is nothing here but /admit and /admit/last.\n"),
            ("GET", "/admit", 405, "/admit answers POST alone.\n"),
        ],
    )
    def test_other_requests_are_refused_with_a_message(
        self, server: TlsServer, method: str, path: str, status: int, message: str
    ) -> None:
        with clients(server) as pool:
            answer = pool.request(method, path)
            assert (answer.status, answer.data.decode()) == (status, message)

    def test_a_body_is_read_up_to_the_longest_length_and_a_longer_one_is_refused(
        self, server: TlsServer, registry: CollectorRegistry
    ) -> None:
        assert post(server, bytes(LONGEST)) == (200, str(LONGEST))
        with connected(server) as client:
            client.sendall(b"POST /admit HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (LONGEST + 1))
            assert client.recv(1000).startswith(b"HTTP/1.1 413 ")
        refused = registry.get_sample_value("gpu_booking_admission_requests_total", {"outcome": "413"})
        assert refused == 1

    def test_a_long_body_without_a_length_is_cut_off(self, server: TlsServer) -> None:
        with connected(server) as client:
            client.sendall(b"POST /admit HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            client.sendall(b"%x\r\n" % (LONGEST + 1) + bytes(LONGEST + 1) + b"\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 413 ")

    def test_a_body_that_does_not_arrive_in_time_is_answered_with_408(self, server: TlsServer) -> None:
        with connected(server) as client:
            client.sendall(b"POST /admit HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
            assert client.recv(1000).startswith(b"HTTP/1.1 408 ")

    def test_a_client_that_leaves_in_the_middle_is_forgotten(
        self, server: TlsServer, registry: CollectorRegistry
    ) -> None:
        with connected(server) as client:
            client.sendall(b"POST /admit HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
        assert post(server) == (200, "3")
        assert registry.get_sample_value("gpu_booking_admission_request_seconds_count") == 1


def test_answers_do_not_wait_for_an_acknowledgement() -> None:
    """An accepted socket inherits the protocol; by it asyncio decides whether to use Nagle's algorithm."""
    with reserved_socket("127.0.0.1", 0) as reserved:
        assert reserved.proto == socket.IPPROTO_TCP


class TestPatience:
    def test_idle_and_slow_clients_do_not_delay_others(self, server: TlsServer) -> None:
        with contextlib.ExitStack() as open_clients:
            for _ in range(60):
                open_clients.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            for sent in (b"", b"POST /adm", b"POST /admit HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"):
                for _ in range(10):
                    open_clients.enter_context(connected(server)).sendall(sent)
            for _ in range(20):
                assert post(server) == (200, "3")

    def test_the_server_closes_even_when_clients_never_finish(self, endpoint: Endpoint) -> None:
        server = TlsServer(endpoint, CLOCK, host="127.0.0.1", port=0)
        server.present(a_certificate())
        with connected(server) as slow, connected(server):
            slow.sendall(b"POST /adm")
            server.close()
            with pytest.raises(OSError, match="refused"):
                socket.create_connection(("127.0.0.1", server.port), timeout=5)
        assert f"https-{server.port}" not in {thread.name for thread in threading.enumerate()}

    def test_a_request_that_was_begun_is_answered_while_the_server_closes(
        self, registry: CollectorRegistry
    ) -> None:
        begun, go_on = threading.Event(), threading.Event()

        def slow(body: bytes) -> Reply:
            begun.set()
            go_on.wait(20)
            return length(body)

        server = TlsServer(Endpoint(slow, CLOCK, Metrics(registry)), CLOCK, host="127.0.0.1", port=0)
        server.present(a_certificate())
        answers: list[tuple[int, str]] = []
        client = threading.Thread(target=lambda: answers.append(post(server)))
        client.start()
        assert begun.wait(20)
        closing = threading.Thread(target=server.close)
        closing.start()
        go_on.set()
        client.join(20)
        closing.join(20)
        assert answers == [(200, "3")]


class TestCertificates:
    def test_no_client_is_served_before_the_first_certificate(self, endpoint: Endpoint) -> None:
        server = TlsServer(endpoint, CLOCK, host="127.0.0.1", port=0)
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", server.port), timeout=5)
        assert server.problem() is None
        server.close()

    def test_a_new_certificate_replaces_the_former_one(self, server: TlsServer) -> None:
        second = a_certificate()
        server.present(second)
        for _ in range(5):
            served = ssl.get_server_certificate(("127.0.0.1", server.port), timeout=20)
            assert served == second.certificate.decode()
        assert post(server) == (200, "3")

    def test_no_handshake_fails_while_certificates_are_replaced(self, server: TlsServer) -> None:
        refused: list[str] = []
        over = threading.Event()

        def come_and_go() -> None:
            while not over.is_set():
                try:
                    connected(server).close()
                except OSError as error:
                    refused.append(str(error))

        clients = [threading.Thread(target=come_and_go) for _ in range(3)]
        for client in clients:
            client.start()
        certificates = [a_certificate(), a_certificate()]
        for turn in range(300):
            server.present(certificates[turn % 2])
        over.set()
        for client in clients:
            client.join(20)
        assert refused == []

    def test_a_request_that_was_begun_is_answered_under_the_former_certificate(
        self, registry: CollectorRegistry
    ) -> None:
        begun, go_on = threading.Event(), threading.Event()

        def slow(body: bytes) -> Reply:
            begun.set()
            go_on.wait(20)
            return length(body)

        with serving(Endpoint(slow, CLOCK, Metrics(registry))) as server:
            answers: list[tuple[int, str]] = []
            client = threading.Thread(target=lambda: answers.append(post(server)))
            client.start()
            assert begun.wait(20)
            successor = threading.Thread(target=server.present, args=(a_certificate(),))
            successor.start()
            go_on.set()
            client.join(20)
            successor.join(20)
        assert answers == [(200, "3")]

    def test_keys_are_never_on_disk_so_that_a_killed_process_leaves_none(self, endpoint: Endpoint) -> None:
        written: list[str] = []

        def on_audit_event(event: str, args: tuple[Any, ...]) -> None:
            if event == "open" and args[2] & os.O_ACCMODE != os.O_RDONLY:
                written.append(str(args[0]))

        sys.addaudithook(on_audit_event)
        with serving(endpoint) as server:
            assert post(server) == (200, "3")
        # Modules may be compiled there: the checkout may be a temporary folder.
        assert not [path for path in written if path.startswith(gettempdir()) and "__pycache__" not in path]


class TestTrouble:
    def test_an_address_that_is_in_use_is_reported(self, endpoint: Endpoint) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(ServeError, match=rf"Cannot listen on 127\.0\.0\.1 port {port}"):
                TlsServer(endpoint, CLOCK, host="127.0.0.1", port=port)

    def test_a_certificate_that_cannot_be_served_is_reported(self, endpoint: Endpoint) -> None:
        server = TlsServer(endpoint, CLOCK, host="127.0.0.1", port=0)
        with pytest.raises(ServeError, match="Cannot serve HTTPS"):
            server.present(KeyPair(b"no certificate", b"no key"))
        server.close()

    def test_the_former_certificate_is_served_while_the_new_one_cannot_be(self, server: TlsServer) -> None:
        with pytest.raises(ServeError):
            server.present(KeyPair(b"no certificate", b"no key"))
        assert post(server) == (200, "3")
        assert server.problem() is None

    def test_closing_again_and_presenting_a_certificate_afterwards_do_nothing(
        self, server: TlsServer
    ) -> None:
        server.close()
        server.close()
        server.present(a_certificate())
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", server.port), timeout=5)
        assert server.problem() is None
