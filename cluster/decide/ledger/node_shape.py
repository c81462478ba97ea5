"""The shape of a node: its devices and their links, without UUIDs. Nodes of one kind have the same shape.

What depends only on the shape, and on which devices are free, is computed once for all of them. A device is
known by its position in the order of index and UUID.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
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


@dataclass(frozen=True, eq=False)
class Layout:
    """How the devices of one inventory lie: all views of the node share it, whoever holds what."""

    devices: tuple[Device, ...]
    """In any order."""

    @cached_property
    def ordinals(self) -> dict[str, int]:
        """UUID -> position of every device in the order of index and UUID."""
        return {device.uuid: ordinal for ordinal, device in enumerate(self._sorted())}

    @cached_property
    def shape(self) -> NodeShape:
        """The devices and their links without UUIDs: the same object for nodes that are built alike."""
        ordinals = self.ordinals
        return _shape(tuple(_sketch(device, ordinals) for device in self._sorted()))

    def _sorted(self) -> list[Device]:
        return sorted(self.devices, key=lambda device: (device.index, device.uuid))


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
