"""What a container gets for its devices, by strategy: the answer to Allocate, pure.

Used by ``plugin``. The kubelet keeps the answer for the pod's life. An error fails the pod for good, so there
is one reason alone for it: ``held_elsewhere`` (law L1).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cluster import names
from deviceplugin.caller import Question, View, candidates, held_sentence


class Strategy(StrEnum):
    """How devices come into a container."""

    CDI = "cdi"
    """The container runtime applies our CDI specification (``cdi``). Nothing in the pod can override it."""
    ENVIRONMENT = "environment"
    """``NVIDIA_VISIBLE_DEVICES``, for NVIDIA's container runtime. No security boundary: a pod may set it."""
    DEVICE_NODES = "device-nodes"
    """The kubelet passes the device nodes; the image brings the driver's libraries."""


@dataclass(frozen=True)
class DeviceNode:
    """A device node of the host and where a container sees it."""

    path: str
    host_path: str


@dataclass(frozen=True)
class Answer:
    """What Allocate answers for one container."""

    environment: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[DeviceNode, ...] = ()
    cdi_devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Nodes:
    """The device nodes of this machine."""

    of_device: Mapping[str, tuple[DeviceNode, ...]] = field(default_factory=dict)
    """UUID -> its own: of a GPU one, of a MIG device that of its GPU and those that give access to the
    part."""
    common: tuple[DeviceNode, ...] = ()
    """Control nodes that every container with a GPU needs."""
    cdi_names: Mapping[str, str] = field(default_factory=dict)
    """UUID -> its qualified name in a CDI specification that the host has already; the others are in ours."""


def answer(devices: Collection[str], strategy: Strategy, nodes: Nodes) -> Answer:
    """How the container gets these devices (UUIDs)."""
    ordered = sorted(devices)
    told = {names.DEVICES_VARIABLE: ",".join(ordered)}
    match strategy:
        case Strategy.CDI:
            return Answer(told, cdi_devices=_qualified(ordered, nodes))
        case Strategy.ENVIRONMENT:
            return Answer(told | {names.VISIBLE_DEVICES_VARIABLE: ",".join(ordered)})
        case Strategy.DEVICE_NODES:
            # Two parts of one GPU share its node, and the kubelet passes the same one twice to the runtime.
            own = dict.fromkeys(node for uuid in ordered for node in nodes.of_device.get(uuid, ()))
            return Answer(told, nodes=(*own, *nodes.common))


def _qualified(devices: Collection[str], nodes: Nodes) -> tuple[str, ...]:
    """Names of CDI, all of one specification: what is common to its devices is in a container once."""
    if all(uuid in nodes.cdi_names for uuid in devices):
        return tuple(nodes.cdi_names[uuid] for uuid in devices)
    return tuple(f"{names.CDI_KIND}={uuid}" for uuid in devices)


def held_elsewhere(devices: Collection[str], view: View) -> str | None:
    """Why these devices may not be given to the container that is being admitted; None when they may.

    A device in the checkpoint is no obstacle when the pod that it stands under has ended, or is the one that
    is being admitted (an app container takes over the devices of a regular init container). Where the pod
    cannot be told, the devices are given: PreStartContainer sees both pods, and a refusal there is not final.
    """
    if view.holdings is None or view.pods is None:
        return None
    wanted = frozenset(devices)
    holders = view.holdings.holders(wanted) & {pod.metadata.uid for pod in view.living}
    found = candidates(Question(wanted, wanted, len(wanted)), view)
    if not holders or len(found) != 1:
        return None
    others = holders - {found[0].uid}
    if not others:
        return None
    held = frozenset[str]().union(*(view.holdings.of(uid) for uid in others)) & wanted
    pods = tuple(pod for pod in view.living if pod.metadata.uid in others)
    return held_sentence(held, View(view.resource, view.holdings, pods))
