"""Mutual TLS: refusals are logged, authorities change under the server, and no client takes indefinitely."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from cluster.fake.clock import FakeClock, eventually
from cluster.process.certificates import AllowedClients, KeyPair
from cluster.process.clock import SystemClock
from cluster.process.https import TlsServer
from cluster.process.probes import ServeError
from cluster.process.tls_handshakes import AGAIN, MOST, Refusals
from tests.fakes.certificates import Signed, authority, signed

NAME = "alice"
PATIENCE = 1.5


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer with the length of the body; at ``/early``, before any of it has arrived."""
    length = 0
    more = scope["path"] != "/early"
    while more:
        message = await receive()
        length, more = length + len(message.get("body", b"")), message.get("more_body", False)
    body = str(length).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def ours(folder: Path) -> Signed:
    return authority(folder, "ours")


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Signed:
    return authority(folder, "theirs")


@pytest.fixture(scope="module")
def pair(ours: Signed, folder: Path) -> KeyPair:
    shown = signed(ours, folder, "server", use="serverAuth")
    return KeyPair(shown.certificate.read_bytes(), shown.key.read_bytes())


@pytest.fixture(scope="module")
def alice(ours: Signed, folder: Path) -> Signed:
    return signed(ours, folder, NAME, use="clientAuth")


def signed_by(*authorities: Signed) -> AllowedClients:
    return AllowedClients("".join(one.certificate.read_text() for one in authorities), frozenset({NAME}))


@pytest.fixture
def server(ours: Signed, pair: KeyPair) -> Iterator[TlsServer]:
    clients = signed_by(ours)
    made = TlsServer(app, SystemClock(), host="127.0.0.1", port=0, clients=clients, slowest_request=PATIENCE)
    made.present(pair)
    yield made
    made.close()


def context(ours: Signed, client: Signed | None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(ours.certificate))
    if client:
        made.load_cert_chain(client.certificate, client.key)
    return made


