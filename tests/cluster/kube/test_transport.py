"""Connections that fail in the middle leave nothing open."""

import gc
import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.fake.clock import FakeClock
from cluster.kube.connection import Connection
from cluster.kube.errors import Request, Unreachable
from cluster.kube.transport import Call, Stream, Timeouts, Transport
from tests.devcluster.faultproxy.upstream import upstream
from tests.fakes.certificates import authority

RESETS = struct.pack("ii", 1, 0)
"""SO_LINGER: closing resets the connection."""


def open_sockets() -> set[str]:
    """Those of this process."""
    return {name for name in _targets() if name.startswith("socket:")}


def _targets() -> Iterator[str]:
    for entry in Path("/proc/self/fd").iterdir():
        try:
            yield str(entry.readlink())
        except OSError:  # the folder's own descriptor
            continue


@pytest.fixture
def _uncollected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_uncollected")
def test_a_connection_that_is_reset_before_the_tls_handshake_leaves_no_socket(tmp_path: Path) -> None:
    """A killed API server resets connections before the handshake; the authority is read in between."""
    trusted = tmp_path / "ca.crt"
    trusted.touch()
    given = authority(tmp_path, "made-up").certificate.read_bytes()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = Connection(server=f"https://127.0.0.1:{listener.getsockname()[1]}", ca_file=trusted)
        transport = Transport(connection, FakeClock(), user_agent="tester/1", timeouts=Timeouts())
        trusted.unlink()
        os.mkfifo(trusted)

        def hang_up() -> None:
            accepted, _ = listener.accept()
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESETS)
            with trusted.open("wb") as awaited:  # the client has connected, and reads the authority now
                accepted.close()
                awaited.write(given)

        server = threading.Thread(target=hang_up)
        server.start()
        before = open_sockets()
        with pytest.raises(Unreachable):
            transport.send(Call(verb="GET", path="/"))
        server.join()
        assert open_sockets() <= before


def test_connections_trust_the_authorities_that_the_file_names_now(tmp_path: Path) -> None:
    """The context is shared between connections, but not beyond a change of its files."""
    trusted = tmp_path / "trusted.crt"
    with upstream(tmp_path) as server:
        trusted.write_bytes(server.ca_file.read_bytes())
        connection = Connection(server=server.url, ca_file=trusted)
        transport = Transport(connection, FakeClock(), user_agent="tester/1", timeouts=Timeouts())
        watch = Call(verb="GET", path="/", query=(("watch", "1"),))
        stream = transport.stream(watch, silence=60)  # keeps the first connection
        trusted.write_bytes(authority(tmp_path, "made-up").certificate.read_bytes())
        with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
            transport.send(Call(verb="GET", path="/"))

        trusted.write_bytes(server.ca_file.read_bytes())
        assert transport.send(Call(verb="GET", path="/"))
        assert server.connections == 3
        stream.close()
        transport.close()


class SlowToClose:
    """An answer whose connection takes its time to be closed, and is counted when it is given back."""

    def __init__(self) -> None:
        self.closing, self.go_on = threading.Event(), threading.Event()
        self.released = 0

    def close(self) -> None:
        self.closing.set()
        assert self.go_on.wait(60)

    def release_conn(self) -> None:
        self.released += 1


def test_a_read_that_begins_during_a_close_returns_no_connection_a_second_time() -> None:
    """It would be in the pool twice, and two requests would use it at once."""
    answer = SlowToClose()
    stream = Stream(answer, Request("GET", "/"))
    read: list[bytes] = []
    closer = threading.Thread(target=stream.close)
    closer.start()
    assert answer.closing.wait(60)
    reader = threading.Thread(target=lambda: read.extend(stream.lines()))
    reader.start()
    answer.go_on.set()
    for thread in (closer, reader):
        thread.join(60)
    assert (answer.released, read) == (1, [])
