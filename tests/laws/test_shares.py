"""L1 with shares: several pods on one GPU, in one mode, never more of it than it offers."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from cluster import names
from cluster.kube.resources import LEASES, PODS
from cluster.objects.claims import ClaimedDevice, PodClaims
from cluster.objects.device_usage import NodeUsage, OverUser, encode_use
from cluster.objects.pods import Pod
from deviceplugin.allocation.pod_devices import PodDevices
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH, PodBuilder, a_node, a_pod, shared_gpu
from tests.laws.breaking import breaks
from tests.laws.shares import may_share
from tests.laws.state import State
from tests.laws.watcher import LawWatcher

HALF = a_pod("half").shares(memory=40_000, cores=50)
G0 = "GPU-n0-0"


@pytest.fixture
def cluster() -> FakeCluster:
    """One GPU with three slots."""
    cluster = FakeCluster()
    cluster.add_node("n0", shared_gpu(0, slots=3))
    return cluster


def bind(cluster: FakeCluster, pod: PodBuilder, name: str) -> None:
    """A pod like this one is created, bound, and runs."""
    given = {each["name"]: (G0,) for each in (*pod.inits, *pod.apps)}
    cluster.create(pod.called(name))
    cluster.kube.put(PODS, pod.called(name).on("n0", given).ended("Running").raw)


def test_shares_that_fit_together_keep_it(cluster: FakeCluster, laws: LawWatcher) -> None:
    bind(cluster, HALF, "a")
    bind(cluster, HALF, "b")
    laws.kubelet(
        "n0", PodDevices({(f"uid-{n}", "main"): frozenset({f"{G0}::{i}"}) for i, n in enumerate("ab")})
    )
    laws.finish()


@pytest.mark.parametrize(
    "third",
    [
        a_pod().shares(memory=1, cores=1),
        a_pod().shares(memory=1),
        a_pod().asks(1),
        a_pod().shares(percentage=1),
    ],
    ids=["compute", "memory", "whole", "percent"],
)
def test_a_further_pod_than_the_gpu_has_room_for_breaks_it(
    cluster: FakeCluster, laws: LawWatcher, third: PodBuilder
) -> None:
    bind(cluster, HALF, "a")
    bind(cluster, HALF, "b")
    with breaks(laws, "L1", "default/c is given GPU-n0-0"):
        bind(cluster, third, "c")


def test_a_slot_more_than_there_are_breaks_it(cluster: FakeCluster, laws: LawWatcher) -> None:
    small = a_pod().shares(memory=1)
    bind(cluster, small, "a")
    bind(cluster, small.shares(container="side", memory=1), "b")
    laws.check()
    with breaks(laws, "L1", "default/c is given GPU-n0-0"):
        bind(cluster, small, "c")


def test_a_share_in_another_mode_breaks_it(cluster: FakeCluster, laws: LawWatcher) -> None:
    small = a_pod().shares(memory=1)
    bind(cluster, small, "a")
    with breaks(laws, "L1", "default/b is given GPU-n0-0"):
        bind(cluster, small.with_annotation(names.SHARING_MODE, "mps"), "b")


def test_slots_in_the_checkpoint_are_of_one_gpu(cluster: FakeCluster, laws: LawWatcher) -> None:
    for name, uuid in (("a", G0), ("b", "GPU-n0-1")):
        pod = a_pod(name).shares(memory=60_000)
        cluster.create(pod)
        cluster.kube.put(PODS, pod.on("n0", {"main": (uuid,)}).ended("Running").raw)
    both = {("uid-a", "main"): frozenset({f"{G0}::0"}), ("uid-b", "main"): frozenset({f"{G0}::1"})}
    laws.check()
    with breaks(laws, "L1", "GPU-n0-0 is in use by default/a and default/b at once"):
        laws.kubelet("n0", PodDevices(both))


def _by_claim(name: str, memory: int) -> Pod:
    held = (ClaimedDevice(claim=name, node="n0", device="gpu-0", memory=memory),)
    return replace(a_pod(name).on("n0").obj, claims=PodClaims(count=1, uids=(name,), held=held))


@pytest.mark.parametrize("given_now", ["gpu-0", None], ids=["by claims", "by a plugin"])
def test_shares_by_claims_and_by_limits_are_added_up(given_now: str | None) -> None:
    gpu = replace(shared_gpu(0, memory=80_000), claimed_as=given_now)
    state = State(nodes={"n0": a_node("n0", gpu)})

    def may(*pods: Pod) -> bool:
        return may_share(G0, pods, state, "gpu-0")

    def by_limits(memory: int) -> Pod:
        return a_pod("limits").shares(memory=memory).on("n0", {"main": (G0,)}).obj

    assert may(_by_claim("a", 50_000), _by_claim("b", 30_000))
    assert may(_by_claim("a", 50_000), _by_claim("a", 50_000))
    assert not may(_by_claim("a", 50_000), _by_claim("b", 30_001))
    assert may(_by_claim("a", 50_000), by_limits(30_000))
    assert not may(_by_claim("a", 50_000), by_limits(30_001))
    assert not may(_by_claim("a", 0), by_limits(1))


def test_l3_a_pod_that_uses_too_much_by_the_word_of_its_nodes_agent_may_leave_and_no_other(
    cluster: FakeCluster, laws: LawWatcher, evict: Callable[[str], None]
) -> None:
    for name in ("a", "b"):
        bind(cluster, a_pod().shares(memory=1), name)
    use = NodeUsage(at=EPOCH, over_users=(OverUser(device=G0, uid="uid-a", used=2, limit=1),))
    report = {"metadata": {"annotations": {names.USE: encode_use(use)}}}
    cluster.kube.patch(LEASES, names.node_lease("n0"), report, namespace=names.NAMESPACE)
    evict("a")
    laws.check()
    with breaks(laws, "L3", "default/b is evicted"):
        evict("b")