def post(server: TlsServer, ours: Signed, client: Signed | None) -> bytes:
    connection = HTTPSConnection("127.0.0.1", server.port, context=context(ours, client), timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", "/", body=b"abc")
        return connection.getresponse().read()


@contextlib.contextmanager
def connected(server: TlsServer, ours: Signed, client: Signed) -> Iterator[ssl.SSLSocket]:
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    with context(ours, client).wrap_socket(plain, server_hostname="localhost") as made:
        yield made


def keep_sending(client: ssl.SSLSocket, begun: bytes, drop: bytes) -> None:
    """Send a request that never ends."""
    clock, never = SystemClock(), threading.Event()
    client.sendall(begun)
    while True:
        client.sendall(drop)
        clock.wait(never, 0.05)


def refusals(lines: list[Any]) -> list[tuple[str, str]]:
    return [(line["client"], line["reason"]) for line in lines if line["event"] == "a client is refused"]


def test_a_certificate_of_another_authority_is_answered_with_an_alert_and_logged(
    server: TlsServer, ours: Signed, theirs: Signed, tmp_path: Path
) -> None:
    with capture_logs() as lines, pytest.raises(ssl.SSLError, match="alert unknown ca"):
        post(server, ours, signed(theirs, tmp_path, NAME, use="clientAuth"))
    ((client, why),) = refusals(lines)
    assert client == "127.0.0.1"
    assert why.startswith("Its certificate is not accepted: ")
    assert "issuer" in why


def test_a_certificate_for_servers_is_refused_for_its_purpose(
    server: TlsServer, ours: Signed, tmp_path: Path
) -> None:
    with capture_logs() as lines, pytest.raises(ssl.SSLError, match="alert"):
        post(server, ours, signed(ours, tmp_path, NAME, use="serverAuth"))
    assert "purpose" in refusals(lines)[0][1]


def test_a_client_without_a_certificate_is_sent_an_alert_and_logged(server: TlsServer, ours: Signed) -> None:
    with capture_logs() as lines, pytest.raises(ssl.SSLError, match="alert certificate required"):
        post(server, ours, None)
    assert refusals(lines) == [("127.0.0.1", "It shows no certificate.")]


def test_a_certificate_of_another_name_is_logged_with_that_name(
    server: TlsServer, ours: Signed, tmp_path: Path
) -> None:
    with capture_logs() as lines, pytest.raises((ssl.SSLError, ConnectionError)):
        post(server, ours, signed(ours, tmp_path, "bob", use="clientAuth"))
    ((client, why),) = refusals(lines)
    assert client == "127.0.0.1"
    assert why == "Its certificate is for bob, somebody.example, who may not ask."


def test_a_client_that_speaks_http_without_tls_is_logged(server: TlsServer) -> None:
    with capture_logs() as lines, socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        eventually(lambda: bool(refusals(lines)), deadline=60)
    assert refusals(lines) == [("127.0.0.1", "It speaks HTTP without TLS.")]


def test_a_client_that_does_not_trust_our_certificate_is_logged(
    server: TlsServer, theirs: Signed, alice: Signed
) -> None:
    with capture_logs() as lines:
        with pytest.raises(ssl.SSLCertVerificationError):
            post(server, theirs, alice)
        eventually(lambda: bool(refusals(lines)), deadline=60)
    assert "authority of the certificate that it is shown" in refusals(lines)[0][1]


def test_a_client_that_connects_and_disconnects_at_once_is_not_logged(
    server: TlsServer, ours: Signed
) -> None:
    with capture_logs() as lines:
        for _ in range(3):
            socket.create_connection(("127.0.0.1", server.port), timeout=60).close()
        with pytest.raises(ssl.SSLError):
            post(server, ours, None)
    assert len(refusals(lines)) == 1


def test_the_same_refusal_is_logged_again_after_a_minute_and_the_log_does_not_fill() -> None:
    clock = FakeClock()
    refused = Refusals(clock)
    with capture_logs() as lines:
        refused.report("10.0.0.1", "one")
        refused.report("10.0.0.1", "one")
        refused.report("10.0.0.1", "two")
    assert len(lines) == 2
    clock.advance(AGAIN)
    with capture_logs() as lines:
        refused.report("10.0.0.1", "one")
    assert len(lines) == 1
    with capture_logs() as lines:
        for number in range(3 * MOST):
            refused.report(f"10.0.1.{number}", "one")
    assert len(lines) == MOST - 1


def test_new_authorities_apply_to_new_connections_and_open_ones_continue(
    server: TlsServer, ours: Signed, theirs: Signed, alice: Signed, pair: KeyPair, tmp_path: Path
) -> None:
    newcomer = signed(theirs, tmp_path, NAME, use="clientAuth")
    lasting = HTTPSConnection("127.0.0.1", server.port, context=context(ours, alice), timeout=60)
    with contextlib.closing(lasting):
        lasting.request("POST", "/", body=b"a")
        assert lasting.getresponse().read() == b"1"
        before = lasting.sock
        server.present(pair, signed_by(theirs))
        assert post(server, ours, newcomer) == b"3"
        with pytest.raises(ssl.SSLError, match="alert unknown ca"):
            post(server, ours, alice)
        lasting.request("POST", "/", body=b"ab")
        assert lasting.getresponse().read() == b"2"
        assert lasting.sock is before


def test_invalid_authorities_keep_the_former_ones(
    server: TlsServer, ours: Signed, alice: Signed, pair: KeyPair
) -> None:
    with pytest.raises(ServeError):
        server.present(pair, AllowedClients("no authority", frozenset()))
    assert post(server, ours, alice) == b"3"
    with pytest.raises(ssl.SSLError, match="alert certificate required"):
        post(server, ours, None)


@pytest.mark.parametrize(
    "begun",
    [
        b"POST / HT",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    ids=["head", "body", "chunks"],
)
def test_a_request_that_never_ends_is_cut_off_however_busily_it_is_sent(
    server: TlsServer, ours: Signed, alice: Signed, begun: bytes
) -> None:
    drop = b"1\r\nx\r\n" if b"chunked" in begun else b"x"
    with connected(server, ours, alice) as client, pytest.raises(OSError, match=r"reset|pipe|EOF"):
        keep_sending(client, begun, drop)


def test_a_client_answered_before_the_end_of_its_request_cannot_continue_sending(
    server: TlsServer, ours: Signed, alice: Signed
) -> None:
    with connected(server, ours, alice) as client:
        client.sendall(b"POST /early HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
        with pytest.raises(OSError, match=r"reset|pipe|EOF"):
            keep_sending(client, b"", b"1\r\nx\r\n")


def test_a_client_that_is_slow_before_or_between_requests_is_waited_for(
    server: TlsServer, ours: Signed, alice: Signed
) -> None:
    clock, never = SystemClock(), threading.Event()
    client = HTTPSConnection("127.0.0.1", server.port, context=context(ours, alice), timeout=60)
    with contextlib.closing(client):
        client.connect()
        connection = client.sock
        for _ in range(2):
            clock.wait(never, 1.5 * PATIENCE)
            client.request("POST", "/", body=b"ab")
            assert client.getresponse().read() == b"2"
            assert client.sock is connection
