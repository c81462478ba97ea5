"""Fair shares at their largest: a pass over the line, and the search for victims, without the API server.

The nodes' candidates are known beforehand, as the planner's cache of holders keeps them from pass to pass.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from time import process_time
from typing import Final

from cluster.decide.eviction.victim_selection import NodeCandidate, Victim, VictimSelection
from cluster.decide.fairshare import (
    EQUAL,
    Account,
    Books,
    Line,
    Outcome,
    Pass,
    Running,
    Tenant,
    Unit,
    advance,
    deserve,
    grants,
    observe,
    reclaim,
)
from cluster.decide.fairshare.settings import DAY, HOUR, Amount
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.measured_cluster import GPUS
from tests.bench.rows import Kind, Row, Target
from tests.bench.table import percentile
from tests.seeded import seeded

WAITING: Final = 10_000
USERS: Final = 1_000
NODES: Final = 100
LARGE: Final = 5_000
ROUNDS: Final = 15
_FLOOR: Final = "looking at every waiting pod once"
_LINE: Final = f"{WAITING} waiting pods of {USERS} users on {NODES} nodes"
_PASS: Final = Kind(
    "shares-pass", f"shares, order and one grant, {_LINE}: processor time", "ms", _FLOOR, Target(value=20)
)
_FULL: Final = Kind("shares-full", f"the same where nothing is free, {_LINE}", "ms", _FLOOR, Target(value=20))
_BIG: Final = f"{LARGE} nodes, {LARGE * GPUS} GPUs, {USERS} users"
_HELD: Final = "looking at every running pod once"
_ONE: Final = Kind(
    "shares-search-one",
    f"who leaves for one GPU ({_BIG}; published: KAI 13.9 s)",
    "ms",
    _HELD,
    Target(value=100),
)
_FAR: Final = Kind(
    "shares-search-far",
    f"the same where one user alone holds too much ({_BIG})",
    "ms",
    _HELD,
    Target(value=100),
)
_GANG: Final = Kind(
    "shares-search-gang", f"who leaves for a gang of 8 x 8 GPUs ({_BIG})", "ms", _HELD, Target(value=400)
)
_NONE: Final = Kind(
    "shares-search-none",
    f"the search for 8 GPUs of a node that finds nobody who may leave ({_BIG})",
    "ms",
    _HELD,
    Target(value=100),
)
_NOW: Final = 100 * DAY


@dataclass
class _Nodes:
    """Candidates of all nodes, and the costs of each node's victims, the smallest first."""

    candidates: Mapping[str, NodeCandidate]
    costs: Mapping[str, list[int]] = field(default_factory=dict)
    moves: bool = False

    def bounds(self, unit: Unit, gpus: Amount) -> Iterable[tuple[int, str]]:
        """Pods of one GPU: the sum of the cheapest."""
        return ((sum(costs[: int(gpus)]), node) for node, costs in self.costs.items() if unit.gpus)

    def candidate(self, node: str, unit: Unit) -> NodeCandidate:
        """The same for every unit."""
        return self.candidates[node] if unit.gpus else NodeCandidate(node=node)

    def nodes_of(self, pods: Iterable[str]) -> AbstractSet[str]:
        """A pod's name has that of its node."""
        return {uid.partition("-")[0] for uid in pods}

    def suits(self, unit: Unit, selection: VictimSelection) -> bool:
        """Devices alone decide."""
        return len(selection.devices) <= unit.gpus

    def elsewhere(
        self, _units: Iterable[Running], _without: AbstractSet[str] = frozenset()
    ) -> frozenset[str]:
        """Nothing is free."""
        return frozenset()

    def settle(self, unit: Unit, selections: tuple[VictimSelection, ...]) -> None:
        """One unit a pass."""


def measure(_lab: Lab) -> Iterator[Row]:
    """All rows."""
    yield _pass(_PASS, room=1)
    yield _pass(_FULL, room=0)
    yield _search(_ONE, 1, {})
    yield _search(_FAR, 1, {Tenant("u7"): 100})
    yield _search(_GANG, 8 * GPUS, {})
    yield _search(_NONE, GPUS, {Tenant("u7"): GPUS}, days=0)


