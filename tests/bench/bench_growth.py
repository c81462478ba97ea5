"""How time and memory grow with the cluster: 100 to 15,000 nodes with 8 GPUs each.

Each size and part has a process of its own (``tests.bench.growing``): nothing of it is HTTP. Nearly every
GPU is held by a pod. Nothing may grow faster than its input, which from 1,000 to 15,000 nodes is 15 times.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from tests.bench.child import child
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.rows import Kind, Row, Target

SIZES: Final = (100, 1_000, 5_000, 15_000)
SMALL: Final = 1_000
"""Nodes with which the largest cluster is compared: below, what every process takes hides the growth."""


class Grown(msgspec.Struct):
    """What a process has measured; None for what its part does not do."""

    cold: float
    """Seconds to decode and to take in all nodes and pods, and to make the first plan."""
    memory: int
    """Bytes."""
    filter: float | None = None
    """Milliseconds, with decoding and encoding."""
    bind: float | None = None
    """Microseconds."""
    event: float | None = None
    """Microseconds."""
    plan: float | None = None
    """Milliseconds."""


_WHAT: Final = {
    ("extender", "filter"): ("filter without HTTP", "ms", None),
    ("extender", "bind"): ("bind's decision", "us", None),
    ("extender", "event"): ("an event of a pod with a GPU", "us", None),
    ("extender", "cold"): ("the extender takes in all nodes and pods", "s", Target(value=10)),
    ("extender", "memory"): ("memory of the extender", "MiB", Target(value=400)),
    ("controller", "plan"): ("plan for one booked pod", "ms", None),
    ("controller", "cold"): ("the controller takes in all nodes and pods, and plans", "s", Target(value=10)),
    ("controller", "memory"): ("memory of the controller", "MiB", Target(value=400)),
}
_KINDS: Final = {
    (part, field, nodes): Kind(
        f"growth-{part}-{field}-{nodes}",
        f"{words}, {nodes:,} nodes",
        unit,
        target=target if nodes == max(SIZES) else None,
    )
    for (part, field), (words, unit, target) in _WHAT.items()
    for nodes in SIZES
}
_GROWS: Final = {
    (part, field): Kind(
        f"growth-{part}-{field}-grows",
        f"{words}: how many times that of {SMALL:,} nodes it is with {max(SIZES):,}",
        "times",
        "how many times as many nodes that are",
        target=Target(ratio=1),
    )
    for (part, field), (words, _, _) in _WHAT.items()
}


def measure(_lab: Lab) -> Iterator[Row]:
    """All rows, the largest cluster last, then how everything has grown."""
    found: dict[tuple[str, str, int], float] = {}
    for nodes in SIZES:
        for part in ("extender", "controller"):
            with child("tests.bench.growing", part, str(nodes)) as line:
                grown = msgspec.json.decode(line, type=Grown)
            for of, field in _WHAT:
                if of == part:
                    value = getattr(grown, field)
                    found[part, field, nodes] = value / 2**20 if field == "memory" else value
                    yield _KINDS[part, field, nodes].row(found[part, field, nodes])
    yield from grows(found)


def grows(found: Mapping[tuple[str, str, int], float]) -> Iterator[Row]:
    """How each value grows from ``SMALL`` to the largest cluster, beside the number of nodes.

    Args:
        found: (part, field of ``Grown``, nodes) -> what was measured.
    """
    for (part, field), kind in _GROWS.items():
        yield kind.row(found[part, field, max(SIZES)] / found[part, field, SMALL], max(SIZES) / SMALL)


GROWS: Final = tuple(_GROWS.values())
MEASURE: Final = Measure("growth", (*_KINDS.values(), *GROWS), measure)
