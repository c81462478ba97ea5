"""Whether a CDI specification of the host fits our GPUs, and its names for them. Pure.

A specification that was written for another driver, or before the GPUs got other numbers, would give a
container the wrong files or the wrong GPU. So it is compared with the devices that exist, and our own
specification is the fallback.

Source: Container Device Interface specification 0.5.0 to 1.0.0; nvidia-ctk 1.20.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from cluster import names

KIND: Final = names.GPU_RESOURCE
"""NVIDIA uses the resource's name as the kind."""

_OWN_NODE: Final = re.compile(r"/dev/(?:nvidia\d+|nvidia-caps/nvidia-cap\d+)$")
"""Nodes of one GPU or one of its parts; the others are common to all."""
_OF_DRIVER: Final = re.compile(r"/lib(?:cuda|nvidia-ml)\.so\.(\d+\.\d+(?:\.\d+)?)$")


class _Node(msgspec.Struct):
    path: str


class _Mount(msgspec.Struct, rename="camel"):
    container_path: str = ""


class _Edits(msgspec.Struct, rename="camel"):
    device_nodes: list[_Node] | None = None
    mounts: list[_Mount] | None = None


class _Device(msgspec.Struct, rename="camel"):
    name: str
    container_edits: _Edits | None = None


class Specification(msgspec.Struct, rename="camel"):
    """One CDI specification, with the fields that we read."""

    kind: str = ""
    devices: list[_Device] | None = None
    container_edits: _Edits | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """Which devices the host's own CDI specifications describe."""

    qualified: Mapping[str, str] = field(default_factory=dict)
    """UUID -> qualified name of the device: ``nvidia.com/gpu=GPU-...``."""
    problem: str | None = None
    """Why the host's specifications are not used, if there are any."""


NOTHING: Final = Fit()


def fit(found: Iterable[Specification], own_nodes: Mapping[str, frozenset[str]], driver: str | None) -> Fit:
    """Our devices in the host's specifications, if these have all of them.

    Args:
        found: the specifications of one folder; two that name the same device cancel each other out.
        own_nodes: uuid -> paths of the device nodes that belong only to it.
        driver: the driver's version; None if it cannot be seen.
    """
    ours = [one for one in found if one.kind == KIND]
    if not ours or not own_nodes:
        return NOTHING
    stale = {version for one in ours for version in _versions(one)} - {driver}
    if driver is not None and stale:
        return Fit(problem=f"It is of driver {', '.join(sorted(stale))}, and {driver} is installed")
    places = _by_nodes(ours)
    missing = sorted(uuid for uuid, nodes in own_nodes.items() if nodes not in places)
    if missing:
        return Fit(problem=f"It has no device with the nodes of {missing[0]} and no others")
    return Fit({uuid: f"{KIND}={_best(uuid, places[nodes])}" for uuid, nodes in own_nodes.items()})


def _by_nodes(found: Iterable[Specification]) -> dict[frozenset[str], list[str]]:
    """Nodes that belong to only one device -> its names."""
    devices = [device for one in found for device in one.devices or ()]
    times = [device.name for device in devices]
    places: dict[frozenset[str], list[str]] = {}
    for device in devices:
        if times.count(device.name) == 1:
            places.setdefault(_own(device), []).append(device.name)
    return places


def _own(device: _Device) -> frozenset[str]:
    nodes = (device.container_edits.device_nodes if device.container_edits else None) or ()
    return frozenset(node.path for node in nodes if _OWN_NODE.match(node.path))


def _best(uuid: str, called: list[str]) -> str:
    """The uuid if it is among the names, since it does not depend on the GPU's number; else the shortest."""
    return min(called, key=lambda name: (name != uuid, len(name), name))


def _versions(one: Specification) -> set[str]:
    mounts = (one.container_edits.mounts if one.container_edits else None) or ()
    matches = (_OF_DRIVER.search(mount.container_path) for mount in mounts)
    return {match[1] for match in matches if match}
