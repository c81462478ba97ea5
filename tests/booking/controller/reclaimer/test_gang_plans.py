"""Gangs in random clusters: planned whole or not at all, and nobody is taken in part."""

from dataclasses import replace
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from booking.controller.reclaimer.fair_shares.record import RecordStore
from booking.controller.reclaimer.fair_shares.turns import Turns
from booking.controller.reclaimer.planning.node_candidates import PlanningInputs
from booking.controller.reclaimer.planning.plan import Plan
from booking.durations import Duration
from booking.eviction.holder_cache import HolderCache
from booking.policy.fair_shares import FairShares
from cluster import names
from cluster.objects.gangs import gang_of
from cluster.objects.pods import Pod
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import a100, a_pod

SHARES = FairShares(
    mode="reclaim",
    reclaim_after=Duration(seconds=0),
    min_runtime=Duration(seconds=0),
    worth=Fraction(0),
    turn_loss=None,
)
Runs = tuple[str, int, int]
"""Whose pod it is, how many GPUs it has, and the number of its gang; 0: it has none."""
_running = st.lists(
    st.tuples(st.sampled_from(("bob", "carol")), st.integers(1, 2), st.integers(0, 2)), max_size=8
)
_gangs = st.lists(st.lists(st.integers(1, 2), min_size=2, max_size=4), min_size=1, max_size=2)


def cluster_of(running: list[Runs], gangs: list[list[int]], nodes: int) -> FakeCluster:
    found = FakeCluster()
    free = {f"n{number}": list(range(4)) for number in range(nodes)}
    for name in free:
        found.add_node(name, *(a100(index, name) for index in range(4)))
    sizes = {
        key: sum(one[0] == key[0] and one[2] == key[1] for one in running)
        for key in {(user, gang) for user, _, gang in running}
    }
    for number, (user, gpus, gang) in enumerate(running):
        node = next((name for name, left in free.items() if len(left) >= gpus), None)
        if node is None:
            continue
        devices, free[node] = free[node][:gpus], free[node][gpus:]
        pod = found.opportunist(f"r{number}", *devices, node=node)
        found.annotate(pod.metadata.name, names.USER, user)
        if gang and sizes[user, gang] > 1:
            found.annotate(pod.metadata.name, names.GANG, f"g{gang}")
            found.annotate(pod.metadata.name, names.GANG_SIZE, str(sizes[user, gang]))
    for number, members in enumerate(gangs):
        for index, gpus in enumerate(members):
            pod_of = a_pod(f"w{number}-{index}").of("alice").asks(gpus).behind(names.QUEUE)
            pod_of = pod_of.with_annotation(names.GANG, f"w{number}")
            found.create(pod_of.with_annotation(names.GANG_SIZE, str(len(members))))
    return found


def planned(cluster: FakeCluster) -> tuple[list[Plan], dict[str, Pod]]:
    """What is planned when everybody has waited for long."""
    turns = Turns(cluster.clock, lambda: SHARES, RecordStore(cluster.kube, names.NAMESPACE))
    turns.accounts.remember()
    for hours in (0, 1, 11, 30):
        cluster.clock.advance(3600.0 * hours)
        cluster.renew()
        snapshot = replace(cluster.snapshot(), gives_turns=True)
        if plans := turns.plans(snapshot, PlanningInputs(), HolderCache()):
            return plans, dict(snapshot.pods)
    return [], {}


@given(_running, _gangs, st.integers(1, 3))
def test_every_plan_is_of_whole_gangs_and_takes_whole_gangs(
    running: list[Runs], gangs: list[list[int]], nodes: int
) -> None:
    plans, pods = planned(cluster_of(running, gangs, nodes))
    made: dict[str, list[Plan]] = {}
    for plan in plans:
        made.setdefault(plan.gang, []).append(plan)
        assert not plan.lifts_gate
    for them in made.values():
        gang = gang_of(them[0].pod)
        assert gang is not None
        assert len(them) == gang.size
    devices = [uuid for plan in plans for uuid in plan.hold.devices]
    assert len(devices) == len(set(devices))
    leave = {uid for plan in plans for uid in plan.hold.victims}
    going = {gang for uid in leave if (gang := gang_of(pods[uid]))}
    assert all(uid in leave for uid, pod in pods.items() if pod.spec.node_name and gang_of(pod) in going)
    for plan in plans:
        for uid, pod in pods.items():
            has = names.ASSIGNED in (pod.metadata.annotations or {}) and any(
                f'"{uuid}"' in (pod.metadata.annotation(names.ASSIGNED) or "") for uuid in plan.hold.devices
            )
            assert not has or uid in plan.hold.victims
