"""Whatever bytes come: an answer, never a traceback, never a stuck lock, and no device stays taken."""

import copy
import json
import logging
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPSConnection
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from cluster.process.certificates import AllowedClients, KeyPair
from cluster.process.clock import SystemClock
from cluster.process.https import TlsServer
from cluster.process.probes import Probes, Server, serve
from extender.http_server.server import with_probes
from extender.http_server.tls import Whole
from tests.extender.http_server.test_server import LIMIT, Served, captured
from tests.fakes.certificates import Signed, authority, signed

THREADS = 4
VERBS = ("filter", "prioritize", "preempt", "bind")
QUESTIONS: dict[str, dict[str, Any]] = {verb: json.loads(captured(verb)) for verb in VERBS}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, found in inner:
        yield (*path, key)
        yield from places(found, (*path, key))


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, bytes]:
    """A real request with some values replaced, perhaps cut short."""
    verb = draw(st.sampled_from(VERBS))
    document = copy.deepcopy(QUESTIONS[verb])
    for path in draw(st.lists(st.sampled_from(list(places(document))), max_size=4)):
        inner: Any = document
        try:
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = draw(anything)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has taken the place away
    body = json.dumps(document).encode()
    cut = draw(st.none() | st.integers(0, len(body)))
    return verb, body[:cut]


@pytest.fixture(scope="module")
def served() -> Served:
    return Served()


@pytest.fixture(scope="module")
def server(served: Served) -> Iterator[Server]:
    app = with_probes(served.app, Probes(CollectorRegistry()))
    made = serve(app, "127.0.0.1", 0, threads=4, longest_body=LIMIT)
    yield made
    made.close()


FAULT: Final = b"failed to answer"


def is_well(served: Served) -> bool:
    """Whether a valid request gets the right answer: no lock is held."""
    with served.cluster.state.locked() as ledger:
        assert not ledger.assumed
    answer = served.post("/filter", captured("filter"))
    return bool(msgspec.json.decode(answer.data)["NodeNames"] == ["n0", "n1", "n2"])


@given(mutated())
def test_a_mutated_request_is_answered_and_leaves_no_device_taken(
    served: Served, question: tuple[str, bytes]
) -> None:
    verb, body = question
    answer = served.post(f"/{verb}", body)
    assert answer.status_code in {200, 400}, answer.data
    msgspec.json.decode(answer.data)
    assert b"Traceback" not in answer.data
    assert FAULT not in answer.data
    assert is_well(served)


@given(st.sampled_from(VERBS), st.binary(max_size=400))
def test_a_body_of_any_bytes_is_answered(served: Served, verb: str, body: bytes) -> None:
    answer = served.post(f"/{verb}", body)
    assert answer.status_code in {200, 400}, answer.data
    msgspec.json.decode(answer.data)
    assert FAULT not in answer.data
    assert is_well(served)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Bytes for a socket: some are almost HTTP."""
    verb, body = draw(mutated())
    method = draw(st.sampled_from((b"POST ", b"GET ", b"", b"PO\x00ST ", b"post ")))
    path = draw(
        st.sampled_from((f"/{verb}".encode(), b"/", b"//filter", b"/filter?x=1", b"http://x/", b"\xff"))
    )
    version = draw(st.sampled_from((b" HTTP/1.1", b" HTTP/9.9", b"", b" HTTP/1.0")))
    length = draw(st.sampled_from((len(body), 0, -1, len(body) - 1 if body else 0, 10**30)))
    headers = draw(
        st.sampled_from((f"Content-Length: {length}", "Transfer-Encoding: chunked", "X: \udcff", ": :", ""))
    )
    ends = draw(st.sampled_from((b"\r\n", b"\n", b"\r")))
    text = headers.encode("utf-8", "surrogateescape")
    head = ends.join((method + path + version, b"Connection: close", text, b"", b""))
    return head + body + draw(st.binary(max_size=40))


@settings(max_examples=60)
@given(st.binary(max_size=200) | requests())
def test_bytes_on_the_socket_never_stop_the_server(served: Served, server: Server, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as sock:
        sock.sendall(sent)
        sock.shutdown(socket.SHUT_WR)
        received = b""
        try:
            while part := sock.recv(65536):
                received += part
        except ConnectionError:
            pass  # a server that leaves bytes unread resets the connection
    assert b"Traceback" not in received
    assert FAULT not in received
    assert is_well(served)


class Errors(logging.Handler):
    """What libraries log as errors: a traceback would be among it."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(self.format(record))


