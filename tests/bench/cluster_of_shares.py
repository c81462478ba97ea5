"""The cluster of ``measured_cluster`` with its GPUs shared: eight pods a node on seven GPUs, one GPU free.

Also the pods that filter is asked about there: with a share, and beside them with whole GPUs.
"""

from typing import Any

import msgspec

from cluster import names
from cluster.kube.resources import LEASES, NODES, PODS
from cluster.objects.inventory import Device, Sharing
from cluster.process.clock import SystemClock
from extender.state.cluster_state import ClusterState
from tests.bench.measured_cluster import GPUS, HELD, filter_request, gpus_of, node_names, uuids_of
from tests.fakes.objects import a_lease, a_node, a_pod

LARGEST = 76_001
"""MiB, more than is left of any GPU of which a pod has a share. A free A100 has more."""
ALL = 80_000
"""MiB that a GPU of the requested model offers."""
_OTHERS = 48_000


def a_shared_state(nodes: int) -> ClusterState:
    """The extender's cache of such a cluster, in which all agents are alive."""
    clock = SystemClock()
    state = ClusterState(clock)
    for number, name in enumerate(node_names(nodes)):
        state.of(NODES).upsert(a_node(name, *(_shared(device, number) for device in gpus_of(name, number))))
        state.of(LEASES).upsert(a_lease(name, renewed=clock.now()))
        uuids = uuids_of(name)
        for index in range(GPUS):
            memory = 4000 + 500 * ((GPUS * number + index) % 32)
            pod = a_pod(f"p-{name}-{index}").shares(memory=memory)
            state.of(PODS).upsert(pod.on(name, {"main": (uuids[index % HELD],)}).obj)
    return state


def _shared(device: Device, number: int) -> Device:
    offer = Sharing(slots=16, memory=ALL if number % 2 == 0 else _OTHERS)
    return msgspec.structs.replace(device, share=offer)


def share_body(nodes: int, memory: int, gpus: int = 1) -> bytes:
    """What filter is asked about a pod with a share of so many MiB on so many GPUs."""
    limits = {names.SHARED_RESOURCE: str(gpus), names.GPU_MEMORY: str(memory)}
    return _body(nodes, limits, uid=f"share-{memory}-{gpus}")


def whole_body(nodes: int, priority: int, gpus: int = 1) -> bytes:
    """What filter is asked about a pod with whole GPUs; one of another priority is of another kind."""
    limits = {names.GPU_RESOURCE: str(gpus)}
    return _body(nodes, limits, uid=f"whole-{priority}-{gpus}", priority=priority)


def _body(nodes: int, limits: dict[str, str], *, uid: str, priority: int = 0) -> bytes:
    request: dict[str, Any] = msgspec.json.decode(filter_request(nodes))
    request["Pod"]["metadata"] |= {"name": uid, "uid": uid}
    request["Pod"]["spec"] |= {"priority": priority}
    request["Pod"]["spec"]["containers"][0]["resources"] = {"limits": limits, "requests": limits}
    return msgspec.json.encode(request)
