"""What this machine is like at the start of a run: its limits, its load, and the clusters that are alive."""

import os
from pathlib import Path

from devcluster import limits, machine


def describe() -> list[str]:
    """A few lines for whoever reads a run that went wrong."""
    memory = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(memory["MemAvailable"].split()[0]) // 2**20
    one, five, _ = os.getloadavg()
    return [
        f"machine: {os.cpu_count()} processors, {free} GiB of memory free",
        f"load: {one:.1f} in the last minute, {five:.1f} in the last five",
        "limits: " + ", ".join(limits.in_use()),
        "clusters alive: " + (", ".join(alive()) or "none"),
    ]


def alive() -> list[str]:
    """The clusters of this machine that run, and whose they are."""
    return [f"{one} of {one.owner}" if one.owner else str(one) for one in machine.found() if one.runs]
