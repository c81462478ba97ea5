"""How time and memory grow with the cluster: 100 to 15,000 nodes with 8 GPUs each.

Each size and part has a process of its own (``tests.bench.growing``): nothing of it is HTTP. Nearly every
GPU is held by a pod.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from tests.bench.child import child
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.rows import Kind, Row, Target

SIZES: Final = (100, 1_000, 5_000, 15_000)


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


def measure(_lab: Lab) -> Iterator[Row]:
    """All rows, the largest cluster last."""
    for nodes in SIZES:
        for part in ("extender", "controller"):
            with child("tests.bench.growing", part, str(nodes)) as line:
                grown = msgspec.json.decode(line, type=Grown)
            for of, field in _WHAT:
                if of == part:
                    value = getattr(grown, field)
                    yield _KINDS[part, field, nodes].row(value / 2**20 if field == "memory" else value)


MEASURE: Final = Measure("growth", tuple(_KINDS.values()), measure)
