"""The search finds the cheapest legal set on all nodes: by brute force."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from cluster.decide.eviction.victim_selection import taking
from cluster.decide.fairshare import Running, Search, Tenant, Unit
from cluster.decide.fairshare.search import Rules
from tests.fairness.machines import Machines, Snapshot

RUNNING = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from("abc"), st.integers(1, 3), st.integers(0, 9)), max_size=9
)
ALLOWED = st.fixed_dictionaries(dict.fromkeys("abc", st.integers(0, 5)))


@given(drawn=RUNNING, allowed=ALLOWED, need=st.integers(1, 6))
def test_no_legal_set_is_cheaper(
    drawn: list[tuple[int, str, int, int]], allowed: dict[str, int], need: int
) -> None:
    """Law L3 with shares: exact, whatever tenants may lose."""
    machines, running, costs = Machines(2, 6), {}, {}
    for number, (node, user, gpus, cost) in enumerate(drawn):
        where, uid = f"n{node:03}", f"p{number}"
        if len(machines.free[where]) >= gpus:
            machines.take(uid, ((where, tuple(machines.free[where][:gpus])),))
            running[uid] = Running(unit=Unit(uid=uid, tenant=Tenant(user), gpus=gpus), since=number)
            costs[uid] = cost

    def permits(units: Mapping[str, Running], _nodes: AbstractSet[str] = frozenset()) -> bool:
        users = {one.unit.tenant.user for one in units.values()}
        of_user = {u: sum(int(o.unit.gpus) for o in units.values() if o.unit.tenant.user == u) for u in users}
        return all(of_user[user] <= allowed[user] for user in users)

    unit = Unit(uid="u", tenant=Tenant("alice"), gpus=need)
    snapshot = Snapshot(machines, running, costs)
    rules = Rules(
        may_leave=lambda one: one.unit.gpus <= allowed[one.unit.tenant.user],
        permits=permits,
        most=lambda tenant: allowed[tenant.user],
    )
    found = Search(snapshot, running).cheapest(unit, rules)
    ranks = []
    for name in sorted(machines.free):
        candidate = snapshot.candidate(name, unit)
        victims = candidate.victims
        sets = chain.from_iterable(combinations(victims, count) for count in range(len(victims) + 1))
        for chosen in sets:
            enough = len(candidate.free) + sum(len(victim.devices) for victim in chosen) >= need
            if enough and permits({victim.uid: running[victim.uid] for victim in chosen}):
                ranks.append(taking(candidate, need, chosen).rank)
    assert (found.selections[0].rank if found else None) == min(ranks, default=None)


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4), held=st.lists(st.integers(1, 4), max_size=9)
)
def test_a_gang_gets_devices_for_all_its_pods_or_for_none(sizes: list[int], held: list[int]) -> None:
    """No device twice, and no victim that is not needed for any of them."""
    machines, running = Machines(3, 4), {}
    for number, gpus in enumerate(held):
        placement = machines.place((gpus,))
        if placement is not None:
            uid = f"p{number}"
            machines.take(uid, placement)
            running[uid] = Running(unit=Unit(uid=uid, tenant=Tenant("bob"), gpus=gpus), since=number)
    unit = Unit(uid="u", tenant=Tenant("alice"), gpus=sum(sizes), members=tuple(sizes))
    costs = {uid: 10 + number for number, uid in enumerate(running)}
    rules = Rules(may_leave=lambda _: True, permits=lambda _units, _nodes: True)
    found = Search(Snapshot(machines, running, costs), running).cheapest(unit, rules)
    assert (found is not None) == machines.holds_if_empty(unit.parts)
    if found is not None:
        devices = [device for one in found.selections for device in one.devices]
        assert len(devices) == len(set(devices)) == sum(sizes)
        assert sorted(len(one.devices) for one in found.selections) == sorted(sizes)
        freed = {d for uid in found.units for on in machines.on.values() for d in on.get(uid, ())}
        free = {device for devices in machines.free.values() for device in devices}
        assert set(devices) <= freed | free
        assert all(
            freed_by & set(devices)
            for freed_by in (
                {d for on in machines.on.values() for d in on.get(uid, ())} for uid in found.units
            )
        )
