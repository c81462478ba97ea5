"""Which loads are simulated under which rules: the rows of the tables in docs/fair-shares.md."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from cluster.decide.fairshare import ShareSettings
from cluster.decide.fairshare.settings import DAY, HOUR, MINUTE
from tests.fairness import traces
from tests.fairness.machines import Machines
from tests.fairness.ours import FairShares
from tests.fairness.rivals import Fifo, Kai, Kueue, Literal
from tests.fairness.simulation import Job, Rule, Simulation

TICK: Final = 2 * MINUTE
"""How often our rule looks for something to take."""
OURS: Final = "**ours**"
DEFAULTS: Final = ShareSettings()


@dataclass(frozen=True)
class Load:
    """Jobs on machines."""

    name: str
    trace: str
    first: float
    last: float
    nodes: int
    """Of 8 GPUs."""

    def jobs(self, folder: Path | None) -> list[Job]:
        """Its jobs, by submission; without a folder those of the sample."""
        if folder is None:
            return traces.sample(self.last - self.first, seed=int(self.first) + 1)
        return (traces.philly if self.trace == "philly" else traces.openb)(folder, self.first, self.last)


SETTLED: Final = Load("Philly, days 28 to 32, 40 nodes", "philly", 28, 32.2, 40)
"""The weeks on which values were settled; nothing is claimed from them."""
HELD_OUT: Final = (Load("Philly, days 63 to 67, 48 nodes", "philly", 63, 67, 48),)
MORE: Final = (
    Load("Philly, days 56 to 63, 48 nodes", "philly", 56, 63, 48),
    Load("Philly, days 63 to 70, 48 nodes", "philly", 63, 70, 48),
    Load("Philly, days 91 to 98, 32 nodes", "philly", 91, 98, 32),
    Load("openb, days 105 to 119, 3 nodes", "openb", 105, 119, 3),
)
"""In their place in a big run."""
SAMPLES: Final = (
    Load("synthetic sample, 2 days, 6 nodes", "sample", 0, 2, 6),
    Load("another synthetic sample, 2 days, 6 nodes", "sample", 10, 12, 6),
)
"""Without traces: the first in place of SETTLED, the second in place of HELD_OUT."""

Make = Callable[[list[Job]], Rule]


def _high(jobs: list[Job]) -> frozenset[str]:
    return frozenset(sorted({job.unit.tenant.user for job in jobs})[:3])


def _queues(jobs: list[Job]) -> int:
    return len({job.unit.tenant for job in jobs})


RULES: Final[dict[str, Make]] = {
    "by age (kube-scheduler)": lambda _: Fifo(),
    "priorities (3 users high)": lambda jobs: Fifo(high=_high(jobs)),
    "the article, literally": lambda _: Literal(),
    "KAI's rule": lambda _: Kai(),
    "Kueue's rule": lambda jobs: Kueue(_queues(jobs)),
    "ours, mode `order`": lambda _: FairShares(reclaims=False),
    OURS: lambda _: FairShares(),
}
UNSAVED: Final = ("KAI's rule", "Kueue's rule", OURS)
"""Rules that are also run with jobs that save nothing."""
SENSITIVITY: Final[dict[str, dict[str, Any]]] = {
    "defaults": {},
    "`reclaim_after` 0 s": {"reclaim_after": 0},
    "`reclaim_after` 15 min": {"reclaim_after": 15 * MINUTE},
    "`min_runtime` 0": {"min_runtime": 0},
    "`min_runtime` 30 min": {"min_runtime": 30 * MINUTE},
    "`turn` 1 h": {"turn": HOUR},
    "`turn` 8 h": {"turn": 8 * HOUR},
    "`turn` none": {"turn": None},
    "`worth` 0": {"worth": Fraction(0)},
    "`worth` 0.25": {"worth": Fraction(1, 4)},
    "`worth` 4": {"worth": Fraction(4)},
    "`turn_loss` 0.25": {"turn_loss": Fraction(1, 4)},
    "`turn_loss` none": {"turn_loss": None},
    "`evictions_per_day` 1": {"evictions_per_day": 1},
    "`evictions_per_day` 24": {"evictions_per_day": 24},
    "no loans": {"lends": False},
}


@dataclass(frozen=True)
class Run:
    """One row to be."""

    table: str
    load: Load
    rule: str
    settings: str = ""
    saves: bool = True


def runs(*, big: bool, with_traces: bool) -> Iterator[Run]:
    """All rows, in their order."""
    settled = SETTLED if with_traces else SAMPLES[0]
    held_out = (MORE if big else HELD_OUT) if with_traces else SAMPLES[1:]
    for load in held_out:
        for rule in RULES:
            yield Run(load.name, load, rule)
        for rule in UNSAVED:
            yield Run(load.name, load, rule, saves=False)
    for settings in SENSITIVITY:
        yield Run(f"sensitivity: {settled.name}", settled, OURS, settings)
        if big:
            yield Run(f"sensitivity: {settled.name}", settled, OURS, settings, saves=False)


def run(one: Run, folder: Path | None) -> dict[str, Any]:
    """Simulate one row: its figures, and the seconds that it took."""
    began = time.perf_counter()
    jobs = one.load.jobs(folder)
    for job in jobs:
        job.checkpoint = job.checkpoint if one.saves else None
    rule = RULES[one.rule](jobs)
    if one.settings:
        rule = FairShares(replace(DEFAULTS, **SENSITIVITY[one.settings]))
    simulation = Simulation(
        jobs=jobs,
        machines=Machines(one.load.nodes, traces.NODE_GPUS),
        rule=rule,
        until=int((one.load.last - one.load.first) * DAY),
        tick=TICK,
    )
    return {**simulation.go().row(), "jobs": len(jobs), "seconds": time.perf_counter() - began}
