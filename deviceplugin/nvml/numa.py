"""Where a PCI device is in the machine, from sysfs: its NUMA node and its PCIe root.

NVML has the first only for GPUs that are NUMA nodes themselves, and the second not at all.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

_ROOT: Final = re.compile(r"pci[0-9a-f]{4,}:[0-9a-f]{2}")
"""The folder of a root complex; that of a device is somewhere below."""


def numa_from_sysfs(sys_root: Path = Path("/sys")) -> Callable[[str], int | None]:
    """A function: PCI address (``0000:07:00.0``) -> its NUMA node; None if the kernel reports none, or -1."""

    def numa_of(pci: str) -> int | None:
        try:
            text = (sys_root / "bus/pci/devices" / pci / "numa_node").read_text(encoding="ascii")
            node = int(text)
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    return numa_of


def pcie_root_from_sysfs(sys_root: Path = Path("/sys")) -> Callable[[str], str | None]:
    """A function: PCI address (``0000:07:00.0``) -> its root complex (``pci0000:00``); None without.

    Source: Kubernetes, k8s.io/dynamic-resource-allocation/deviceattribute.
    """

    def root_of(pci: str) -> str | None:
        try:
            # /sys/devices/pci0000:00/0000:00:01.1/0000:07:00.0
            folder = (sys_root / "bus/pci/devices" / pci).resolve(strict=True)
        except OSError:
            return None
        return next((part for part in folder.parts if _ROOT.fullmatch(part)), None)

    return root_of
