"""How much of a device is held: all of it, or a share in MiB of memory and percent of its compute."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cluster.objects.inventory import Device, SharingMode

ALL_COMPUTE: Final = 100
"""Percent."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What one pod has of one device: all of it, unless it has a mode."""

    device: str
    """UUID."""
    memory: int = 0
    """MiB of a share."""
    compute: int = 0
    """Percent of a share; 0 if none is guaranteed."""
    mode: SharingMode | None = None
    """How it shares the device; None for the whole device."""


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

    def __bool__(self) -> bool:
        return self.whole > 0 or self.shares > 0

    def plus(self, holding: Holding) -> "DeviceUse":
        """The use with one more holding."""
        if holding.mode is None:
            return DeviceUse(self.whole + 1, self.shares, self.memory, self.compute, self.modes)
        return DeviceUse(
            self.whole,
            self.shares + 1,
            self.memory + holding.memory,
            self.compute + holding.compute,
            self.modes | {holding.mode},
        )

    def room_on(self, device: Device) -> "Room":
        """What is left of the device."""
        if self.whole:
            return NO_ROOM
        return Room(
            is_whole=not self.shares,
            memory=max(0, device.memory - self.memory),
            compute=max(0, ALL_COMPUTE - self.compute),
            mode=next(iter(self.modes), None),
        )

    def is_conflict(self, device: Device | None) -> bool:
        """Whether more of the device is held than it has (law L1 is broken).

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
    mode: SharingMode | None = None
    """The mode in which a share is possible; None for any."""

    def fits(self, holding: Holding) -> bool:
        """Whether the holding, of any device like this one, is possible in addition."""
        if holding.mode is None:
            return self.is_whole
        return (
            self.mode in (None, holding.mode)
            and 0 < holding.memory <= self.memory
            and holding.compute <= self.compute
        )


NO_USE: Final = DeviceUse()
WHOLE: Final = DeviceUse(whole=1)
"""The use of a device that one pod has alone."""
NO_ROOM: Final = Room(is_whole=False, memory=0, compute=0)

Uses = Mapping[str, DeviceUse]
"""UUID -> what all pods have of that device."""
