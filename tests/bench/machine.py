"""The machine on which the numbers were measured, in words."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from devcluster.binaries.pins import KWOK, TOOLS, version
from devcluster.cgroups import CgroupTree

LOAD: Final = "load before"
"""The one fact that describes the moment and not the machine."""


def describe() -> dict[str, str]:
    """Name of a fact -> its value."""
    (kubernetes,) = (tool for tool in TOOLS if tool.name == "kubernetes")
    return {
        "CPU": f"{_field('/proc/cpuinfo', 'model name')}, {len(os.sched_getaffinity(0))} cores usable",
        "memory": _gibibytes(_field("/proc/meminfo", "MemTotal")),
        "kernel": platform.release(),
        "cgroups": f"v{CgroupTree().version}",
        LOAD: ", ".join(f"{one:.1f}" for one in os.getloadavg()),
        "Python": platform.python_version(),
        "Kubernetes": version(kubernetes),
        "kwok": version(KWOK),
    }


def differences(kept: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The facts in which machine, kernel or versions differ from those of the kept rows, as clauses. Pure."""
    return [
        f"{fact} was {kept.get(fact, 'not recorded')} and is {now.get(fact, 'not recorded')}"
        for fact in dict.fromkeys((*kept, *now))
        if fact != LOAD and kept.get(fact) != now.get(fact)
    ]


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"


def _gibibytes(text: str) -> str:
    kibibytes = text.partition(" ")[0]
    return f"{int(kibibytes) / 2**20:.1f} GiB" if kibibytes.isdecimal() else text
