"""Brief requests and answers, whatever the network and the other side make of them."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from urllib3.exceptions import ProtocolError

from cluster.fake.clock import FakeClock
from cluster.kube.brief_answers import BriefAnswer, read_answer, request_bytes
from cluster.kube.connection import Connection
from cluster.kube.errors import Conflict, ServerError, Unreachable
from cluster.kube.transport import Call, Timeouts, Transport

WHOLE = b"HTTP/1.1 201 Created\r\nDate: today\r\nContent-Length: 4\r\n\r\nbody"
CHUNKS = (
    b"HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2;x=y\r\nbo\r\n2\r\ndy\r\n0\r\nTrailer: 1\r\n\r\n"
)
TO_THE_END = b"HTTP/1.1 200 OK\r\n\r\nbody"
FINAL = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody"


def read(text: bytes, cuts: list[int]) -> BriefAnswer:
    """Read an answer that arrives in pieces."""
    ends = sorted({cut % len(text) for cut in cuts} | {len(text)})
    pieces = iter([text[a:b] for a, b in zip([0, *ends], ends, strict=False) if a < b])
    return read_answer(lambda _most: next(pieces, b""))


@given(
    text=st.sampled_from([(WHOLE, True), (CHUNKS, True), (TO_THE_END, False), (FINAL, False)]),
    cuts=st.lists(st.integers(0, 200)),
)
def test_an_answer_is_read_whole_however_it_is_cut(text: tuple[bytes, bool], cuts: list[int]) -> None:
    answer = read(text[0], cuts)

    assert (answer.body, answer.stays) == (b"body", text[1])
    assert answer.status == int(text[0][9:12])


@pytest.mark.parametrize(
    "text",
    [
        WHOLE[:-1],
        WHOLE[:30],
        CHUNKS[:-2],
        b"",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n0123456789",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000,
    ],
)
def test_an_answer_that_is_cut_or_broken_is_an_error(text: bytes) -> None:
    parts = iter([text])
    with pytest.raises(ProtocolError):
        read_answer(lambda _most: next(parts, b""))


def test_what_comes_after_an_answer_is_no_answer_to_the_next_request() -> None:
    assert not read(WHOLE + WHOLE, []).stays


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\n", "\u00e9"])
def test_no_text_ends_a_header_or_the_target(value: str) -> None:
    with pytest.raises(ProtocolError):
        request_bytes("POST", "/", {"Authorization": value}, b"")
    with pytest.raises(ProtocolError):
        request_bytes("POST", f"/{value}", {}, b"")


class Server:
    """Answers each request with the next of its answers; an empty one closes the connection."""

    def __init__(self, listener: socket.socket, answers: list[bytes]) -> None:
        self._listener = listener
        self._answers = answers
        self.connections = 0

    def run(self) -> None:
        while self._answers:
            accepted, _ = self._listener.accept()
            self.connections += 1
            with accepted:
                while self._answers and accepted.recv(65536):
                    answer = self._answers.pop(0)
                    accepted.sendall(answer)
                    if b"close" in answer or not answer:
                        break


@contextmanager
def serving(*answers: bytes) -> Iterator[tuple[Server, Transport]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(listener, list(answers))
        thread = threading.Thread(target=server.run)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        transport = Transport(Connection(server=url), FakeClock(), user_agent="t/1", timeouts=Timeouts())
        try:
            yield server, transport
        finally:
            transport.close()
            thread.join()


POST = Call(verb="POST", path="/binding", body=b"{}", is_brief=True)


def test_a_connection_stays_after_answers_and_refusals_and_goes_when_the_server_says_so() -> None:
    with serving(WHOLE, CHUNKS, FINAL, WHOLE) as (server, transport):
        assert transport.send(POST) == b"body"
        with pytest.raises(Conflict):
            transport.send(POST)
        assert transport.send(POST) == b"body"
        assert server.connections == 1
        assert transport.send(POST) == b"body"
        assert server.connections == 2


def test_after_a_broken_answer_the_next_request_has_a_connection_of_its_own() -> None:
    with serving(b"no HTTP\r\n\r\n", b"", WHOLE.replace(b"201", b"500")) as (server, transport):
        for _ in range(2):
            with pytest.raises(Unreachable):
                transport.send(POST)
        with pytest.raises(ServerError):
            transport.send(POST)
        assert server.connections == 3
