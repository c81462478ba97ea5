"""A small cluster with pods that hold its GPUs, and the state that decides which may be evicted."""

from datetime import datetime, timedelta

import msgspec

from booking.eviction.settings import EvictionSettings
from booking.server.cluster_status import StatusSnapshot, take
from cluster import names
from cluster.cache import ClusterCache
from cluster.fake.clock import FakeClock
from cluster.kube.resources import LEASES, NODES, PODS
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from tests.fakes.objects import EPOCH, PodBuilder, a100, a6000, a_lease, a_node, a_pod

HOUR = timedelta(hours=1)


class FakeCluster:
    """Two nodes of two A100 and one A6000 each, or others."""

    def __init__(self, **nodes: tuple[Device, ...]) -> None:
        self.clock = FakeClock(EPOCH)
        self.cache = ClusterCache(self.clock)
        there = nodes or {name: (a100(0, name), a100(1, name), a6000(2, name)) for name in ("n0", "n1")}
        self.cache.of(NODES).replace([a_node(name, *devices) for name, devices in there.items()])
        for name in there:
            self.cache.of(LEASES).upsert(a_lease(name, renewed=self.clock.now()))

    def run(self, name: str, node: str, *indices: int, worked: int = 1, evictions: int = 0) -> None:
        """A pod that has worked for so many hours."""
        pod = holding(name, node, *indices).with_annotation(names.EVICTIONS, str(evictions))
        self.cache.of(PODS).upsert(started(pod, self.clock.now() - worked * HOUR))

    def now(self, terms: EvictionSettings | None = None) -> StatusSnapshot:
        """This instant."""
        return take(self.cache, self.clock, terms or EvictionSettings())


def holding(name: str, node: str, *indices: int) -> PodBuilder:
    """One of alice's pods with these devices of a node."""
    devices = tuple(f"GPU-{node}-{index}" for index in indices)
    return a_pod(name).of("alice").asks(len(devices)).on(node, {"main": devices})


def started(pod: PodBuilder, at: datetime) -> Pod:
    """The pod, which its kubelet took on at this instant."""
    made = pod.obj
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, start_time=at))
