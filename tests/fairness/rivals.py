"""Other rules, as their documents and sources state them, in the same simulation. Not the products.

None of them has a minimum runtime. All but the literal one act at once, and take the newest job first.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import ceil, floor

from cluster.decide.fairshare import Line, Shares, Tenant, Unit
from tests.fairness.ours import FairShares
from tests.fairness.simulation import Job, Simulation

Victims = Callable[[list[Job]], Iterator[Job]]
"""Those of these jobs, the newest first, that a rule takes, in its order, until enough is free."""


@dataclass
class Fifo:
    """kube-scheduler with equal priorities: by age, and what does not fit blocks nobody.

    With ``high`` users it is kube-scheduler with two priorities: theirs come first, and preempt others.
    """

    high: frozenset[str] = frozenset()
    acts_at_once: bool = True

    def passes(self, now: int, shares: Shares, line: Line) -> None:
        """Nothing is remembered."""

    def start(self, simulation: Simulation) -> None:
        """By priority and age."""
        if not simulation.has_room():
            return
        of_all = simulation.line.tenants.items()
        lists = [(tenant.user not in self.high, keys) for tenant, sizes in of_all for keys in sizes.values()]
        lists = [(is_low, list(keys)) for is_low, keys in lists]
        heads = [(is_low, keys[0][1:], number, 0) for number, (is_low, keys) in enumerate(lists)]
        heapify(heads)
        while heads:
            is_low, (_, uid), number, index = heappop(heads)
            unit = simulation.line.unit(uid)
            placement = simulation.machines.place(unit.parts)
            if placement is None:
                continue
            simulation.begin(unit, placement)
            keys = lists[number][1]
            if index + 1 < len(keys):
                heappush(heads, (is_low, keys[index + 1][1:], number, index + 1))

    def take(self, simulation: Simulation) -> None:
        """Jobs of others for jobs with high priority."""

        def victims(jobs: list[Job]) -> Iterator[Job]:
            return (job for job in jobs if job.unit.tenant.user not in self.high)

        for tenant in [one for one in sorted(simulation.line.tenants) if one.user in self.high]:
            while any(_take(simulation, unit, victims) for unit in simulation.line.firsts(tenant)):
                pass


class _Heap(FairShares, ABC):
    """The two-level heap, and another way to take."""

    acts_at_once = True

    def __init__(self) -> None:
        super().__init__(reclaims=False)

    def passes(self, now: int, shares: Shares, line: Line) -> None:
        """Nothing is remembered."""

    def take(self, simulation: Simulation) -> None:
        """Take for one unit after the other until nothing more may be taken."""
        for _ in range(50):
            if not any(self._take_for(simulation, unit) for unit in self._asking(simulation)):
                return
            simulation.reckon()

    def _asking(self, simulation: Simulation) -> Iterator[Unit]:
        shares = simulation.shares
        starved = sorted(
            (float(shares.held.get(one, 0) / shares.deserved[one]), one)
            for one in simulation.line.tenants
            if shares.is_starved(one)
        )
        for _, tenant in starved:
            yield from simulation.line.firsts(tenant)

    @abstractmethod
    def _take_for(self, simulation: Simulation, unit: Unit) -> bool:
        """Take for a unit, and start it; False if this rule takes nothing for it."""


class Literal(_Heap):
    """The article by the letter: pods of who is furthest over, for the most starved user, once a pass."""

    acts_at_once = False

    def take(self, simulation: Simulation) -> None:
        """Once a pass."""
        any(self._take_for(simulation, unit) for unit in self._asking(simulation))

    def _take_for(self, simulation: Simulation, unit: Unit) -> bool:
        shares = simulation.shares
        furthest = max(simulation.held, key=lambda one: (shares.over(one), one), default=unit.tenant)
        if not shares.over(furthest):
            return False
        return _take(simulation, unit, lambda jobs: (job for job in jobs if job.unit.tenant == furthest))


class Kai(_Heap):
    """KAI's rule: within whole shares; from a queue that is above its share before each victim."""

    def _take_for(self, simulation: Simulation, unit: Unit) -> bool:
        whole = whole_shares(simulation.shares)
        if simulation.held.get(unit.tenant, 0) + unit.gpus > whole[unit.tenant]:
            return False

        def victims(jobs: list[Job]) -> Iterator[Job]:
            held = dict(simulation.held)
            for job in jobs:
                tenant = job.unit.tenant
                if tenant != unit.tenant and held[tenant] > whole.get(tenant, 0):
                    held[tenant] -= int(job.unit.gpus)
                    yield job

        return _take(simulation, unit, victims)


