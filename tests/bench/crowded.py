"""The largest cluster that planning is measured on: every GPU of every node is held by a pod of its own."""

from datetime import timedelta
from typing import Any

import msgspec

from cluster import names
from cluster.cache import ClusterCache
from cluster.fake.clock import FakeClock
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS
from cluster.objects.inventory import encode_inventory
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from tests.bench.measured_cluster import GPUS, bound_pod, node_names
from tests.fakes.objects import A100, EPOCH, a100, a_booking, a_lease, a_node, a_pod, shared_gpu

BOOKED = "alice"
_SIZE = {"cpu": "64", "memory": "512Gi", "pods": "110", names.GPU_RESOURCE: str(GPUS)}


def text(what: dict[str, Any]) -> bytes:
    """An object as it comes from the API server."""
    return msgspec.json.encode(what)


def a_node_text(name: str) -> bytes:
    """A node with eight A100s."""
    inventory = encode_inventory(tuple(a100(index, name) for index in range(GPUS)))
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    meta = {"name": name, "uid": name, "labels": labels, "annotations": {names.INVENTORY: inventory}}
    return text({"metadata": {**meta, "resourceVersion": "1"}, "status": {"allocatable": _SIZE}})


def a_pod_text(number: int) -> bytes:
    """One of bob's pods, which has a GPU and started within the last day."""
    raw = bound_pod(number).of("bob").raw
    started = EPOCH - timedelta(seconds=60 + (number * 7919) % 86_400)
    raw["status"] = {"phase": "Running", "startTime": started}
    container = raw["spec"]["containers"][0]
    container["resources"]["requests"] = {**container["resources"]["limits"], "cpu": "4", "memory": "32Gi"}
    return text(raw)


def a_crowd(nodes: int) -> tuple[ClusterCache, FakeClock]:
    """A cache of the cluster as the planner needs it, with alice's booking and none of her pods."""
    clock = FakeClock(EPOCH)
    cache = ClusterCache(clock)
    cache.keep_scheduling_objects()
    for name in node_names(nodes):
        cache.of(NODES).upsert(msgspec.json.decode(a_node_text(name), type=Node))
        cache.of(LEASES).upsert(a_lease(name))
    for number in range(nodes * GPUS):
        cache.of(PODS).upsert(msgspec.json.decode(a_pod_text(number), type=Pod))
    cache.of(BOOKINGS).upsert(a_booking("b-1", user=BOOKED, model=A100, count=nodes * GPUS))
    return cache, clock


def a_shared_crowd(nodes: int) -> tuple[ClusterCache, FakeClock]:
    """The same with GPUs of 80,000 MiB that two of bob's pods share, and little left of each."""
    clock = FakeClock(EPOCH)
    cache = ClusterCache(clock)
    for name in node_names(nodes):
        cache.of(NODES).upsert(a_node(name, *(shared_gpu(index, name) for index in range(GPUS))))
        cache.of(LEASES).upsert(a_lease(name))
    names_of_nodes = list(node_names(nodes))
    for number in range(2 * nodes * GPUS):
        gpu = number // 2
        name, index = names_of_nodes[gpu // GPUS], gpu % GPUS
        memory = 30_000 + 1000 * (number % 9)
        pod = (
            a_pod(f"p-{number}").of("bob").shares(memory=memory).on(name, {"main": (f"GPU-{name}-{index}",)})
        )
        started = EPOCH - timedelta(seconds=60 + (number * 7919) % 86_400)
        raw = {**pod.raw, "status": {"phase": "Running", "startTime": started}}
        cache.of(PODS).upsert(msgspec.json.decode(text(raw), type=Pod))
    cache.of(BOOKINGS).upsert(a_booking("b-1", user=BOOKED, model=A100, count=1000, memory=40_000))
    return cache, clock


def a_booked_share(number: int) -> Pod:
    """A pod of alice's with a share that waits."""
    return a_pod(f"booked-{number:04d}").of(BOOKED).shares(memory=40_000).at(10).created(EPOCH).obj


def a_booked_pod(number: int, version: int = 10) -> Pod:
    """A pod of alice's that waits."""
    return a_pod(f"booked-{number:04d}").of(BOOKED).asks(1).at(version).created(EPOCH).obj
