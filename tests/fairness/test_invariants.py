"""Law L10 on random clusters: by the product's decisions, in virtual time."""

from dataclasses import dataclass, field, replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.decide.fairshare import Reclaim, Shares, ShareSettings, Standing, Tenant, Tree
from cluster.decide.fairshare.settings import DAY, HOUR, MINUTE, Amount
from tests.draws import examples
from tests.fairness.machines import Machines
from tests.fairness.ours import FairShares
from tests.fairness.rivals import Literal
from tests.fairness.simulation import Job, Simulation, job

ARTICLE = ShareSettings(reclaim_after=0, min_runtime=0, turn=None, worth=Fraction(0), evictions_per_day=24)
"""Class 1 alone, without any protection: what must not ping-pong by itself."""
LAST_ARRIVAL = 600
HOUR_AFTER = HOUR + LAST_ARRIVAL * 1_000_000


@dataclass
class Watched(FairShares):
    """Checks every pass."""

    deficits: list[tuple[int, tuple[Amount, Amount], int]] = field(default_factory=list)
    """Instant, ``deficits`` after a pass, GPUs that it took."""

    def start(self, simulation: Simulation) -> None:
        """No free device is refused to a unit that fits."""
        before = simulation.shares
        super().start(simulation)
        simulation.reckon()
        assert simulation.shares.deserved == before.deserved, "starting moves no share"
        assert simulation.shares.deficit <= before.deficit
        for tenant in simulation.line.tenants:
            for unit in simulation.line.firsts(tenant):
                nodes = {node: simulation.tree.standing(node).limit for node in simulation.tree.path(tenant)}
                held = simulation.shares.held
                if all(limit is None or held.get(n, 0) + unit.gpus <= limit for n, limit in nodes.items()):
                    assert simulation.machines.place(unit.parts) is None

    def take(self, simulation: Simulation) -> None:
        """A reclaim within shares lowers the deficit by exactly what it gives."""
        before, known, evictions = simulation.shares, len(self.made), simulation.measures.taken_gpus
        super().take(simulation)
        simulation.reckon()
        assert simulation.shares.deserved == before.deserved, "taking moves no share"
        shares = before
        for made in self.made[known:]:
            shares = self._check(shares, made)
        if self.settings.turn is None:
            assert deficits(simulation.shares) <= deficits(before)
        self.deficits.append(
            (simulation.now, deficits(simulation.shares), simulation.measures.taken_gpus - evictions)
        )

    def _check(self, shares: Shares, made: Reclaim) -> Shares:
        unit, found = made.unit, made.found
        changes = {unit.tenant: unit.gpus}
        for uid, one in found.units.items():
            if uid not in made.moved:
                changes[one.unit.tenant] = changes.get(one.unit.tenant, 0) - one.unit.gpus
        after = shares.after(changes)
        if made.kind == 1:
            assert after.over(unit.tenant) == 0
            losers = {one.unit.tenant for one in found.units.values()}
            if all(loser.group == unit.tenant.group for loser in losers):
                assert after.deficit == shares.deficit - unit.gpus
                assert not any(map(after.lacks, losers))
            else:
                assert deficits(after)[0] == deficits(shares)[0] - unit.gpus
                assert not any(after.lacks(below_root(loser)) for loser in losers)
        return after


def below_root(tenant: Tenant) -> Tenant:
    return Tenant("", tenant.group) if tenant.group else tenant


def deficits(shares: Shares) -> tuple[Amount, Amount]:
    """What groups and tenants without one lack; what all tenants lack: the first falls, or the second."""
    nodes = {below_root(tenant) for tenant in shares.deserved}
    return sum(map(shares.lacks, nodes)), shares.deficit


