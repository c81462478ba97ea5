"""The resource names of a node's MIG devices, by NVIDIA's three strategies. Pure."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from deviceplugin.nvml.inventory import NodeDevice


class MigStrategy(StrEnum):
    """How GPUs in MIG mode are advertised."""

    NONE = "none"
    """Their MIG devices are not advertised, and they are unhealthy themselves."""
    SINGLE = "single"
    """All GPUs of the node are partitioned alike; their MIG devices are advertised as ``nvidia.com/gpu``."""
    MIXED = "mixed"
    """Each profile is a resource of its own, ``nvidia.com/mig-1g.10gb``, next to whole GPUs."""


NOT_ADVERTISED: Final = "The GPU is in MIG mode, and MIG devices are not advertised"
EMPTY: Final = "The GPU is in MIG mode, and there is no MIG device on it"


def unequal(devices: Iterable[NodeDevice]) -> str | None:
    """Why strategy ``single`` advertises none of these devices; None if all are partitioned alike or none is.

    A GPU in MIG mode without a MIG device has nothing to advertise, and does not affect the others.
    """
    present = [device for device in devices if not device.gone]
    profiles = sorted({device.published.profile for device in present if device.published.profile})
    if len(profiles) > 1:
        return (
            "MIG strategy single advertises nothing while the node has MIG devices of several profiles: "
            f"{', '.join(profiles)}"
        )
    whole = [device for device in present if device.published.parent is None and not device.partitioned]
    if profiles and whole:
        return (
            "MIG strategy single advertises nothing while some GPUs of the node are in MIG mode, others not"
        )
    return None