class Kueue(_Heap):
    """Kueue's fair sharing (S2-a): from who borrows most, and then still borrows no less than we do."""

    def __init__(self, queues: int) -> None:
        """Args: queues: with equal nominal quotas."""
        super().__init__()
        self._queues = queues

    def _take_for(self, simulation: Simulation, unit: Unit) -> bool:
        # All amounts times the number of queues, so that they are whole.
        nominal = simulation.machines.capacity
        mine = max(0, (simulation.held.get(unit.tenant, 0) + int(unit.gpus)) * self._queues - nominal)

        def victims(jobs: list[Job]) -> Iterator[Job]:
            borrowed = {one: held * self._queues - nominal for one, held in simulation.held.items()}
            left = [job for job in jobs if job.unit.tenant != unit.tenant and borrowed[job.unit.tenant] > 0]
            while left:
                job = max(left, key=lambda one: borrowed[one.unit.tenant])
                left.remove(job)
                after = borrowed[job.unit.tenant] - int(job.unit.gpus) * self._queues
                if borrowed[job.unit.tenant] > 0 and (not mine or mine <= max(0, after)):
                    borrowed[job.unit.tenant] = after
                    yield job

        return _take(simulation, unit, victims)


def whole_shares(shares: Shares) -> dict[Tenant, int]:
    """KAI's division: whole GPUs, the remainder one by one to the largest remainders."""
    whole = {one: floor(share) for one, share in shares.deserved.items()}
    rest = ceil(sum(shares.deserved.values()) - sum(whole.values()))
    for one in sorted(whole, key=lambda one: (whole[one] - shares.deserved[one], one))[:rest]:
        whole[one] += 1
    return whole


def _newest(jobs: Iterable[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: (-(job.since or 0), job.unit.uid))


def _take(simulation: Simulation, unit: Unit, victims: Victims) -> bool:
    """Take jobs for a unit: on the node where that takes the fewest GPUs; for a gang anywhere."""
    if unit.members:
        chosen = _chosen(simulation, unit, victims(_newest(simulation.active.values())))
    else:
        of_nodes = (
            _chosen(simulation, unit, victims(_newest(simulation.active[uid] for uid in on)))
            for on in simulation.machines.on.values()
        )
        able = [jobs for jobs in of_nodes if jobs is not None]
        chosen = min(able, key=lambda jobs: sum(int(job.unit.gpus) for job in jobs), default=None)
    if chosen is None:
        return False
    for job in chosen:
        simulation.evict(job.unit.uid)
    placement = simulation.machines.place(unit.parts)
    assert placement is not None
    simulation.begin(unit, placement)
    return True


def _chosen(simulation: Simulation, unit: Unit, victims: Iterator[Job]) -> list[Job] | None:
    """Victims in this order until the unit fits, without those that are then not needed."""
    free = {node: len(devices) for node, devices in simulation.machines.free.items()}
    on, taken = simulation.machines.on, []

    def change(job: Job, sign: int) -> None:
        for node in set(job.nodes):
            free[node] += sign * len(on[node][job.unit.uid])

    while not _fits(unit, free):
        job = next(victims, None)
        if job is None:
            return None
        change(job, 1)
        taken.append(job)
    for job in list(taken):
        change(job, -1)
        if _fits(unit, free):
            taken.remove(job)
        else:
            change(job, 1)
    return taken


def _fits(unit: Unit, free: dict[str, int]) -> bool:
    left = dict(free) if unit.members else free
    for part in unit.parts:
        node = max(left, key=lambda name: left[name])
        if left[node] < part:
            return False
        if unit.members:
            left[node] -= int(part)
    return True
