"""Device nodes of the host, and where a container sees them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DeviceNode:
    """A device node of the host and where a container sees it."""

    path: str
    host_path: str


@dataclass(frozen=True)
class DeviceNodes:
    """The device nodes of this machine."""

    of_device: Mapping[str, tuple[DeviceNode, ...]] = field(default_factory=dict)
    """UUID -> its own nodes: one for a GPU; for a MIG device that of its GPU and those of its
    capabilities."""
    common: tuple[DeviceNode, ...] = ()
    """Control nodes that every container with a GPU needs."""
    cdi_names: Mapping[str, str] = field(default_factory=dict)
    """UUID -> its qualified name in an existing CDI specification of the host; others are in our own."""
