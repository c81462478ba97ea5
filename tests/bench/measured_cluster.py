"""The clusters on which decisions are measured: nodes with eight GPUs and eight pods each, one GPU free.

Every second node has another model than the requested one, so that it is rejected with a reason.
"""

from itertools import count, islice
from math import gcd
from typing import Any

import msgspec

from cluster import names
from cluster.kube.resources import LEASES, NODES, PODS
from cluster.objects.inventory import Device
from cluster.process.clock import SystemClock
from devcluster.paths import CHECKOUT
from extender.state.cluster_state import ClusterState
from tests.fakes.objects import A100, PodBuilder, a100, a6000, a_lease, a_node, a_pod

GPUS = 8
HELD = 7
"""GPUs of a node that are held, each by a pod of its own."""


def node_names(nodes: int) -> list[str]:
    """Names of a usual length."""
    return [f"gpu-node-with-a-long-name-{number:06d}" for number in range(nodes)]


def gpus(node: str) -> tuple[Device, ...]:
    """Eight GPUs, each connected to every other by NVLink."""
    uuids = uuids_of(node)
    return tuple(a100(i, node, links={u: 12 for u in uuids if u != uuids[i]}) for i in range(GPUS))


def gpus_of(node: str, number: int) -> tuple[Device, ...]:
    """The GPUs of a node of the cluster: every second node has another model."""
    return gpus(node) if number % 2 == 0 else tuple(a6000(index, node) for index in range(GPUS))


def uuids_of(node: str) -> list[str]:
    """Ids of the node's GPUs."""
    return [f"GPU-{node}-{index}" for index in range(GPUS)]


def a_state(nodes: int) -> ClusterState:
    """The extender's cache of such a cluster, in which all agents are alive."""
    clock = SystemClock()
    state = ClusterState(clock)
    for number, name in enumerate(node_names(nodes)):
        state.of(NODES).upsert(a_node(name, *gpus_of(name, number)))
        state.of(LEASES).upsert(a_lease(name, renewed=clock.now()))
        for index, uuid in enumerate(uuids_of(name)[:HELD]):
            state.of(PODS).upsert(
                a_pod(f"p-{name}-{index}").asks(1).on(name, {"main": (uuid,)}).ended("Running").obj
            )
        state.of(PODS).upsert(a_pod(f"p-{name}-{HELD}").on(name).ended("Running").obj)
    return state


def filter_request(nodes: int) -> bytes:
    """What kube-scheduler sends to filter: a pod that was captured from it, and the names of all nodes."""
    captured = CHECKOUT / "tests" / "fixtures" / "scheduler" / "filter.json"
    request: dict[str, Any] = msgspec.json.decode(captured.read_bytes())
    request["Pod"]["metadata"].setdefault("annotations", {})[names.MODEL] = A100
    return msgspec.json.encode({**request, "NodeNames": node_names(nodes)})


def filter_requests(nodes: int, orders: int = 16) -> list[bytes]:
    """The same request with the names in different orders, the same ones in each run."""
    request: dict[str, Any] = msgspec.json.decode(filter_request(nodes))
    known, found = request["NodeNames"], []
    strides = (stride for stride in count(nodes // 3) if gcd(stride, nodes) == 1)
    for stride in islice(strides, orders):
        names_so = [known[stride * place % nodes] for place in range(nodes)]
        found.append(msgspec.json.encode({**request, "NodeNames": names_so}))
    return found


def bound_pod(number: int) -> PodBuilder:
    """One of many bound pods, eight per node, each with one GPU."""
    node, index = f"gpu-node-with-a-long-name-{number // GPUS:06d}", number % GPUS
    return a_pod(f"training-run-{number:06d}").asks(1).on(node, {"main": (f"GPU-{node}-{index}",)})
