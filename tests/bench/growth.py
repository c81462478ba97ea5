"""How filter grows with the number of nodes: a table and a chart, made from the rows of a run."""

from collections.abc import Iterable
from typing import Final

from tests.bench.bench_filter import AGAINST_CODEC, AGAINST_ECHO, CALLS
from tests.bench.chart import chart
from tests.bench.rows import Row

_HEAD: Final = (
    "nodes",
    "p50 ms",
    "p99 ms",
    "echo p50 ms",
    "codec p50 ms",
    "us per node",
)


def table(rows: Iterable[Row]) -> str:
    """One line per measured size."""
    found = {row.name: row for row in rows}
    lines = [_HEAD, tuple("---" for _ in _HEAD)]
    for nodes in CALLS:
        p50, p99 = (found.get(AGAINST_CODEC[nodes, percent].name) for percent in (50, 99))
        echo = found.get(AGAINST_ECHO[nodes].name)
        if p50 and p99 and echo:
            values = (p50.value, p99.value, echo.floor or 0, p50.floor or 0, 1000 * p50.value / nodes)
            lines.append((str(nodes), *(f"{value:.3g}" for value in values)))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def drawn(rows: Iterable[Row]) -> str:
    """The same as a chart."""
    found = {row.name: row for row in rows}
    sizes = [nodes for nodes in CALLS if AGAINST_CODEC[nodes, 50].name in found]
    ours = [(nodes, found[AGAINST_CODEC[nodes, 50].name]) for nodes in sizes]
    echo = [(nodes, found[AGAINST_ECHO[nodes].name]) for nodes in sizes]
    return chart(
        {
            "filter, p50": [(nodes, row.value) for nodes, row in ours],
            "echo, p50": [(nodes, row.floor or 0) for nodes, row in echo],
            "codec, p50": [(nodes, row.floor or 0) for nodes, row in ours],
        },
        title="Round trip of filter over HTTP by number of nodes",
        across="nodes",
        up="ms",
    )
