"""Which pod gets which devices: the right node, the right model, no device twice (laws L2 and L3)."""

from collections.abc import Iterable
from datetime import timedelta
from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from booking.controller.reclaimer.planning.node_candidates import PlanningInputs
from booking.controller.reclaimer.planning.plan import Plan, plan
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from cluster import names
from cluster.fake.merging import merged
from cluster.kube.resources import NODES, PODS
from cluster.objects.hold import Hold, encode_versions
from cluster.objects.pods import Pod, container_needs, is_live
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster, Json
from tests.fakes.costs import lost_work
from tests.fakes.objects import EPOCH, a100, a_pod

OWNED_BY = {
    kind: {"metadata": {"ownerReferences": [{"kind": kind, "name": "x", "uid": "o", "controller": True}]}}
    for kind in ("DaemonSet", "Node", "ReplicaSet")
}


def holds(cluster: FakeCluster, inputs: PlanningInputs | None = None) -> dict[str, Hold]:
    made = plan(cluster.snapshot(), inputs or PlanningInputs())
    return {one.pod.metadata.name: one.hold for one in made}


def victims(cluster: FakeCluster) -> list[str]:
    return [uid for hold in holds(cluster).values() for uid in hold.victims]


def change(cluster: FakeCluster, name: str, more: Json) -> None:
    cluster.kube.put(PODS, merged(cluster.kube.raw(PODS, name, namespace="default"), more))


def test_a_bound_gated_terminating_or_uncovered_pod_gets_no_plan(cluster: FakeCluster) -> None:
    cluster.book(count=4)
    cluster.gone("a")
    cluster.create(a_pod("gated").of("alice").asks(1), {"spec": {"schedulingGates": [{"name": "later"}]}})
    cluster.create(a_pod("ends").of("alice").asks(1).terminating())
    cluster.create(a_pod("carols").of("carol").asks(1))
    cluster.create(a_pod("unowned").asks(1))
    assert holds(cluster) == {}


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_pods_that_would_come_back_at_once_are_not_evicted(cluster: FakeCluster, kind: str) -> None:
    change(cluster, "b3", OWNED_BY[kind])
    assert victims(cluster) == ["uid-b2"]


def test_a_pod_with_unknown_devices_is_never_evicted_and_its_node_is_not_planned_with() -> None:
    cluster = FakeCluster()
    cluster.add_node("n0", a100(0), a100(1))
    cluster.create(a_pod("stranger").asks(1).on("n0"))
    cluster.opportunist("b", 0)
    cluster.book()
    cluster.waiting("a")
    assert holds(cluster) == {}


def test_the_holder_of_an_unhealthy_device_is_not_evicted() -> None:
    cluster = FakeCluster()
    cluster.add_node("n0", a100(0, health="unhealthy", reason="XID 79"), a100(1))
    cluster.opportunist("unhealthy", 0, minutes=1)
    cluster.opportunist("well", 1, minutes=100)
    cluster.book()
    cluster.waiting("a")
    assert victims(cluster) == ["uid-well"]


def test_the_holders_of_a_device_that_two_pods_report_to_hold_are_not_evicted() -> None:
    cluster = FakeCluster()
    cluster.add_node("n0", a100(0), a100(1))
    cluster.opportunist("one", 0, minutes=1)
    cluster.opportunist("other", 0, minutes=1)
    cluster.opportunist("clear", 1, minutes=100)
    cluster.book()
    cluster.waiting("a")
    assert victims(cluster) == ["uid-clear"]


@pytest.mark.parametrize(
    "spec",
    [
        {"unschedulable": True},
        {"taints": [{"key": "reserved", "value": "x", "effect": "NoSchedule"}]},
    ],
)
def test_no_pod_is_evicted_on_a_node_that_does_not_suit_the_booked_pod(spec: Json) -> None:
    cluster = FakeCluster()
    cluster.add_node("n0", **spec)
    cluster.fill()
    cluster.book()
    cluster.waiting("a")
    assert holds(cluster) == {}


def test_a_barred_node_is_not_chosen(cluster: FakeCluster) -> None:
    cluster.add_node("n1", a100(0, "n1"))
    cluster.opportunist("cheap", 0, node="n1", minutes=1)
    cluster.annotate("a", names.BARRED, "n7, n1")
    assert victims(cluster) == ["uid-b3"]


