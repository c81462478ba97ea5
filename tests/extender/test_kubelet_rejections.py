"""A kubelet that rejects a pod: the node is barred, an Event says where and why, and it is counted."""

import pytest
from prometheus_client import CollectorRegistry

from cluster import event_reasons
from cluster.objects.nodes import Node
from extender.kubelet_rejections import KubeletRejections
from extender.metrics import Metrics
from tests.extender.cluster import Cluster
from tests.fakes.objects import a_pod


class NodeEvents:
    """Events on Nodes."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def __call__(self, node: Node, reason: str, message: str) -> None:
        self.events.append((node.metadata.name, reason, message))


class Watched:
    """A cluster, and what is reported and counted."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.add_node("n0")
        self.reported, self.registry, self.leads = NodeEvents(), CollectorRegistry(), True
        metrics = Metrics(self.registry)
        self.rejections = KubeletRejections(
            self.cluster.state, self.cluster.clock, self.reported, metrics, leads=lambda: self.leads
        )

    def reject(self, name: str) -> None:
        """A pod is bound, and its kubelet rejects it."""
        pod = self.cluster.create(a_pod(name).asks(1))
        self.cluster.ask(pod)
        assert self.cluster.bind_to(pod) == ""
        self.cluster.reject(name)

    @property
    def counted(self) -> float | None:
        return self.registry.get_sample_value("gpu_booking_extender_kubelet_rejections_total")


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_rejection_is_reported_once_on_the_node_and_counted(watched: Watched) -> None:
    watched.reject("p")
    assert watched.rejections.rejecting() == 1
    for _ in range(2):
        watched.rejections.reconcile()
    message = (
        "The kubelet rejected pod default/p, which was bound here with GPUs:"
        " Pod was rejected: no healthy devices. No GPU pod is bound here for 1 s,"
        " nor before the node agent has renewed its Lease."
    )
    assert watched.reported.events == [("n0", event_reasons.KUBELET_REFUSES, message)]
    assert watched.counted == 1


def test_the_next_pod_is_refused_with_the_reason_and_is_bound_after_a_renewal(watched: Watched) -> None:
    watched.reject("p")
    pod = watched.cluster.create(a_pod("q").asks(1))
    reasons = watched.cluster.ask(pod).failed_and_unresolvable_nodes
    assert reasons == {"n0": "node(s) had a kubelet that has rejected a pod [kubelet-rejecting]"}
    assert "has rejected a pod" in watched.cluster.bind_to(pod)
    watched.cluster.clock.advance(10)
    assert watched.cluster.ask(pod).node_names == []
    watched.cluster.renew()
    assert watched.cluster.ask(pod).node_names == ["n0"]
    assert watched.cluster.bind_to(pod) == ""
    assert watched.rejections.rejecting() == 0


def test_the_second_pause_is_longer_and_ends_by_itself(watched: Watched) -> None:
    watched.reject("p")
    watched.cluster.clock.advance(10)
    watched.cluster.renew()
    watched.reject("q")
    watched.cluster.clock.advance(1.5)
    watched.cluster.renew()
    pod = watched.cluster.create(a_pod("r").asks(1))
    assert watched.cluster.ask(pod).node_names == []
    watched.cluster.clock.advance(0.6)
    assert watched.cluster.ask(pod).node_names == ["n0"]


def test_only_the_leader_of_several_extenders_reports(watched: Watched) -> None:
    watched.leads = False
    watched.reject("p")
    watched.rejections.reconcile()
    assert watched.reported.events == []
    assert watched.counted == 1
