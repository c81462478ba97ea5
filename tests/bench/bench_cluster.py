"""A whole Kubernetes cluster: how soon it is up, and how soon all our parts are ready in it."""

from collections.abc import Iterator
from typing import Final

from tests.bench.lab import NODES, Lab
from tests.bench.measure import Measure
from tests.bench.rows import Kind, Row, Target

_START: Final = Kind(
    "cluster-start", f"a cluster's start until {len(NODES)} nodes are Ready", "s", target=Target(value=5)
)
_PARTS: Final = Kind(
    "parts-ready",
    "our parts: chart, 2 agents, extender, scheduler, server, controller until ready",
    "s",
    "Python loading the five programs, one after the other",
)


def measure(lab: Lab) -> Iterator[Row]:
    """Start it if it has not been started yet."""
    standing = lab.standing
    yield _START.row(standing.started)
    yield _PARTS.row(standing.deployed, standing.loading)


MEASURE: Final = Measure("cluster", (_START, _PARTS), measure, on_cluster=True)
