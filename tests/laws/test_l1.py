"""L1: a device is held by at most one pod at a time."""

import pytest
from msgspec.structs import replace

from cluster import names
from cluster.kube.resources import NODES, PODS
from cluster.objects.assignment import encode_drift
from cluster.objects.claims import ClaimedDevice, PodClaims
from cluster.objects.pods import Pod
from deviceplugin.allocation.pod_devices import PodDevices
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import A100, a100, a_node, a_pod
from tests.laws.breaking import breaks
from tests.laws.broken import LawBrokenError
from tests.laws.shares import may_share
from tests.laws.state import State
from tests.laws.watcher import LawWatcher


def run(cluster: FakeCluster, name: str) -> None:
    """The kubelet says that it runs."""
    cluster.kube.patch(
        PODS, name, {"status": {"phase": "Running"}}, namespace="default", subresource="status"
    )


def drift(cluster: FakeCluster, **devices: str) -> None:
    """The agent says that pods have other devices: pod=UUID."""
    annotation = encode_drift({f"uid-{name}": {"main": (uuid,)} for name, uuid in devices.items()})
    cluster.kube.patch(NODES, "n0", {"metadata": {"annotations": {names.DRIFT: annotation}}})


def test_a_binding_that_names_a_held_device_breaks_it(cluster: FakeCluster, laws: LawWatcher) -> None:
    cluster.opportunist("b", 0)
    cluster.waiting("a")
    with breaks(laws, "L1", "default/a is given GPU-n0-0, which default/b holds"):
        cluster.bind("a", 0)


def test_a_device_of_a_pod_that_has_not_ended_yet_is_still_held(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    cluster.opportunist("b", 0)
    cluster.waiting("a")
    cluster.kube.delete(PODS, "b", namespace="default")
    with breaks(laws, "L1", "which default/b holds"):
        cluster.bind("a", 0)


def test_a_device_goes_from_one_pod_to_the_next(cluster: FakeCluster, laws: LawWatcher) -> None:
    cluster.opportunist("b", 0)
    cluster.waiting("a")
    cluster.gone("b")
    cluster.bind("a", 0)
    run(cluster, "a")
    laws.finish()


def test_a_device_of_a_pod_that_has_ended_is_free(cluster: FakeCluster, laws: LawWatcher) -> None:
    pod = cluster.opportunist("b", 0)
    cluster.kube.patch(
        PODS, "b", {"status": {"phase": "Succeeded"}}, namespace="default", subresource="status"
    )
    cluster.waiting("a")
    cluster.bind("a", 0)
    assert pod.status.phase == "Running"
    laws.finish()


def test_devices_reported_by_the_agent_win_over_assigned_ones(cluster: FakeCluster, laws: LawWatcher) -> None:
    cluster.opportunist("b", 0)
    drift(cluster, b="GPU-n0-1")
    cluster.waiting("a")
    cluster.waiting("c")
    cluster.bind("a", 0)
    laws.check()
    with breaks(laws, "L1", "default/c is given GPU-n0-1, which default/b holds"):
        cluster.bind("c", 1)


def test_two_bound_pods_may_name_one_device_while_one_of_them_runs(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    cluster.opportunist("b", 0)
    cluster.waiting("a")
    cluster.bind("a", 1)
    drift(cluster, b="GPU-n0-1")
    run(cluster, "b")
    laws.check()
    with breaks(laws, "L1", "GPU-n0-1 is in use by default/a and default/b at once"):
        run(cluster, "a")


def test_the_kubelets_checkpoint_shows_which_pod_really_has_a_device(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    for name, index in (("a", 0), ("b", 1)):
        cluster.waiting(name)
        cluster.bind(name, index)
        run(cluster, name)
    apart = {("uid-a", "main"): frozenset({"GPU-n0-2"}), ("uid-b", "main"): frozenset({"GPU-n0-3"})}
    laws.kubelet("n0", PodDevices(apart))
    laws.check()
    with breaks(laws, "L1", "GPU-n0-2 is in use by default/a and default/b at once"):
        laws.kubelet("n0", PodDevices({**apart, ("uid-b", "main"): frozenset({"GPU-n0-2"})}))


def test_two_pods_may_have_turns_on_one_gpu_and_none_the_same_turn(cluster: FakeCluster) -> None:
    laws = LawWatcher(cluster.clock)
    turns = [a100(n, uuid=f"n0-0.r{n}", model=f"{A100}{names.SHARED_MODEL}", numbered=True) for n in (0, 1)]
    laws.know("nodes", [a_node("n0", *turns)])
    pods = [
        a_pod(name).asks(1).on("n0", {"main": (f"n0-0.r{n}",)}).ended("Running")
        for n, name in enumerate("ab")
    ]
    laws.know("pods", [pod.obj for pod in pods])
    laws.kubelet("n0", PodDevices({(f"uid-{name}", "main"): frozenset({f"GPU-0::{name}"}) for name in "ab"}))
    laws.check()
    with pytest.raises(LawBrokenError, match="GPU-0::a is in use by default/a and default/b at once"):
        laws.kubelet("n0", PodDevices({(f"uid-{name}", "main"): frozenset({"GPU-0::a"}) for name in "ab"}))


def test_a_pod_that_is_held_back_may_be_in_the_checkpoint(cluster: FakeCluster, laws: LawWatcher) -> None:
    for name, index in (("a", 0), ("b", 1)):
        cluster.waiting(name)
        cluster.bind(name, index)
    run(cluster, "a")
    both = {(f"uid-{name}", "main"): frozenset({"GPU-n0-0"}) for name in "ab"}
    laws.kubelet("n0", PodDevices(both))
    laws.finish()


def test_a_kubelet_is_given_time_to_report_that_a_pod_has_ended(cluster: FakeCluster) -> None:
    slow = LawWatcher(cluster.clock, settles=5.0)
    for name in "ab":
        pod = a_pod(name).asks(1).on("n0", {"main": ("GPU-n0-0",)}).ended("Running").obj
        slow.know("pods", [*slow.state.pods.values(), pod])
    both = PodDevices({(f"uid-{name}", "main"): frozenset({"GPU-n0-0"}) for name in "ab"})
    slow.kubelet("n0", both)
    cluster.clock.advance(4.9)
    slow.check()
    cluster.clock.advance(0.2)
    with pytest.raises(LawBrokenError, match="in use by default/a and default/b"):
        slow.check()


def test_pods_of_one_claim_are_one_holder() -> None:
    node = a_node("n0", replace(a100(0), claimed_as="gpu-0"))

    def of(claim: str) -> Pod:
        held = (ClaimedDevice(claim=claim, node="n0", device="gpu-0"),)
        return replace(a_pod().on("n0").obj, claims=PodClaims(count=1, uids=(claim,), held=held))

    state = State(nodes={"n0": node})
    assert may_share("GPU-n0-0", [of("one"), of("one")], state)
    assert not may_share("GPU-n0-0", [of("one"), of("other")], state)
