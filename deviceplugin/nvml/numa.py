"""The NUMA node of a PCI device, from sysfs. NVML has it only for GPUs that are a NUMA node themselves."""

from collections.abc import Callable
from pathlib import Path


def numa_from_sysfs(sys_root: Path = Path("/sys")) -> Callable[[str], int | None]:
    """A function from a PCI address (``0000:07:00.0``) to its NUMA node; None where the kernel says -1."""

    def numa_of(pci: str) -> int | None:
        try:
            text = (sys_root / "bus/pci/devices" / pci / "numa_node").read_text(encoding="ascii")
            node = int(text)
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    return numa_of
