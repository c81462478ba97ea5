"""How the devices of a node are made and joined, whatever they are called: nodes of one kind are built alike.

What depends on nothing but that, and on which of the devices are free, needs to be worked out once for all of
them. Devices are known by their place in the order of index and UUID.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from cluster.objects.inventory import Device

BUILDS: Final = 1_000
"""Builds that are remembered: kinds of machines, and what becomes of them when a link fails."""

_Sketch = tuple[int, str, str | None, str | None, int | None, tuple[tuple[int, int], ...]]
"""Index, model, profile, resource where it is said, NUMA node, and the links by place."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeShape:
    """The same object for nodes that are built alike."""

    devices: tuple[Device, ...]
    """With names of the same order in place of UUIDs; all of them healthy, and none a part of another."""


def shape_of(devices: tuple[Device, ...], places: Mapping[str, int]) -> NodeShape:
    """The build of a node with these devices.

    Args:
        devices: in their order.
        places: UUID -> place of each.
    """
    return _shape(tuple(_sketch(device, places) for device in devices))


def _sketch(device: Device, places: Mapping[str, int]) -> _Sketch:
    links = [(places[uuid], count) for uuid, count in (device.links or {}).items() if uuid in places]
    return device.index, device.model, device.profile, device.resource, device.numa, tuple(sorted(links))


@lru_cache(BUILDS)
def _shape(sketches: tuple[_Sketch, ...]) -> NodeShape:
    return NodeShape(
        tuple(
            Device(
                uuid=_name(place),
                index=index,
                model=model,
                profile=profile,
                resource=resource,
                numa=numa,
                links={_name(other): count for other, count in links},
            )
            for place, (index, model, profile, resource, numa, links) in enumerate(sketches)
        )
    )


def _name(place: int) -> str:
    return f"{place:06d}"
