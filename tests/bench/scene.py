"""The clusters that decisions are measured on: nodes of eight GPUs, on every second one four are held."""

from typing import Any

import msgspec

from cluster.objects.inventory import Device
from cluster.runtime.clock import SystemClock
from devcluster.places import CHECKOUT
from extender.state import ClusterState
from extender.sync import Leases, Nodes, Pods
from tests.fakes.objects import PodBuilder, a100, a_lease, a_node, a_pod

GPUS = 8
ASKED = 8
"""GPUs of the pod in question: it fits on every second node."""


def node_names(nodes: int) -> list[str]:
    """Names of a usual length."""
    return [f"gpu-node-with-a-long-name-{number:06d}" for number in range(nodes)]


def gpus(node: str) -> tuple[Device, ...]:
    """Eight GPUs, each joined with each other by NVLink."""
    uuids = [f"GPU-{node}-{index}" for index in range(GPUS)]
    return tuple(a100(i, node, links={u: 12 for u in uuids if u != uuids[i]}) for i in range(GPUS))


def a_state(nodes: int) -> ClusterState:
    """The extender's picture of such a cluster, all agents alive."""
    clock = SystemClock()
    state = ClusterState(clock)
    feed_nodes, feed_leases, feed_pods = Nodes(state), Leases(state, clock), Pods(state, "gpu-booking")
    for number, name in enumerate(node_names(nodes)):
        feed_nodes.upsert(a_node(name, *gpus(name)))
        feed_leases.upsert(a_lease(name, renewed=clock.now()))
        if number % 2:
            held = tuple(f"GPU-{name}-{index}" for index in range(4))
            feed_pods.upsert(a_pod(f"p-{name}").asks(4).on(name, {"main": held}).obj)
    return state


def question(nodes: int) -> bytes:
    """What kube-scheduler sends to filter: a pod as captured from it, and the names of all nodes."""
    captured = CHECKOUT / "tests" / "fixtures" / "scheduler" / "filter.json"
    asked: dict[str, Any] = msgspec.json.decode(captured.read_bytes())
    for amounts in asked["Pod"]["spec"]["containers"][0]["resources"].values():
        amounts["nvidia.com/gpu"] = str(ASKED)
    return msgspec.json.encode({**asked, "NodeNames": node_names(nodes)})


def bound_pod(number: int) -> PodBuilder:
    """One of many bound pods, eight on a node, each with one GPU."""
    node, index = f"gpu-node-with-a-long-name-{number // GPUS:06d}", number % GPUS
    return a_pod(f"training-run-{number:06d}").asks(1).on(node, {"main": (f"GPU-{node}-{index}",)})