@pytest.fixture(scope="module")
def errors() -> Iterator[Errors]:
    handler = Errors()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Signed, Signed, Signed]:
    """Authority, server and client."""
    folder = tmp_path_factory.mktemp("certificates")
    ours = authority(folder, "ours")
    return ours, signed(ours, folder, "server", use="serverAuth"), signed(ours, folder, "a", use="clientAuth")


@pytest.fixture(scope="module")
def by_tls(served: Served, files: tuple[Signed, Signed, Signed]) -> Iterator[TlsServer]:
    ours, shown, _ = files
    made = TlsServer(
        Whole(served.app, threads=THREADS, limit=LIMIT),
        SystemClock(),
        host="127.0.0.1",
        port=0,
        clients=AllowedClients(ours.certificate.read_text(), frozenset({"a"})),
    )
    made.present(KeyPair(shown.certificate.read_bytes(), shown.key.read_bytes()))
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(files: tuple[Signed, Signed, Signed]) -> ssl.SSLContext:
    ours, _, mine = files
    made = ssl.create_default_context(cafile=str(ours.certificate))
    made.load_cert_chain(mine.certificate, mine.key)
    return made


def answered_by_tls(server: TlsServer, client: ssl.SSLContext, verb: str, body: Any) -> tuple[int, bytes]:
    connection = HTTPSConnection("127.0.0.1", server.port, context=client, timeout=60)
    with closing(connection):
        connection.request("POST", f"/{verb}", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()


def is_well_by_tls(server: TlsServer, client: ssl.SSLContext) -> bool:
    """The same, over TLS."""
    _, answer = answered_by_tls(server, client, "filter", captured("filter"))
    return bool(msgspec.json.decode(answer)["NodeNames"] == ["n0", "n1", "n2"])


@settings(max_examples=60)
@given(st.binary(max_size=200) | requests())
def test_bytes_inside_tls_never_stop_the_server(
    served: Served, by_tls: TlsServer, client: ssl.SSLContext, errors: Errors, sent: bytes
) -> None:
    plain = socket.create_connection(("127.0.0.1", by_tls.port), timeout=60)
    with client.wrap_socket(plain, server_hostname="localhost") as sock:
        sock.sendall(sent)
    assert is_well_by_tls(by_tls, client)
    assert is_well(served)
    assert errors.records == []


@settings(max_examples=60)
@given(st.binary(max_size=200))
def test_bytes_instead_of_tls_never_stop_the_server(
    by_tls: TlsServer, client: ssl.SSLContext, errors: Errors, sent: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", by_tls.port), timeout=60) as sock:
        sock.sendall(sent)
    assert is_well_by_tls(by_tls, client)
    assert errors.records == []


def test_bodies_that_never_arrive_take_no_threads(
    served: Served, by_tls: TlsServer, client: ssl.SSLContext
) -> None:
    begun = b"POST /preempt HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{"
    with ExitStack() as open_clients:
        slow = []
        for _ in range(2 * THREADS):
            plain = socket.create_connection(("127.0.0.1", by_tls.port), timeout=60)
            slow.append(open_clients.enter_context(client.wrap_socket(plain, server_hostname="localhost")))
            slow[-1].sendall(begun)
        assert is_well_by_tls(by_tls, client)
        for one in slow:
            one.sendall(b"}")
            assert one.recv(100).startswith(b"HTTP/1.1 400 "), "it was still being waited for"
    assert is_well(served)


def test_a_chunked_body_is_read_over_tls_up_to_the_limit(by_tls: TlsServer, client: ssl.SSLContext) -> None:
    whole = captured("filter")
    status, answer = answered_by_tls(by_tls, client, "filter", iter([whole[:100], whole[100:]]))
    assert (status, msgspec.json.decode(answer)["NodeNames"]) == (200, ["n0", "n1", "n2"])
    too_long = (b" " * 1000 for _ in range(LIMIT // 1000 + 1))
    assert answered_by_tls(by_tls, client, "preempt", too_long)[0] == 413


def test_a_body_announced_as_too_large_is_refused_over_tls(by_tls: TlsServer, client: ssl.SSLContext) -> None:
    assert answered_by_tls(by_tls, client, "preempt", b" " * (LIMIT + 1))[0] == 413
