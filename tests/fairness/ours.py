"""Our rule: the product's own decisions, asked as the controller asks them."""

from dataclasses import dataclass, field, replace

from cluster.decide.fairshare import (
    Books,
    Line,
    Pass,
    Reclaim,
    Shares,
    ShareSettings,
    Unit,
    advance,
    grants,
    observe,
    reclaim,
)
from tests.fairness.machines import Placement, Snapshot
from tests.fairness.simulation import Simulation


@dataclass
class FairShares:
    """``reclaims`` False: mode order."""

    settings: ShareSettings = field(default_factory=ShareSettings)
    reclaims: bool = True
    books: Books = field(default_factory=Books)
    made: list[Reclaim] = field(default_factory=list)
    acts_at_once: bool = False

    def passes(self, now: int, shares: Shares, line: Line) -> None:
        """Integrate what is owed."""
        self.books = advance(self.books, shares, now, self.settings, largest=line.largest)

    def start(self, simulation: Simulation) -> None:
        """The two-level heap on the present machines."""

        def place(unit: Unit) -> Placement | None:
            placement = simulation.machines.place(unit.parts)
            if placement is not None:
                simulation.machines.take(unit.uid, placement)
            return placement

        self.books = observe(self.books, simulation.shares)
        if not simulation.has_room():
            return
        started = list(grants(simulation.line, simulation.shares, self.books, place))
        for unit, placement in started:
            simulation.machines.release(unit.uid, [node for node, _ in placement])
        for unit, placement in started:
            simulation.begin(unit, placement)

    def take(self, simulation: Simulation) -> None:
        """One pass of reclaim."""
        self.books = observe(self.books, simulation.shares)
        if not self.reclaims or not any(map(simulation.shares.is_starved, simulation.line.tenants)):
            self.books = replace(self.books, loan_since=None)
            return
        now = simulation.now
        running = {uid: job.running for uid, job in simulation.active.items()}
        costs = {uid: job.cost(now) for uid, job in simulation.active.items()}
        outcome = reclaim(
            Pass(
                line=simulation.line,
                shares=simulation.shares,
                books=self.books,
                running=running,
                places=Snapshot(simulation.machines, running, costs),
                settings=self.settings,
                node_gpus=simulation.machines.gpus,
            )
        )
        self.books = outcome.books
        for made in outcome.reclaims:
            self.made.append(made)
            for uid in made.found.units:
                simulation.evict(uid)
            placement = tuple((one.node, one.devices) for one in made.found.selections)
            turn = self.settings.turn or 0
            simulation.begin(made.unit, placement, now + turn if made.kind == 2 else 0)
        if outcome.reclaims:
            simulation.reckon()
            self.start(simulation)
