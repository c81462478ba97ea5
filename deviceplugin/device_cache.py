"""The agent's current devices: one immutable value that threads exchange.

The thread that watches NVML stores it once device nodes and CDI are prepared; gRPC calls, the registration
and the publisher read it. Reading takes no lock: a thread that hangs in the driver cannot block the kubelet.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from cluster.objects.inventory import Device, resource_of
from cluster.objects.slots import physical
from deviceplugin.device_nodes import DeviceNodes


@dataclass(frozen=True)
class AdvertisedDevices:
    """The devices of this node that are advertised, including unhealthy ones."""

    devices: tuple[Device, ...] = ()
    nodes: DeviceNodes = field(default_factory=DeviceNodes)
    problem: str | None = None
    """A message: why there are no devices, or what is wrong with all of them."""
    cordoned: frozenset[str] = frozenset()
    """UUIDs of devices that are unhealthy only because they are cordoned: pods that hold them may restart."""
    closed: frozenset[str] = frozenset()
    """UUIDs of those that are unhealthy only because the node offers nothing anew."""
    lists: Mapping[str, tuple[Device, ...]] | None = None
    """Resource -> the devices advertised under this name; None for each device under its own."""
    reported: bool = False
    """Whether NVML has been read at all: before that an empty list means nothing."""

    @cached_property
    def listed(self) -> Mapping[str, tuple[Device, ...]]:
        """Resource -> the devices advertised under this name; resources without devices are left out."""
        if self.lists is not None:
            return self.lists
        found: dict[str, tuple[Device, ...]] = {}
        for device in self.devices:
            found[resource_of(device)] = (*found.get(resource_of(device), ()), device)
        return found

    def other_resources(self, resource: str) -> frozenset[str]:
        """UUIDs of devices that are advertised under other resources only."""
        ours = {physical(device.uuid) for device in self.listed.get(resource, ())}
        return frozenset(physical(device.uuid) for some in self.listed.values() for device in some) - ours

    @cached_property
    def by_uuid(self) -> dict[str, Device]:
        """UUID -> device."""
        return {device.uuid: device for device in self.devices}

    @cached_property
    def startable(self) -> dict[str, Device]:
        """UUID -> device, with its health for a pod that already holds it: a cordon does not count."""
        return {
            device.uuid: msgspec.structs.replace(device, health="healthy", reason=None)
            if device.uuid in self.cordoned | self.closed
            else device
            for device in self.devices
        }


class DeviceCache:
    """Holds the newest ``AdvertisedDevices`` and wakes its listeners."""

    def __init__(self) -> None:
        self._now = AdvertisedDevices()
        self._lock = threading.Lock()
        self._listeners: set[threading.Event] = set()

    @property
    def now(self) -> AdvertisedDevices:
        """The devices that were put last; never waits."""
        return self._now

    def put(self, devices: AdvertisedDevices) -> bool:
        """Replace the devices; returns whether they have changed."""
        with self._lock:
            if devices == self._now:
                return False
            self._now = devices
            for listener in self._listeners:
                listener.set()
        return True

    @contextmanager
    def listening(self, listener: threading.Event) -> Iterator[None]:
        """Set the event at every change, as long as the context lasts."""
        with self._lock:
            self._listeners.add(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.discard(listener)
