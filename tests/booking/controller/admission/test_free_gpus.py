"""Is a GPU free for a new pod, and is that known."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from booking.controller.admission.cluster_view import CachedClusterView
from booking.controller.admission.free_gpus import FreeGpus
from cluster import names
from cluster.cache import ClusterCache
from cluster.decide.ledger.liveness import UNRESPONSIVE_AFTER
from cluster.fake.clock import FakeClock
from cluster.kube.resources import LEASES, NODES, PODS
from cluster.objects.hold import Hold, encode_hold
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from tests.fakes.objects import A100, A6000, EPOCH, PodBuilder, a100, a6000, a_lease, a_node, a_pod

ASKS = a_pod("new").asks(1).obj


class Cluster:
    """A cluster, as the webhook sees it."""

    def __init__(self, *nodes: Node) -> None:
        self.clock = FakeClock(EPOCH)
        self.cache = ClusterCache(self.clock)
        for node in nodes:
            self.cache.of(NODES).upsert(node)
            self.cache.of(LEASES).upsert(a_lease(node.metadata.name, renewed=EPOCH))

    def room(self, pod: Pod = ASKS) -> FreeGpus:
        return CachedClusterView(self.cache).room(pod)


def with_status(node: Node, **status: object) -> Node:
    return msgspec.convert({**msgspec.to_builtins(node), "status": status}, Node)


NOT_READY = [{"type": "Ready", "status": "False"}]


class TestFree:
    def test_a_gpu_is_free_where_a_node_has_a_free_one(self) -> None:
        assert Cluster(a_node("n0"), a_node("n1", a100(0, "n1"))).room() == "free"

    def test_one_gpu_that_is_known_to_be_free_is_enough(self) -> None:
        cluster = Cluster(a_node("n0", a100(0)), a_node("n1", a100(0, "n1")))
        cluster.cache.of(LEASES).remove(a_lease("n0"))
        assert cluster.room() == "free"


class TestFull:
    def test_no_gpu_is_free_where_all_are_held(self) -> None:
        cluster = Cluster(a_node("n0", a100(0)))
        cluster.cache.of(PODS).upsert(a_pod("a").asks(1).on("n0", {"main": ("GPU-n0-0",)}).obj)
        assert cluster.room() == "full"

    def test_no_gpu_is_free_where_all_are_unhealthy(self) -> None:
        assert Cluster(a_node("n0", a100(0, health="unhealthy"))).room() == "full"

    def test_no_gpu_is_free_where_no_node_has_enough_or_the_model(self) -> None:
        cluster = Cluster(a_node("n0", a100(0), a6000(1)))
        assert cluster.room(a_pod().asks(3).obj) == "full"
        assert cluster.room(a_pod().asks(2).wants(A6000).obj) == "full"
        assert cluster.room(a_pod().asks(2).wants(A6000, A100).obj) == "free"

    def test_no_gpu_is_free_where_the_remaining_ones_are_held_for_a_booked_pod(self) -> None:
        cluster = Cluster(a_node("n0", a100(0)))
        hold = encode_hold(Hold(node="n0", devices=("GPU-n0-0",)))
        cluster.cache.of(PODS).upsert(a_pod("booked").asks(1).with_annotation(names.HOLD, hold).obj)
        assert cluster.room() == "full"

    def test_no_gpu_is_free_on_an_unsuitable_node_even_when_little_is_known_of_it(self) -> None:
        down = with_status(a_node("n0", a100(0)), conditions=NOT_READY)
        cluster = Cluster(down, a_node("n1", a100(0, "n1")))
        cluster.cache.of(LEASES).remove(a_lease("n0"))
        cluster.cache.of(PODS).upsert(a_pod("a").asks(1).on("n1", {"main": ("GPU-n1-0",)}).obj)
        assert cluster.room() == "full"


class TestUnknown:
    def test_free_gpus_are_unknown_where_no_node_has_published(self) -> None:
        assert Cluster().room() == "unknown"
        assert Cluster(a_node("n0")).room() == "unknown"

    def test_free_gpus_are_unknown_where_a_node_with_gpus_has_not_published(self) -> None:
        has = with_status(a_node("n0"), capacity={names.GPU_RESOURCE: "1"})
        held = a_node("n1", a100(0, "n1", health="unhealthy"))
        assert Cluster(has, held).room() == "unknown"

    def test_free_gpus_are_unknown_where_an_agent_has_not_reported_or_is_unresponsive(self) -> None:
        cluster = Cluster(a_node("n0", a100(0)))
        cluster.clock.advance(UNRESPONSIVE_AFTER + 1)
        assert cluster.room() == "unknown"
        cluster.cache.of(LEASES).remove(a_lease("n0"))
        assert cluster.room() == "unknown"

    def test_free_gpus_are_unknown_where_an_agent_is_stopping(self) -> None:
        cluster = Cluster(a_node("n0", a100(0)))
        cluster.cache.of(LEASES).upsert(a_lease("n0", version=2, stopping=True))
        assert cluster.room() == "unknown"

    def test_free_gpus_are_unknown_where_an_agents_annotations_are_unreadable(self) -> None:
        cluster = Cluster(a_node("n0", a100(0), drift="{"))
        assert cluster.room() == "unknown"

    def test_free_gpus_are_unknown_where_the_devices_of_a_pod_are_unknown(self) -> None:
        cluster = Cluster(a_node("n0", a100(0)))
        cluster.cache.of(PODS).upsert(a_pod("a").asks(1).on("n0").obj)
        assert cluster.room() == "unknown"

    def test_free_gpus_are_unknown_where_the_pod_cannot_be_read(self) -> None:
        wrong = {"spec": {"containers": [{"resources": {"limits": {names.GPU_RESOURCE: "half"}}}]}}
        assert Cluster(a_node("n0", a100(0))).room(msgspec.convert(wrong, Pod)) == "unknown"

    @given(
        st.sampled_from(["free", "held", "unresponsive"]), st.sampled_from(["held", "unresponsive", "free"])
    )
    def test_l6_full_is_reported_only_where_every_node_is_known_to_be_full(
        self, first: str, second: str
    ) -> None:
        cluster = Cluster(a_node("n0", a100(0)), a_node("n1", a100(0, "n1")))
        for name, how in (("n0", first), ("n1", second)):
            if how == "held":
                cluster.cache.of(PODS).upsert(a_pod(name).asks(1).on(name, {"main": (f"GPU-{name}-0",)}).obj)
            if how == "unresponsive":
                cluster.cache.of(LEASES).remove(a_lease(name))
        both = {first, second}
        assert cluster.room() == (
            "free" if "free" in both else "unknown" if "unresponsive" in both else "full"
        )


class TestSpokenFor:
    @staticmethod
    def cluster(*waiting: PodBuilder, free: int = 2) -> Cluster:
        cluster = Cluster(a_node("n0", *(a100(index) for index in range(free)), a6000(7)))
        for pod in waiting:
            cluster.cache.of(PODS).upsert(pod.obj)
        return cluster

    def is_spoken_for(self, cluster: Cluster, pod: PodBuilder) -> bool:
        return CachedClusterView(cluster.cache).is_spoken_for(pod.obj)

    def test_a_free_gpu_is_spoken_for_only_when_waiting_pods_need_all_of_them(self) -> None:
        new, first = a_pod("new").asks(1).wants(A100), a_pod("first").asks(1).wants(A100)
        assert not self.is_spoken_for(self.cluster(), new)
        assert not self.is_spoken_for(self.cluster(first), new)
        assert self.is_spoken_for(self.cluster(first, a_pod("second").asks(1).wants(A100).behind()), new)
        assert self.is_spoken_for(self.cluster(a_pod("large").asks(2).wants(A100)), new)

    def test_a_pod_that_requests_another_model_does_not_count(self) -> None:
        others = [a_pod(f"p{number}").asks(1).wants(A6000) for number in range(3)]
        assert not self.is_spoken_for(self.cluster(*others), a_pod("new").asks(1).wants(A100))

    def test_a_pod_that_is_bound_terminating_or_behind_another_gate_does_not_count(self) -> None:
        others = (
            a_pod("bound").asks(1).wants(A100).on("n0", {"main": ("GPU-n0-0",)}),
            a_pod("ends").asks(1).wants(A100).terminating(),
            a_pod("gated").asks(1).wants(A100).behind("kueue.x-k8s.io/admission"),
        )
        assert not self.is_spoken_for(self.cluster(*others), a_pod("new").asks(1).wants(A100))
