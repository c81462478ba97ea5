"""The NUMA node of a PCI device, from sysfs. NVML has it only for GPUs that are NUMA nodes themselves."""

from collections.abc import Callable
from pathlib import Path


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
