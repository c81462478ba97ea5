"""What the agent knows of its devices now: one immutable value that threads exchange.

The thread that watches NVML puts it here, after device nodes and CDI were looked after; gRPC calls, the
registration and the publisher read it. Reading takes no lock, so that nothing that hangs in the driver can
hold up the kubelet.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from cluster.objects.inventory import Device
from deviceplugin.allocate import Nodes


@dataclass(frozen=True)
class Devices:
    """The devices of this node that are handed out, sick ones too."""

    devices: tuple[Device, ...] = ()
    nodes: Nodes = field(default_factory=Nodes)
    problem: str | None = None
    """A sentence: why there are no devices, or what is wrong with all of them."""
    reported: bool = False
    """Whether NVML has been asked at all: before that nothing follows from there being no devices."""

    @cached_property
    def by_uuid(self) -> dict[str, Device]:
        """UUID -> device."""
        return {device.uuid: device for device in self.devices}


class Board:
    """Holds the newest ``Devices`` and wakes whoever listens."""

    def __init__(self) -> None:
        self._now = Devices()
        self._lock = threading.Lock()
        self._listeners: set[threading.Event] = set()

    @property
    def now(self) -> Devices:
        """The newest devices."""
        return self._now

    def put(self, devices: Devices) -> bool:
        """Replace the devices; whether they differ from those before."""
        with self._lock:
            if devices == self._now:
                return False
            self._now = devices
            for listener in self._listeners:
                listener.set()
        return True

    @contextmanager
    def listening(self, listener: threading.Event) -> Iterator[None]:
        """Within this context the event is set at every change."""
        with self._lock:
            self._listeners.add(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.discard(listener)