def test_a_hold_prefers_free_devices_then_those_of_leaving_pods_then_victims() -> None:
    cluster = FakeCluster()
    cluster.add_node()
    cluster.opportunist("stays", 0, minutes=90)
    cluster.opportunist("leaves", 1)
    cluster.kube.delete(PODS, "leaves", namespace="default")
    cluster.opportunist("cheap", 2, minutes=1)
    cluster.book(count=3)
    cluster.waiting("a", 3)
    assert holds(cluster)["a"] == Hold(
        node="n0",
        devices=("GPU-n0-3", "GPU-n0-1", "GPU-n0-2"),
        victims=("uid-cheap",),
        at=cluster.clock.now(),
        state=encode_versions(cluster.cache.reached),
    )


def test_devices_left_over_by_one_victim_are_waited_for_instead_of_another_eviction() -> None:
    cluster = FakeCluster()
    cluster.add_node()
    cluster.opportunist("large", 0, 1, 2, minutes=1)
    cluster.opportunist("small", 3, minutes=60)
    cluster.book(count=2)
    cluster.waiting("a")
    cluster.waiting("a2")
    assert {name: hold.victims for name, hold in holds(cluster).items()} == {"a": ("uid-large",)}
    cluster.reconcile(2)
    cluster.reconcile(2)
    assert cluster.evicted() == ["large"]
    assert cluster.kept("a2").victims == ()


def test_a_pod_with_a_hold_gets_no_second_plan(cluster: FakeCluster) -> None:
    cluster.hold("a", Hold(node="n0", devices=("GPU-n0-0",), victims=("uid-b0",), at=EPOCH))
    assert holds(cluster) == {}


def test_spared_pods_are_not_evicted(cluster: FakeCluster) -> None:
    found = holds(cluster, PlanningInputs(excluded=frozenset({"uid-b3", "uid-b2"})))
    assert found["a"].victims == ("uid-b1",)


# --- against brute force, on whole clusters -----------------------------------------------------------


@st.composite
def clusters(draw: st.DrawFn) -> FakeCluster:
    """Up to three nodes with up to four A100s, opportunistic pods on some, one or two booked pods."""
    cluster = FakeCluster()
    for node in range(draw(st.integers(1, 3))):
        name = f"n{node}"
        size = draw(st.integers(1, 4))
        cluster.add_node(name, *(a100(index, name) for index in range(size)))
        taken = 0
        for number, devices in enumerate(draw(st.lists(st.integers(1, 3), max_size=4))):
            if taken + devices <= size:
                indices = range(taken, taken + devices)
                pod = f"p{node}{number}"
                cluster.opportunist(pod, *indices, node=name, minutes=draw(st.integers(0, 3)))
                if draw(st.booleans()) and draw(st.booleans()):
                    cluster.kube.delete(PODS, pod, namespace="default")
                taken += devices
    cluster.book(count=8)
    for number in range(draw(st.integers(1, 2))):
        cluster.waiting(f"a{number}", draw(st.integers(1, 4)))
    return cluster


def supply(
    snapshot: ReclaimerSnapshot, node: str, without: Iterable[str] = (), kept: Iterable[str] = ()
) -> int:
    """Devices of a node that are free once terminating pods and these have left."""
    view = snapshot.node_snapshots[node][0]
    gone = {uid for uid, pod in snapshot.pods.items() if not is_live(pod)} | set(without)
    return sum(
        device.uuid not in set(kept) and gone.issuperset(view.holders(device.uuid)) for device in view.devices
    )


def requested_gpus(pod: Pod) -> int:
    return sum(need.count for need in container_needs(pod))


def cheapest_by_force(snapshot: ReclaimerSnapshot, need: int) -> int | None:
    """What the cheapest set of victims on any node loses, None when no set is enough."""
    costs = []
    for node in snapshot.node_snapshots:
        here = [
            pod
            for pod in snapshot.pods.values()
            if pod.spec.node_name == node and is_live(pod) and pod.metadata.uid not in snapshot.cover
        ]
        for some in chain.from_iterable(combinations(here, size) for size in range(len(here) + 1)):
            if supply(snapshot, node, [pod.metadata.uid for pod in some]) >= need:
                holdings = [(pod, snapshot.holding(pod)) for pod in some]
                costs.append(
                    sum(
                        lost_work(pod, len(holding.devices), snapshot.now)
                        for pod, holding in holdings
                        if holding
                    )
                )
    return min(costs, default=None)


