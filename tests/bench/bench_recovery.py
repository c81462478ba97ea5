"""How soon a part of ours works again that was killed and restarted at once.

The floor cannot be avoided: Python loads the program of the part.
"""

from collections.abc import Callable, Iterator
from statistics import median
from typing import Final

from devcluster.daemons import Daemon
from devcluster.product import Parts
from devcluster.wait import Stopwatch, poll
from tests.bench.lab import NODES, Lab
from tests.bench.measure import Measure
from tests.bench.rows import Kind, Row, Target

ROUNDS: Final = 3
PATIENCE: Final = 120.0
_PROGRAMS: Final = 5
"""The number of programs whose loading the lab has measured, one after the other."""
_KIND: Final = Kind(
    "recovery",
    f"a part killed (-9) and started again: to ready, and the controller to reclaiming; the slowest of four"
    f" parts, median of {ROUNDS}",
    "s",
    "Python loading a program",
    target=Target(value=5),
)


def measure(lab: Lab) -> Iterator[Row]:
    """Each part in turn; the controller has no second replica."""
    standing = lab.standing
    parts = standing.parts
    daemons = (parts.server(), parts.extender(), parts.agent(NODES[0]))
    slowest = [_median(daemon, parts.is_ready) for daemon in daemons]
    slowest.append(_median(parts.controller(), _reclaims(parts)))
    yield _KIND.row(max(slowest), standing.loading / _PROGRAMS)


def _reclaims(parts: Parts) -> Callable[[Daemon], bool]:
    def acts(daemon: Daemon) -> bool:
        return parts.is_ready(daemon) and parts.leads(daemon)

    return acts


def _median(daemon: Daemon, acts: Callable[[Daemon], bool]) -> float:
    return median(_once(daemon, acts) for _ in range(ROUNDS))


def _once(daemon: Daemon, acts: Callable[[Daemon], bool]) -> float:
    """Seconds from the start until it works."""
    if not poll(lambda: acts(daemon), seconds=PATIENCE):
        raise RuntimeError(f"{daemon.name} did not act before it was killed; its log is {daemon.log}.")
    watch = Stopwatch()
    daemon.restart()
    if not poll(lambda: acts(daemon), seconds=PATIENCE, every=0.02):
        raise RuntimeError(f"{daemon.name} does not act again; its log is {daemon.log}.")
    return watch.seconds


MEASURE: Final = Measure("recovery", (_KIND,), measure, on_cluster=True)