NODE_GPUS = 8
SIZES = st.sampled_from([1, 1, 1, 2, 4, 8, 12])
JOBS = st.lists(
    st.tuples(st.integers(0, LAST_ARRIVAL), st.sampled_from("abcdef"), SIZES), min_size=4, max_size=40
)
WEIGHTS = st.sampled_from([Fraction(1), Fraction(2), Fraction(1, 3)])
STANDINGS = st.builds(
    Standing, weight=WEIGHTS, quota=st.sampled_from([0, 0, 2, 9]), limit=st.sampled_from([None, None, 6])
)
TREES = st.builds(
    Tree,
    groups=st.dictionaries(st.sampled_from("xy"), STANDINGS, max_size=2),
    users=st.dictionaries(st.sampled_from("abc"), STANDINGS, max_size=3),
)
GROUP_OF = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("xy"), max_size=4)


def a_run(
    jobs: list[tuple[int, str, int]],
    rule: FairShares,
    *,
    nodes: int,
    days: float,
    tick: int = MINUTE,
    tree: Tree | None = None,
    groups: dict[str, str] | None = None,
) -> Simulation:
    """A simulation of endless jobs, run to its end."""
    made: list[Job] = []
    for number, (at, user, gpus) in enumerate(sorted(jobs)):
        one = job(f"j{number:02}", user, gpus, at=at)
        tenant = one.unit.tenant._replace(group=(groups or {}).get(user, ""))
        one.unit = replace(one.unit, tenant=tenant)
        made.append(one)
    simulation = Simulation(
        jobs=made,
        machines=Machines(nodes, NODE_GPUS),
        rule=rule,
        until=int(days * DAY),
        tick=tick,
        tree=tree or Tree(),
    )
    simulation.go()
    return simulation


@examples(20, 200)
@given(jobs=JOBS, nodes=st.integers(1, 3), tree=TREES, groups=GROUP_OF)
def test_reclaims_within_shares_end_and_are_never_reversed(
    jobs: list[tuple[int, str, int]], nodes: int, tree: Tree, groups: dict[str, str]
) -> None:
    """L10: at unchanged demand at most the deficit is taken, and then nothing."""
    rule = Watched(ARTICLE)
    a_run(jobs, rule, nodes=nodes, days=0.1, tree=tree, groups=groups)
    late = [(deficit, taken) for at, deficit, taken in rule.deficits if at > LAST_ARRIVAL * 1_000_000]
    after = [deficit for deficit, _ in late]
    assert after == sorted(after, reverse=True)
    assert not any(taken for at, _, taken in rule.deficits if at > HOUR_AFTER)


@examples(6, 100)
@given(jobs=JOBS, nodes=st.integers(1, 2), weights=st.dictionaries(st.sampled_from("abc"), WEIGHTS))
def test_nobody_starves_and_nobody_is_taken_more_than_three_times_a_day(
    jobs: list[tuple[int, str, int]], nodes: int, weights: dict[str, Fraction]
) -> None:
    """L10: in ten days everybody with a pod that some nodes could hold has had GPUs.

    Without groups, and without gangs that are larger than a node: those leave for nobody who wants little.
    """
    jobs = [one for one in jobs if one[2] <= NODE_GPUS]
    rule = Watched()
    tree = Tree(users={user: Standing(weight=weight) for user, weight in weights.items()})
    simulation = a_run(jobs, rule, nodes=nodes, days=10, tick=10 * MINUTE, tree=tree)
    measures = simulation.measures
    assert measures.most_a_day <= rule.settings.evictions_per_day
    largest = {
        one.unit.tenant: int(one.unit.gpus) for one in sorted(simulation.jobs, key=lambda j: j.unit.gpus)
    }
    for tenant, share in measures.deserved.items():
        limits = [simulation.tree.standing(node).limit for node in simulation.tree.path(tenant)]
        if not tenant.user or any(limit is not None for limit in limits):
            continue
        # The time after which even its largest unit is due, at the mean share.
        turn = rule.settings.turn or 0
        if share and largest[tenant] * turn * 10 * DAY / share < 4 * DAY:
            assert measures.delivered[tenant] > 0, (tenant, share / HOUR)


