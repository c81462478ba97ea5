"""How much of a device is held: all of it, or a share in MiB of memory and percent of its compute."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from cluster.objects.inventory import Device, Sharing, SharingMode

ALL_COMPUTE: Final = 100
"""Percent."""


class Holding(msgspec.Struct, frozen=True, gc=False):
    """What one pod has of one device: all of it, unless it has a mode."""

    device: str
    """UUID."""
    memory: int = 0
    """MiB of a share."""
    compute: int = 0
    """Percent of a share; 0 if none is guaranteed."""
    mode: SharingMode | None = None
    """How it shares the device; None for the whole device."""
    slots: int = 1
    """Slots of a share: one for each of the pod's containers that have one at the same time."""
    claim: str = ""
    """Uid of the claim by which the pod has it; all pods of one claim are one holder."""


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What all pods together have of one device; false if that is nothing."""

    whole: int = 0
    """Pods that have the whole device: above 1 if two pods name one device."""
    shares: int = 0
    """Pods that have a share of it."""
    memory: int = 0
    """MiB of all shares."""
    compute: int = 0
    """Percent of all shares."""
    modes: frozenset[SharingMode] = frozenset()
    """Modes of the shares: more than one if law L1 is broken."""
    slots: int = 0
    """Slots of all shares."""

    def __bool__(self) -> bool:
        return self.whole > 0 or self.shares > 0

    def plus(self, holding: Holding) -> "DeviceUse":
        """The use with one more holding."""
        if holding.mode is None:
            return replace(self, whole=self.whole + 1)
        return DeviceUse(
            self.whole,
            self.shares + 1,
            self.memory + holding.memory,
            self.compute + holding.compute,
            self.modes | {holding.mode},
            self.slots + holding.slots,
        )

    def room_on(self, device: Device) -> "Room":
        """What is left of the device: for shares only what it offers to them."""
        if self.whole:
            return NO_ROOM
        offer = device.share or NOT_SHARED
        return Room(
            is_whole=not self.shares,
            memory=max(0, offer.memory - self.memory),
            compute=max(0, ALL_COMPUTE - self.compute),
            modes=frozenset(offer.modes) & self.modes if self.shares else frozenset(offer.modes),
            slots=max(0, offer.slots - self.slots),
        )

    def is_conflict(self, device: Device | None) -> bool:
        """Whether more of the device is held than it has (law L1 is broken).

        What it has counts, not what it offers: an administrator may offer less than pods hold already.

        Args:
            device: the device; None if the inventory does not have it.
        """
        return (
            self.whole > 1
            or (self.whole > 0 and self.shares > 0)
            or len(self.modes) > 1
            or self.compute > ALL_COMPUTE
            or (device is not None and self.shares > 0 and self.memory > device.memory)
        )


@dataclass(frozen=True, slots=True)
class Room:
    """What is left of one device."""

    is_whole: bool
    """Whether nobody has any of it."""
    memory: int
    """MiB."""
    compute: int
    """Percent."""
    modes: frozenset[SharingMode] = frozenset()
    """The modes in which a share is possible."""
    slots: int = 0

    def fits(self, holding: Holding) -> bool:
        """Whether the holding, of any device like this one, is possible in addition."""
        if holding.mode is None:
            return self.is_whole
        return (
            holding.mode in self.modes
            and 0 < holding.memory <= self.memory
            and holding.compute <= self.compute
            and holding.slots <= self.slots
        )

    def less(self, holding: Holding) -> "Room":
        """What a holding that fits leaves of it."""
        if holding.mode is None:
            return NO_ROOM
        return Room(
            is_whole=False,
            memory=self.memory - holding.memory,
            compute=self.compute - holding.compute,
            modes=frozenset({holding.mode}),
            slots=self.slots - holding.slots,
        )


NOT_SHARED: Final = Sharing(modes=())
"""The offer of a device that is given whole only."""
NO_USE: Final = DeviceUse()
WHOLE: Final = DeviceUse(whole=1)
"""The use of a device that one pod has alone."""
NO_ROOM: Final = Room(is_whole=False, memory=0, compute=0)

Uses = Mapping[str, DeviceUse]
"""UUID -> what all pods have of that device."""
