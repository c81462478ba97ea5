"""Each kind of event drops what is cached about the nodes that it is about, and about no others."""

from collections.abc import Callable

import msgspec
import pytest

from cluster.objects.pods import Pod
from tests.extender.cluster import Cluster
from tests.fakes.objects import a100, a_lease, a_node, a_pod

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
