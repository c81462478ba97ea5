"""Which pods fit on free devices, and when it is certain that one does not (law L3), against brute force."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from booking.controller.reclaimer.planning.free_placement import FreePlacement
from booking.controller.reclaimer.planning.node_candidates import NodeCandidates, PlanningInputs
from booking.controller.reclaimer.planning.waiting_pod import WaitingPod, waiting_pod
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot, take
from booking.eviction.holder_cache import HolderCache
from cluster import names
from cluster.cache import ClusterCache
from cluster.decide.scheduler_filters import checker_for
from cluster.fake.clock import FakeClock
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS
from tests.fakes.objects import EPOCH, a100, a_booking, a_lease, a_node, a_pod

Waiting = tuple[int, frozenset[str]]
"""Devices that a pod needs, and the nodes that are open to it."""


def cluster(free: list[int], waiting: list[Waiting]) -> ReclaimerSnapshot:
    """Nodes with so many free devices, and alice's booked pods, in their order."""
    clock = FakeClock(EPOCH)
    cache = ClusterCache(clock)
    for index, devices in enumerate(free):
        name = f"n{index}"
        cache.of(NODES).upsert(a_node(name, *(a100(number, name) for number in range(devices))))
        cache.of(LEASES).upsert(a_lease(name))
    cache.of(BOOKINGS).upsert(a_booking("b-1", count=99))
    for index, (need, nodes) in enumerate(waiting):
        closed = {f"n{number}" for number in range(len(free))} - nodes
        pod = a_pod(f"p{index}").of("alice").asks(need).created(EPOCH)
        cache.of(PODS).upsert(pod.with_annotation(names.BARRED, ",".join(closed)).obj)
    return take(cache, clock)


def could_all_be_served(free: list[int], waiting: list[Waiting]) -> bool:
    """Whether the pods can be put on nodes so that all have their devices: by trying out every way."""
    for places in product(*(nodes for _, nodes in waiting)):
        used = {f"n{number}": 0 for number in range(len(free))}
        for (need, _), place in zip(waiting, places, strict=True):
            used[place] += need
        if all(used[f"n{number}"] <= devices for number, devices in enumerate(free)):
            return True
    return False


def asks(snapshot: ReclaimerSnapshot) -> list[WaitingPod]:
    pods = sorted(snapshot.pods.values(), key=lambda pod: pod.metadata.name)
    return [waiting_pod(pod, snapshot, checker_for(pod, snapshot.cluster_objects)) for pod in pods]


@settings(max_examples=200)
@given(
    st.lists(st.integers(1, 3), min_size=3, max_size=3),
    st.lists(
        st.tuples(st.integers(1, 2), st.frozensets(st.sampled_from(("n0", "n1", "n2")), min_size=1)),
        min_size=1,
        max_size=5,
    ),
)
def test_l3_a_rejected_pod_could_not_be_placed_together_with_the_pods_before_it(
    free: list[int], waiting: list[Waiting]
) -> None:
    snapshot = cluster(free, waiting)
    placement = FreePlacement(NodeCandidates(snapshot, PlanningInputs(), HolderCache()))
    before: list[Waiting] = []
    for one, wanted in zip(asks(snapshot), waiting, strict=True):
        verdict, node, _ = placement.take(one, one.checker)
        possible = could_all_be_served(free, [*before, wanted])
        assert (verdict == "placed") == (node is not None)
        if verdict == "full":
            assert not possible, "a pod would be evicted for it without need"
            continue
        before.append(wanted)
        if all(need == 1 and nodes == wanted[1] for need, nodes in before):
            assert possible, "it waits for devices that cannot become free"


def test_a_pod_placed_where_others_must_go_keeps_them_waiting_only_until_it_is_bound() -> None:
    anywhere, there = (1, frozenset({"n0", "n1", "n2"})), (1, frozenset({"n0"}))
    waiting = [anywhere, there, there]
    placement = FreePlacement(NodeCandidates(cluster([1, 1, 1], waiting), PlanningInputs(), HolderCache()))
    taken = [placement.take(one, one.checker)[:2] for one in asks(cluster([1, 1, 1], waiting))]
    assert taken == [("placed", "n0"), ("maybe", None), ("maybe", None)]
    elsewhere = cluster([1, 0, 1], waiting[1:])  # the first was bound to n1
    placement = FreePlacement(NodeCandidates(elsewhere, PlanningInputs(), HolderCache()))
    assert [placement.take(one, one.checker)[0] for one in asks(elsewhere)] == ["placed", "full"]
