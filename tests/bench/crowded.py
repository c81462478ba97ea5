"""The largest cluster that planning is measured on: every GPU of every node is held by a pod of its own."""

from datetime import timedelta
from typing import Any

import msgspec

from cluster import names
from cluster.cache import ClusterCache
from cluster.cache.claims import with_expressions
from cluster.fake.clock import FakeClock
from cluster.kube.resources import (
    BOOKINGS,
    DEVICE_CLASSES,
    LEASES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from cluster.objects.claims import DeviceClass, ResourceClaim, ResourceSlice
from cluster.objects.inventory import encode_inventory
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from demo.simulation.claim_devices import CLASS, cel, claimed, slice_of
from tests.bench.measured_cluster import GPUS, bound_pod, node_names
from tests.fakes.objects import A100, EPOCH, a100, a_booking, a_lease, a_node, a_pod, shared_gpu

BOOKED = "alice"
LARGE = "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('60Gi')) >= 0"
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


def a_claimed_crowd(nodes: int) -> tuple[ClusterCache, FakeClock]:
    """The same where all GPUs are given by claims, each of which one of bob's pods has."""
    clock = FakeClock(EPOCH)
    cache = ClusterCache(clock, claims=with_expressions(names.DRA_DRIVER))
    cache.keep_scheduling_objects()
    of_class = {"metadata": {"name": names.DRA_DRIVER}, "spec": {"selectors": [cel(CLASS)]}}
    cache.of(DEVICE_CLASSES).upsert(msgspec.convert(of_class, DeviceClass))
    every = node_names(nodes)
    for name in every:
        devices = tuple(claimed(a100(index, name)) for index in range(GPUS))
        cache.of(NODES).upsert(a_node(name, *devices))
        cache.of(LEASES).upsert(a_lease(name))
        cache.of(RESOURCE_SLICES).upsert(
            msgspec.json.decode(text(slice_of(name, devices)), type=ResourceSlice)
        )
    for number in range(nodes * GPUS):
        node = every[number // GPUS]
        cache.of(RESOURCE_CLAIMS).upsert(a_claim(number, node))
        cache.of(PODS).upsert(a_claiming_pod(number, "bob", node))
    of_claims = {"model": f"{A100}{names.CLAIMED_MODEL}", "resource": names.CLAIM_RESOURCE}
    cache.of(BOOKINGS).upsert(a_booking("b-1", user=BOOKED, count=nodes * GPUS, **of_claims))
    return cache, clock


def a_claim(number: int, node: str = "") -> ResourceClaim:
    """One that a pod has by a template, with a GPU of the node; without one, it has none yet."""
    uid, pod = (f"{number:08x}-{part}-4b6c-9d1e-2f3a4b5c6d7e" for part in ("1111", "2222"))
    name = f"train-{number}"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod, "controller": True}
    exactly = {
        "deviceClassName": names.DRA_DRIVER,
        "selectors": [cel(LARGE if not node else "device.attributes['gpu.nvidia.com'].type == 'gpu'")],
        "tolerations": [{"key": names.HELD_TAINT, "operator": "Equal", "value": pod}],
    }
    results = [{"request": "gpu", "driver": names.DRA_DRIVER, "pool": node, "device": f"gpu-{number % GPUS}"}]
    meta = {"name": f"{name}-gpu-x7k2p", "namespace": f"team-{number % 40}", "uid": uid}
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": pod}],
    }
    raw = {
        "metadata": meta | {"resourceVersion": str(100_000 + number), "ownerReferences": [owner]},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        "status": status if node else {},
    }
    return msgspec.json.decode(text(raw), type=ResourceClaim)


def a_claiming_pod(number: int, user: str, node: str = "") -> Pod:
    """The pod of that claim."""
    claim = a_claim(number, node)
    (owner,) = claim.metadata.owner_references or ()
    made = a_pod(owner.name).of(user).at(10).created(EPOCH)
    raw: dict[str, Any] = (made.on(node) if node else made).raw
    raw["metadata"] |= {"namespace": claim.metadata.namespace, "uid": owner.uid}
    raw["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    started = EPOCH - timedelta(seconds=60 + (number * 7919) % 86_400)
    raw["status"] = {
        "phase": "Running" if node else "Pending",
        **({"startTime": started} if node else {}),
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": claim.metadata.name}],
    }
    return msgspec.json.decode(text(raw), type=Pod)