def free_somewhere(snapshot: ReclaimerSnapshot, need: int) -> bool:
    return any(
        sum(not view.holders(device.uuid) for device in view.devices) >= need
        for view, _ in snapshot.node_snapshots.values()
    )


def in_mind(snapshot: ReclaimerSnapshot, made: list[Plan]) -> int:
    """How many devices the pods need that fit on free ones."""
    planned = {one.pod.metadata.uid for one in made}
    waiting = (snapshot.pods[uid] for uid in snapshot.cover if uid not in planned)
    return sum(requested_gpus(pod) for pod in waiting if free_somewhere(snapshot, requested_gpus(pod)))


@settings(max_examples=150)
@given(clusters())
def test_plans_are_necessary_sufficient_minimal_and_disjoint(cluster: FakeCluster) -> None:
    snapshot = cluster.snapshot()
    made = plan(snapshot)
    kept: list[str] = []
    for one in made:
        need = len(one.hold.devices)
        assert need == requested_gpus(one.pod)
        assert not set(kept) & set(one.hold.devices)
        assert supply(snapshot, one.hold.node, one.hold.victims, kept) >= need
        for spared in one.hold.victims:
            others = set(one.hold.victims) - {spared}
            assert supply(snapshot, one.hold.node, others, kept) < need + in_mind(snapshot, made)
        kept += one.hold.devices
    assert len({uid for one in made for uid in one.hold.victims}) == sum(len(o.hold.victims) for o in made)
    assert made == plan(snapshot)


@settings(max_examples=150)
@given(clusters())
def test_the_first_plan_is_the_cheapest_possible(cluster: FakeCluster) -> None:
    snapshot = cluster.snapshot()
    first = min(
        (pod for uid, pod in snapshot.pods.items() if uid in snapshot.cover),
        key=lambda pod: pod.metadata.uid,
    )
    need = requested_gpus(first)
    found: Plan | None = next((one for one in plan(snapshot) if one.pod is first), None)
    if free_somewhere(snapshot, need):
        assert found is None
    else:
        assert (found.lost if found else None) == cheapest_by_force(snapshot, need)


def test_a_plan_says_what_its_victims_lose(cluster: FakeCluster) -> None:
    (one,) = plan(cluster.snapshot())
    assert timedelta(microseconds=one.lost) == timedelta(minutes=10)


def test_law_l3_no_pod_is_evicted_for_a_pod_that_would_still_not_fit(cluster: FakeCluster) -> None:
    cluster.kube.put(NODES, merged(cluster.kube.raw(NODES, "n0"), {"status": {"allocatable": {"cpu": "8"}}}))
    requests = {"resources": {"requests": {names.GPU_RESOURCE: "1", "cpu": "9"}}}
    containers = cluster.kube.raw(PODS, "a", namespace="default")["spec"]["containers"]
    change(cluster, "a", {"spec": {"containers": [merged(one, requests) for one in containers]}})
    assert holds(cluster) == {}


# --- several together ---------------------------------------------------------------------------------


def test_no_pod_is_evicted_while_the_booked_pods_may_still_fit_on_free_devices(cluster: FakeCluster) -> None:
    """The first could go to either node, the next to one of them only: it is open which it will be."""
    cluster.book(count=2)
    cluster.add_node("n1", a100(0, "n1"))
    cluster.gone("b0")
    cluster.waiting("later")
    for free in ("n0", "n1"):
        cluster.annotate("later", names.BARRED, free)
        assert holds(cluster) == {}


def test_a_plan_names_the_resource_versions_that_it_was_made_from(cluster: FakeCluster) -> None:
    cluster.sync()
    assert holds(cluster)["a"].state == encode_versions(cluster.cache.reached)
    newest = max(int(pod.metadata.resource_version) for pod in cluster.cache.pods.values())
    assert int(cluster.cache.reached["pods"]) >= newest
