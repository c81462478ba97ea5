"""The verb filter over HTTP, as kube-scheduler asks it: one connection that is kept, on loopback."""

import http.client
from collections.abc import Iterator
from http import HTTPStatus

import msgspec

from extender.wire import FilterResult
from tests.bench.child import child
from tests.bench.scene import GPUS, question
from tests.bench.table import Floor, Row, percentile
from tests.bench.timing import in_turns

CALLS = {100: 400, 1_000: 200, 5_000: 100}
"""Nodes -> calls of each kind."""
FLOOR = "same server and bodies, no decision"


def measure() -> Iterator[Row]:
    """The median and the slow end for each size."""
    for nodes, calls in CALLS.items():
        with child("tests.bench.filter_server", str(nodes)) as port:
            yield from _size(int(port), nodes, calls)


def _size(port: int, nodes: int, calls: int) -> Iterator[Row]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    body = question(nodes)

    def ask(path: str) -> bytes:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != HTTPStatus.OK:
            raise RuntimeError(f"{path} answered {answer.status}: {content.decode()}")
        return content

    fitting = len(msgspec.json.decode(ask("/filter"), type=FilterResult).node_names)
    if fitting != nodes - nodes // 2:
        raise RuntimeError(f"Filter let {fitting} of {nodes} nodes pass; what is measured is not its work.")
    ours, floor = in_turns(calls, lambda: ask("/filter"), lambda: ask("/floor"))
    connection.close()
    for percent in (50, 99):
        yield Row(
            f"filter over HTTP, {nodes} nodes x {GPUS} GPUs, p{percent}",
            1000 * percentile(ours, percent),
            "ms",
            Floor(1000 * percentile(floor, percent), FLOOR),
        )
