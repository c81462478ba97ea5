"""Where pods land by each policy: a small cluster, one pod after the other, decided by the extender's code.

The data of the diagrams. No other plugin of kube-scheduler scores here; of equally good nodes the first is
chosen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from cluster import names
from cluster.decide.ledger import Ledger
from cluster.decide.placement import choose
from cluster.decide.predicates import rejection
from cluster.decide.request import gpu_request_of
from cluster.decide.reserve import Reserve, reserve
from cluster.objects.assignment import encode_assignment
from cluster.objects.bookings import Booking, BookingSpec, Place
from cluster.objects.inventory import Device, encode_inventory
from cluster.objects.meta import Meta
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from extender.policies import NOTHING
from extender.verbs.prioritize import POLICIES

MODEL: Final = "NVIDIA-A100-SXM4-80GB"
NODES: Final = ("node-1", "node-2", "node-3", "node-4")
GPUS: Final = 4
"""Of each node. GPUs 0 and 1 are joined by NVLink and on one NUMA node, and so are 2 and 3."""
SITS: Final = (("early", "node-2", (0,)), ("older", "node-3", (0, 2)))
"""Pods that run already: name, node, GPUs."""
PLANNED: Final = ("node-2", 2)
"""A node where a running booking has devices planned whose pods have not come yet, and how many."""
ARRIVING: Final = (1, 1, 2, 1, 4)
"""GPUs of the pods that arrive, none of them booked."""
_NOW: Final = datetime(2026, 11, 23, 9, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Landing:
    """The result of placing a pod."""

    pod: str
    gpus: int
    node: str | None
    """None if no node had room for it."""
    devices: tuple[int, ...] = ()
    """Indexes."""
    scores: tuple[tuple[str, int], ...] = ()
    """Of the nodes that had room: name, score."""


def landings(placement: str, arriving: Sequence[int] = ARRIVING) -> tuple[Landing, ...]:
    """Where pods with these numbers of GPUs land, in the order of their arrival.

    Args:
        placement: one of ``names.PLACEMENTS``.
        arriving: the number of GPUs of each pod.
    """
    ledger = Ledger()
    for node in NODES:
        ledger.apply_node(_node(node))
    for name, node, devices in SITS:
        ledger.apply_pod(_pod(name, len(devices), node, devices))
    planned = _planned()
    return tuple(
        _landed(ledger, placement, f"pod-{number}", gpus, planned)
        for number, gpus in enumerate(arriving, start=1)
    )


def _landed(ledger: Ledger, placement: str, name: str, gpus: int, planned: Reserve) -> Landing:
    request = gpu_request_of(_pod(name, gpus))
    views = [view for view in ledger.views(NODES) if rejection(request, view, "alive") is None]
    policy = POLICIES[placement]
    scores = {view.name: policy(request, view, planned.get(view.name, NOTHING)) for view in views}
    if not views:
        return Landing(pod=name, gpus=gpus, node=None)
    best = max(views, key=lambda view: scores[view.name])
    (uuids,) = choose(request, best).values()
    devices = tuple(device.index for device in best.devices if device.uuid in uuids)
    ledger.apply_pod(_pod(name, gpus, best.name, devices))
    return Landing(pod=name, gpus=gpus, node=best.name, devices=devices, scores=tuple(scores.items()))


def _planned() -> Reserve:
    node, count = PLANNED
    booking = Booking(
        metadata=Meta(name="planned"),
        spec=BookingSpec(
            user="alice",
            model=MODEL,
            count=count,
            start=_NOW,
            end=_NOW.replace(hour=17),
            places=(Place(node=node, count=count),),
        ),
    )
    return reserve([booking], {}, {}, _NOW)


def _uuid(node: str, index: int) -> str:
    return f"GPU-{node}-{index}"


def _node(name: str) -> Node:
    devices = tuple(
        Device(
            uuid=_uuid(name, index),
            index=index,
            model=MODEL,
            numa=index // 2,
            links={_uuid(name, index ^ 1): 12},
        )
        for index in range(GPUS)
    )
    meta = {"name": name, "uid": name, "annotations": {names.INVENTORY: encode_inventory(devices)}}
    return msgspec.convert({"metadata": meta}, Node)


def _pod(name: str, gpus: int, node: str | None = None, devices: Sequence[int] = ()) -> Pod:
    meta: dict[str, Any] = {"name": name, "uid": name}
    if node:
        given = {"main": tuple(_uuid(node, index) for index in devices)}
        meta["annotations"] = {names.ASSIGNED: encode_assignment(given)}
    amounts = {names.GPU_RESOURCE: str(gpus)}
    spec = {"nodeName": node, "containers": [{"name": "main", "resources": {"limits": amounts}}]}
    return msgspec.convert({"metadata": meta, "spec": spec}, Pod)
