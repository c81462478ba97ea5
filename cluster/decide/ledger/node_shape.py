"""The shape of a node: its devices and their links, without UUIDs. Nodes of one kind have the same shape.

What depends only on the shape, and on which devices are free, is computed once for all of them. A device is
known by its position in the order of index and UUID.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from cluster.objects.inventory import Device

BUILDS: Final = 1_000
"""Number of shapes to cache: kinds of machines, and variants of them with failed links."""

_Sketch = tuple[int, str, str | None, str | None, int | None, tuple[tuple[int, int], ...]]
"""Index, model, profile, resource if one is named, NUMA node, and (position, links) of linked devices."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeShape:
    """The shape of a node: the same object for all nodes with that shape."""

    devices: tuple[Device, ...]
    """With names that sort alike in place of UUIDs; all of them healthy, and none a part of another."""


def shape_of(devices: tuple[Device, ...], ordinals: Mapping[str, int]) -> NodeShape:
    """The shape of a node with these devices.

    Args:
        devices: in the order of index and UUID.
        ordinals: UUID -> position in that order.
    """
    return _shape(tuple(_sketch(device, ordinals) for device in devices))


def _sketch(device: Device, ordinals: Mapping[str, int]) -> _Sketch:
    links = [(ordinals[uuid], count) for uuid, count in (device.links or {}).items() if uuid in ordinals]
    return device.index, device.model, device.profile, device.resource, device.numa, tuple(sorted(links))


@lru_cache(BUILDS)
def _shape(sketches: tuple[_Sketch, ...]) -> NodeShape:
    return NodeShape(
        tuple(
            Device(
                uuid=_name(ordinal),
                index=index,
                model=model,
                profile=profile,
                resource=resource,
                numa=numa,
                links={_name(other): count for other, count in links},
            )
            for ordinal, (index, model, profile, resource, numa, links) in enumerate(sketches)
        )
    )


def _name(ordinal: int) -> str:
    return f"{ordinal:06d}"