def test_the_articles_three_pictures() -> None:
    """Alternate; who is starved first; four GPUs for two users. With ``worth`` 0 the article's rule."""
    first = Simulation(
        jobs=[job(f"b{i}", "bob", at=i / 10) for i in range(8)]
        + [job(f"a{i}", "alice", at=0.05 + i / 10) for i in range(8)],
        machines=Machines(1, 4),
        rule=FairShares(),
        until=HOUR,
    )
    first.go()
    assert sorted(first.active) == ["a0", "a1", "b0", "b1"]
    jobs = [job(f"b{i}", "bob") for i in range(8)] + [job(f"a{i}", "alice", at=3600) for i in range(8)]
    second = Simulation(
        jobs=jobs,
        machines=Machines(1, 4),
        until=2 * HOUR,
        rule=FairShares(replace(ShareSettings(), worth=Fraction(0))),
    )
    measures = second.go()
    assert sorted(uid[0] for uid in second.active) == ["a", "a", "b", "b"]
    assert measures.spells == [MINUTE]
    assert measures.evictions == 2


def test_where_nothing_is_saved_she_waits_until_as_much_was_withheld_as_they_had_worked() -> None:
    """Alice lacks two GPUs, and each of bob's pods had worked an hour: 30 minutes, and 60 more at one GPU."""
    bobs = [job(f"b{i}", "bob") for i in range(8)]
    for one in bobs:
        one.checkpoint = None
    jobs = [*bobs, *(job(f"a{i}", "alice", at=3600) for i in range(8))]
    simulation = Simulation(jobs=jobs, machines=Machines(1, 4), rule=FairShares(), until=3 * HOUR)
    flaps = simulation.go().flaps
    assert sorted(uid[0] for uid in simulation.active) == ["a", "a", "b", "b"]
    taken = sorted(instant - HOUR for instants in flaps.values() for instant in instants)
    assert taken == [pytest.approx(31 * MINUTE, abs=MINUTE), pytest.approx(92 * MINUTE, abs=2 * MINUTE)]


def test_two_pods_of_eight_gpus_alternate_by_turns() -> None:
    """Ours: three evictions a day, half of the time each."""
    measures = Simulation(
        jobs=[job("a", "alice", 8), job("b", "bob", 8, at=60)],
        machines=Machines(1, 8),
        rule=FairShares(),
        until=6 * DAY,
    ).go()
    got = [held / (8 * 6 * DAY) for held in measures.delivered.values()]
    assert got == pytest.approx([0.5, 0.5], abs=0.03)
    assert measures.evictions <= 3 * 6


def test_the_article_by_the_letter_evicts_two_pods_of_eight_gpus_for_each_other_for_ever() -> None:
    """Once in each pass: what law L10 is against."""
    measures = Simulation(
        jobs=[job("a", "alice", 8), job("b", "bob", 8, at=60)],
        machines=Machines(1, 8),
        rule=Literal(),
        until=DAY,
    ).go()
    assert measures.evictions > 1000


def test_ten_users_on_four_gpus_for_three_days() -> None:
    """Everybody gets about the same, though a share is less than a GPU."""
    measures = Simulation(
        jobs=[job(f"j{i}", f"u{i}", at=i) for i in range(10)],
        machines=Machines(1, 4),
        rule=FairShares(),
        until=3 * DAY,
    ).go()
    hours = [held / HOUR / 3 for held in measures.delivered.values()]
    assert len(hours) == 10
    assert min(hours) > 7.5
    assert max(hours) < 12
    assert measures.most_a_day <= 3


def test_a_gang_of_two_nodes_and_small_pods_share_by_turns() -> None:
    """The gang starts and leaves whole, and gets as much as the users of small pods."""
    jobs = [job("g", "carol", 16, at=3600), *(job(f"{u}{i}", u) for u in ("alice", "bob") for i in range(16))]
    measures = Simulation(jobs=jobs, machines=Machines(2, 8), rule=FairShares(), until=10 * DAY).go()
    hours = [held / HOUR / 10 for held in measures.delivered.values()]
    assert hours == pytest.approx([128, 128, 128], rel=0.1)
