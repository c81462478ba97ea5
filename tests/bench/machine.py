"""What the numbers were measured on, in words."""

import os
import platform
from pathlib import Path

from devcluster.binaries.pins import KWOK, TOOLS, version
from devcluster.cgroups import CgroupTree


def describe() -> dict[str, str]:
    """Name of a fact -> the fact."""
    (kubernetes,) = (tool for tool in TOOLS if tool.name == "kubernetes")
    return {
        "CPU": f"{_field('/proc/cpuinfo', 'model name')}, {len(os.sched_getaffinity(0))} cores usable",
        "memory": _gibibytes(_field("/proc/meminfo", "MemTotal")),
        "kernel": platform.release(),
        "cgroups": f"v{CgroupTree().version}",
        "load before": ", ".join(f"{one:.1f}" for one in os.getloadavg()),
        "Python": platform.python_version(),
        "Kubernetes": version(kubernetes),
        "kwok": version(KWOK),
    }


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"


def _gibibytes(text: str) -> str:
    kibibytes = text.partition(" ")[0]
    return f"{int(kibibytes) / 2**20:.1f} GiB" if kibibytes.isdecimal() else text
