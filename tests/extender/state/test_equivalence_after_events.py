"""Each kind of event drops what is cached about the nodes that it is about, and about no others."""

from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest

from cluster import names
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, A6000, a100, a6000, a_booking, a_lease, a_node, a_pod

NODES = ("n0", "n1")
LATE = 999
"""A resourceVersion after all others."""


@pytest.fixture
def cluster() -> Cluster:
    """Two nodes of one A100; filter has been asked about both, so that its verdicts are cached."""
    made = Cluster()
    for node in NODES:
        made.add_node(node, a100(0, node))
    assert fitting(made) == ["n0", "n1"]
    return made


def fitting(cluster: Cluster, pod: Pod | None = None) -> list[str]:
    """Where a pod fits that is like all the others; each has a name of its own."""
    candidate = pod or a_pod(f"pod-{cluster.clock.monotonic()}").asks(1).obj
    found = sorted(cluster.ask(candidate, *NODES).node_names)
    cluster.state.soft.release(candidate.metadata.uid)
    return found


def _a_pod_is_bound(cluster: Cluster) -> None:
    cluster.create(a_pod("q").asks(1).on("n0", {"main": ("GPU-n0-0",)}))


def _a_bind_is_decided(cluster: Cluster) -> None:
    with cluster.state.locked() as ledger:
        ledger.assume(a_pod("q").asks(1).obj, "n0", {"main": ("GPU-n0-0",)})


def _a_hold_is_written(cluster: Cluster) -> None:
    cluster.create(a_pod("q").asks(1).kept("n0", "GPU-n0-0"))


def _a_pod_is_nominated(cluster: Cluster) -> None:
    cluster.create(a_pod("q").asks(1).nominated_to("n0"))


def _the_node_is_gone(cluster: Cluster) -> None:
    cluster.nodes.remove(a_node("n0", version=LATE))


def _the_gpu_becomes_unhealthy(cluster: Cluster) -> None:
    cluster.add_node("n0", a100(0, health="unhealthy"))


def _the_gpu_is_taken_out(cluster: Cluster) -> None:
    cluster.nodes.upsert(a_node("n0", version=LATE))


def _the_agent_stops(cluster: Cluster) -> None:
    cluster.leases.upsert(a_lease("n0", renewed=cluster.clock.now(), version=LATE, stopping=True))


def _the_agents_lease_is_gone(cluster: Cluster) -> None:
    cluster.leases.remove(a_lease("n0", version=LATE))


def _the_node_is_cordoned(cluster: Cluster) -> None:
    raw = msgspec.to_builtins(a_node("n0", a100(0), version=LATE))
    raw["spec"] = {"unschedulable": True}
    cluster.nodes.upsert(msgspec.convert(raw, type(cluster.state.nodes["n0"])))


def _the_kubelet_offers_nothing(cluster: Cluster) -> None:
    node = a_node("n0", a100(0), version=LATE)
    cluster.nodes.upsert(
        msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, allocatable={}))
    )


def _the_kubelet_rejects_a_pod(cluster: Cluster) -> None:
    cluster.create(a_pod("q").asks(1).on("n0", {"main": ("GPU-n0-0",)}))
    cluster.reject("q")


def _the_agent_reports_another_holder(cluster: Cluster) -> None:
    cluster.create(a_pod("q").asks(1).on("n0"))


HAPPENINGS = (
    (_a_pod_is_bound, "in-use"),
    (_a_bind_is_decided, "in-use"),
    (_a_hold_is_written, "held-for-booked-pod"),
    (_a_pod_is_nominated, "nominated"),
    (_the_node_is_gone, "not-published"),
    (_the_gpu_becomes_unhealthy, "unhealthy"),
    (_the_gpu_is_taken_out, "not-published"),
    (_the_agent_stops, "agent-stopping"),
    (_the_agents_lease_is_gone, "agent-unseen"),
    (_the_node_is_cordoned, "cordoned"),
    (_the_kubelet_offers_nothing, "kubelet-short"),
    (_the_kubelet_rejects_a_pod, "kubelet-rejecting"),
    (_the_agent_reports_another_holder, "unaccounted"),
)


@pytest.mark.parametrize(("happen", "code"), HAPPENINGS, ids=[each.__name__ for each, _ in HAPPENINGS])
def test_no_pod_is_sent_to_a_node_by_a_verdict_older_than_the_node_s_event(
    cluster: Cluster, happen: Callable[[Cluster], None], code: str
) -> None:
    happen(cluster)
    answer = cluster.ask(a_pod("next").asks(1).obj, *NODES)
    assert answer.node_names == ["n1"]
    assert answer.failed_and_unresolvable_nodes["n0"].endswith(f" [{code}]")