def _pass(kind: Kind, *, room: int) -> Row:
    rng = seeded(1)
    sizes = (1, 1, 1, 2, 4, 8)
    units = [
        Unit(uid=f"p{n}", tenant=Tenant(f"u{n % USERS}"), gpus=rng.choice(sizes), kind=n % 3, created=n)
        for n in range(WAITING)
    ]
    line, held = Line(units), {Tenant(f"u{n}"): n % 2 for n in range(USERS)}
    shares = deserve(EQUAL, NODES * GPUS, held, line.wanted)
    books = advance(Books(at=_NOW), shares, _NOW + DAY, largest=line.largest)

    def once() -> int:
        left = [room] + [0] * (NODES - 1)

        def place(unit: Unit) -> int | None:
            node = next((node for node, free in enumerate(left) if free >= unit.gpus), None)
            if node is not None:
                left[node] -= int(unit.gpus)
            return node

        now = advance(books, shares, _NOW + DAY + HOUR, largest=line.largest)
        present = deserve(EQUAL, NODES * GPUS, held, line.wanted)
        return len(list(grants(line, present, observe(now, present), place)))

    assert once() == room
    ours = [_processor(once) for _ in range(ROUNDS)]
    least = [_processor(lambda: sum(unit.gpus > 0 for unit in line)) for _ in range(ROUNDS)]
    return kind.row(1e3 * percentile(ours, 50), 1e3 * percentile(least, 50))


def _search(kind: Kind, gpus: int, only_over: Mapping[Tenant, int], *, days: int = 100) -> Row:
    """``days``: for how long alice has been owed a GPU; with none she waits in vain."""
    nodes, running = _crowd(only_over)
    alice = Tenant("alice")
    members = (GPUS,) * (gpus // GPUS) if gpus > GPUS else ()
    line = Line([Unit(uid="a", tenant=alice, gpus=gpus, members=members)])
    held: dict[Tenant, int] = {}
    for one in running.values():
        held[one.unit.tenant] = held.get(one.unit.tenant, 0) + 1
    # Everybody wants more, so that a share is the same for all.
    wanted = dict.fromkeys(held, LARGE) | dict(line.wanted)
    shares = deserve(EQUAL, LARGE * GPUS, held, wanted)
    account = Account(lag=days * DAY, withheld=100 * DAY, starved_since=_NOW - DAY)

    def once() -> Outcome:
        books = Books(at=_NOW, accounts={alice: account})
        return reclaim(Pass(line=line, shares=shares, books=books, running=running, places=nodes))

    assert len(once().reclaims) == (1 if days else 0)
    ours = [_processor(once) for _ in range(ROUNDS)]
    least = [_processor(lambda: sum(one.since > 0 for one in running.values())) for _ in range(ROUNDS)]
    return kind.row(1e3 * percentile(ours, 50), 1e3 * percentile(least, 50))


def _crowd(only_over: Mapping[Tenant, int]) -> tuple[_Nodes, dict[str, Running]]:
    """Pods of one GPU on every device; with ``only_over`` all users but these hold the same."""
    rng = seeded(2)
    users = [Tenant(f"u{number}") for number in range(USERS)]
    total = LARGE * GPUS
    extra = [tenant for tenant, more in only_over.items() for _ in range(more)]
    rest = total - len(extra)
    holders = [users[n % USERS] for n in range(rest)] if extra else rng.choices(users, k=rest)
    holders += extra
    rng.shuffle(holders)
    running: dict[str, Running] = {}
    candidates: dict[str, NodeCandidate] = {}
    for index in range(LARGE):
        node, victims = f"n{index:04}", []
        for slot in range(GPUS):
            uid = f"{node}-{slot}"
            since = _NOW - rng.randrange(HOUR, 10 * DAY)
            unit = Unit(uid=uid, tenant=holders[index * GPUS + slot], gpus=1, created=since)
            running[uid] = Running(unit=unit, since=since)
            victims.append(Victim(uid=uid, devices=(f"{uid}-d",), cost=rng.randrange(HOUR // 2), since=since))
        candidates[node] = NodeCandidate(node=node, victims=tuple(victims))
    costs = {node: sorted(v.cost for v in one.victims) for node, one in candidates.items()}
    return _Nodes(candidates, costs), running


def _processor(call: Callable[[], object]) -> float:
    began = process_time()
    call()
    return process_time() - began


MEASURE: Final = Measure("fair-shares", (_PASS, _FULL, _ONE, _FAR, _GANG, _NONE), measure)
