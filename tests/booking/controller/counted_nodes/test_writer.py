"""The leader keeps the inventories of nodes without an agent; kubelets' Leases say that they live."""

from datetime import timedelta
from typing import Any

import msgspec

from booking.controller.counted_nodes.writer import CountedNodes
from cluster import names
from cluster.cache import ClusterCache
from cluster.decide.ledger.liveness import UNRESPONSIVE_AFTER
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.resources import NODES
from cluster.objects.inventory import inventory_of
from cluster.objects.nodes import Lease

H200 = "NVIDIA-H200"


def a_counted_node() -> dict[str, Any]:
    amounts = {names.GPU_RESOURCE: "2"}
    return {
        "metadata": {
            "name": "n0",
            "uid": "uid-n0",
            "labels": {f"{names.GPU_RESOURCE}.product": "NVIDIA-H200"},
        },
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def a_kubelet_lease(clock: FakeClock, version: int) -> Lease:
    meta = {
        "name": "n0",
        "namespace": names.KUBELET_LEASES,
        "uid": "lease",
        "resourceVersion": str(version),
    }
    return msgspec.convert({"metadata": meta, "spec": {"renewTime": clock.now()}}, Lease)


def test_a_node_without_an_agent_is_counted_by_the_leader_and_lives_by_its_kubelet_s_lease() -> None:
    clock = FakeClock()
    kube, leads = FakeKube(clock), [False]
    cache = ClusterCache(clock, home=names.NAMESPACE)
    writer = CountedNodes(kube, cache, clock, without_agent="all", may_act=lambda: leads[0])
    kube.put(NODES, a_counted_node())
    cache.of(NODES).upsert(kube.get(NODES, "n0"))
    writer.once()
    assert inventory_of(kube.get(NODES, "n0")) == ()
    leads[0] = True
    writer.once()
    assert [device.model for device in inventory_of(kube.get(NODES, "n0"))] == [H200] * 2
    version = kube.get(NODES, "n0").metadata.resource_version
    writer.once()
    assert kube.get(NODES, "n0").metadata.resource_version == version

    assert cache.node_snapshots()["n0"][1] == "unseen"
    cache.kubelet_leases.upsert(a_kubelet_lease(clock, 1))
    assert cache.node_snapshots()["n0"][1] == "alive"
    clock.advance(UNRESPONSIVE_AFTER)
    assert cache.node_snapshots()["n0"][1] == "unresponsive"
    assert "n0" in cache.node_snapshots().quiet(timedelta(seconds=UNRESPONSIVE_AFTER).total_seconds())


def test_a_kubelet_s_lease_says_nothing_of_an_agent() -> None:
    clock = FakeClock()
    cache = ClusterCache(clock, home=names.NAMESPACE)
    cache.kubelet_leases.upsert(a_kubelet_lease(clock, 1))
    cache.of(NODES).upsert(msgspec.convert({"metadata": {"name": "n0"}}, NODES.type))
    assert cache.node_snapshots()["n0"][1] == "unseen"