def _is_deleted(cluster: Cluster) -> None:
    cluster.pods.remove(a_pod("q").at(LATE).obj)


def _has_ended(cluster: Cluster) -> None:
    cluster.pods.upsert(a_pod("q").asks(1).on("n0", {"main": ("GPU-n0-0",)}).ended().at(LATE).obj)


def _is_missing_in_a_list(cluster: Cluster) -> None:
    cluster.state.of(PODS).replace([], str(LATE))


@pytest.mark.parametrize("leave", [_is_deleted, _has_ended, _is_missing_in_a_list])
def test_a_device_is_offered_again_as_soon_as_its_pod_has_left(
    cluster: Cluster, leave: Callable[[Cluster], None]
) -> None:
    _a_pod_is_bound(cluster)
    assert fitting(cluster) == ["n1"]
    leave(cluster)
    assert fitting(cluster) == ["n0", "n1"]


def test_a_decision_that_is_taken_back_is_offered_again(cluster: Cluster) -> None:
    _a_bind_is_decided(cluster)
    assert fitting(cluster) == ["n1"]
    with cluster.state.locked() as ledger:
        ledger.forget_assumed("uid-q")
    assert fitting(cluster) == ["n0", "n1"]


def test_a_hold_that_is_dropped_is_offered_again(cluster: Cluster) -> None:
    _a_hold_is_written(cluster)
    assert fitting(cluster) == ["n1"]
    cluster.change("q", names.HOLD, None)
    assert fitting(cluster) == ["n0", "n1"]


def test_a_node_that_comes_back_is_judged_by_its_devices_then(cluster: Cluster) -> None:
    _the_node_is_gone(cluster)
    assert fitting(cluster) == ["n1"]
    cluster.nodes.upsert(a_node("n0", a6000(0), version=LATE + 1, uid="uid-of-another"))
    assert fitting(cluster) == ["n0", "n1"]
    assert fitting(cluster, a_pod("a").asks(1).wants(A100).obj) == ["n1"]
    assert fitting(cluster, a_pod("b").asks(1).wants(A6000).obj) == ["n0"]


def test_a_node_that_joins_is_offered_to_requests_that_were_judged_before(cluster: Cluster) -> None:
    cluster.add_node("n2", a100(0, "n2"))
    pod = a_pod("next").asks(1).obj
    assert sorted(cluster.ask(pod, *NODES, "n2").node_names) == ["n0", "n1", "n2"]


def test_an_older_event_of_a_node_changes_no_verdict(cluster: Cluster) -> None:
    cluster.nodes.upsert(a_node("n0", version=LATE))
    assert fitting(cluster) == ["n1"]
    cluster.nodes.upsert(a_node("n0", a100(0), version=LATE - 1))
    assert fitting(cluster) == ["n1"]


def test_the_request_of_a_pod_changes_at_the_start_and_the_end_of_its_booking(cluster: Cluster) -> None:
    cluster.add_node("n1", a6000(0, "n1"))
    pod = cluster.create(a_pod("hers").asks(1).of("alice"))
    now = cluster.clock.now()
    cluster.bookings.upsert(a_booking(start=now + timedelta(seconds=10), end=now + timedelta(seconds=20)))
    found = []
    for _ in range(3):
        found.append(fitting(cluster, pod))
        cluster.clock.advance(10)
    assert found == [["n0", "n1"], ["n0"], ["n0", "n1"]]


def test_an_event_of_one_node_keeps_the_verdicts_on_the_others(cluster: Cluster) -> None:
    index = cluster.state.index
    _, before = index.changed(-1)
    _a_pod_is_bound(cluster)
    assert index.changed(before)[0] == {"n0"}
    assert index.numbered_since(before) == {"n0": index.number}


def test_an_event_of_a_pod_without_gpus_drops_nothing(cluster: Cluster) -> None:
    index = cluster.state.index
    _, before = index.changed(-1)
    cluster.create(a_pod("web").on("n0"))
    cluster.renew("n0")
    assert index.changed(before) == (frozenset(), before)


def test_requests_for_different_models_get_their_own_reasons(cluster: Cluster) -> None:
    cluster.add_node("n0", a100(0), a6000(1))
    _a_pod_is_bound(cluster)
    reasons = {
        model: cluster.ask(a_pod("x").asks(1).wants(model).obj, "n0").failed_and_unresolvable_nodes
        for model in (A100, A6000, "NVIDIA-H200")
    }
    assert reasons == {
        A100: {"n0": f"node(s) had too few free GPUs of model {A100} [in-use]"},
        A6000: {},
        "NVIDIA-H200": {"n0": "node(s) had no GPU of model NVIDIA-H200 [no-such-gpu]"},
    }
