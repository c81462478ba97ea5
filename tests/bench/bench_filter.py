"""The verb filter over HTTP, as kube-scheduler calls it: on one persistent connection, on loopback.

Two floors take turns with it: the codec alone (reading the request and writing the names, in this process),
and the same server echoing the names, so that the difference is the decision. The names come in another
order each time, as they do from a scheduler that filters nodes in parallel.
"""

import itertools
import re
import socket
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

import msgspec

from extender.wire import ExtenderArgs, ExtenderFilterResult
from tests.bench.child import child
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.measured_cluster import GPUS, filter_requests
from tests.bench.rows import Kind, Row, Target
from tests.bench.table import percentile
from tests.bench.timing import in_turns

CALLS: Final = {100: 400, 500: 300, 1_000: 300, 2_000: 200, 5_000: 100}
"""Nodes -> calls of each kind."""
_PIECE: Final = 2**20
_LENGTH: Final = re.compile(r"(?i)content-length: (\d+)")
PERCENTS: Final = (50, 99)
_TARGETS: Final = {
    (1_000, 50): Target(value=3, ratio=3),
    (1_000, 99): Target(value=10),
    (5_000, 50): Target(value=5),
}
AGAINST_CODEC: Final = {
    (nodes, percent): Kind(
        f"filter-{nodes}-p{percent}",
        f"filter over HTTP, {nodes} nodes, {nodes * GPUS} GPUs, {nodes * GPUS} pods, p{percent}",
        "ms",
        "codec alone: decode the question, encode the names",
        target=_TARGETS.get((nodes, percent)),
    )
    for nodes in CALLS
    for percent in PERCENTS
}
AGAINST_ECHO: Final = {
    nodes: Kind(
        f"filter-{nodes}-echo-p50",
        f"the same, {nodes} nodes, p50",
        "ms",
        "the same server echoes the names",
        target=Target(ratio=1.5) if nodes == max(CALLS) else None,
    )
    for nodes in CALLS
}


class Scheduler:
    """Asks as kube-scheduler does: head and body in one piece, on a persistent connection.

    It uses a bare socket, since Python's own client takes longer to read a head than the server to answer.
    """

    def __init__(self, port: int, nodes: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._requests = itertools.cycle(filter_requests(nodes))

    def request(self) -> bytes:
        """The next request."""
        return next(self._requests)

    def ask(self, path: str, body: bytes | None = None) -> bytes:
        """One round trip.

        Args:
            path: the verb.
            body: the request; by default the next one.

        Raises:
            OSError: nothing listens, or the connection has ended.
            RuntimeError: the request was refused.
        """
        body = body or self.request()
        length = f"Content-Type: application/json\r\nContent-Length: {len(body)}"
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{length}\r\n\r\n"
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        self._socket.sendall(head.encode() + body)
        head, content = self._read(self._socket)
        if head.split(" ", 2)[1] != str(HTTPStatus.OK.value):
            raise RuntimeError(f"{path} answered {head.splitlines()[0]}: {content.decode()}")
        return content

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _read(self, connection: socket.socket) -> tuple[str, bytes]:
        parts = [connection.recv(_PIECE)]
        while b"\r\n\r\n" not in parts[0]:
            more = connection.recv(_PIECE)
            if not more:
                raise ConnectionResetError("the answer ends in its head")
            parts[0] += more
        head, _, parts[0] = parts[0].partition(b"\r\n\r\n")
        text = head.decode()
        missing = int(_LENGTH.findall(text)[0]) - len(parts[0])
        while missing:
            parts.append(connection.recv(min(missing, _PIECE)))
            missing -= len(parts[-1])
        return text, b"".join(parts)


def measure(_lab: Lab) -> Iterator[Row]:
    """The median and the slow end for each size."""
    for nodes in CALLS:
        with child("tests.bench.filter_server", str(nodes)) as port:
            scheduler = Scheduler(int(port), nodes)
            yield from _size(scheduler, nodes)
            scheduler.close()


def _size(scheduler: Scheduler, nodes: int) -> Iterator[Row]:
    checked(scheduler.ask("/filter"), nodes)

    def codec() -> bytes:
        request = msgspec.json.decode(scheduler.request(), type=ExtenderArgs)
        return msgspec.json.encode(ExtenderFilterResult(node_names=list(request.node_names or ())))

    ours, echo, least = in_turns(
        CALLS[nodes], lambda: scheduler.ask("/filter"), lambda: scheduler.ask("/echo"), codec
    )
    for percent in PERCENTS:
        kind = AGAINST_CODEC[nodes, percent]
        yield kind.row(1000 * percentile(ours, percent), 1000 * percentile(least, percent))
    yield AGAINST_ECHO[nodes].row(1000 * percentile(ours, 50), 1000 * percentile(echo, 50))


def checked(content: bytes, nodes: int) -> None:
    """Check that the answer is the expected one.

    Raises:
        RuntimeError: it is another one.
    """
    answer = msgspec.json.decode(content, type=ExtenderFilterResult)
    if answer.error:
        raise RuntimeError(answer.error)
    if len(answer.node_names) != nodes - nodes // 2:
        fitting = len(answer.node_names)
        raise RuntimeError(f"Filter let {fitting} of {nodes} nodes pass; what is measured is not its work.")


MEASURE: Final = Measure("filter", (*AGAINST_CODEC.values(), *AGAINST_ECHO.values()), measure)
