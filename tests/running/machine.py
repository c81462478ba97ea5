"""What this machine is like at the start of a run: its limits, its load, and the clusters that are alive."""

import os
from collections.abc import Callable
from pathlib import Path

from devcluster import limits, machine

_STEAL = 7
"""Which of the numbers behind ``cpu`` in /proc/stat counts time that the machine below gave to others."""
_IN_OTHERS = 8
"""The numbers from here on are contained in earlier ones."""


def prepare(say: Callable[[str], None]) -> None:
    """Make room for a run that starts clusters, and say what the machine is like.

    Raises:
        ClusterError: there is no room for a cluster, and none could be made.
    """
    machine.remove_left_behind(say)
    limits.ensure(say)
    for line in describe():
        say(line)


def describe() -> list[str]:
    """A few lines for readers of a run that went wrong."""
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


def load() -> float:
    """The load of the last minute."""
    return round(os.getloadavg()[0], 1)


def processor_times(stat: str = "") -> tuple[int, int]:
    """Ticks that were stolen from this machine's processors, and all of their ticks, since it was started.

    Args:
        stat: what /proc/stat says; read where it is not given.
    """
    first = (stat or Path("/proc/stat").read_text()).splitlines()[0]
    ticks = [int(word) for word in first.split()[1:]][:_IN_OTHERS]
    return (ticks[_STEAL] if len(ticks) > _STEAL else 0), sum(ticks)


def steal(since: tuple[int, int], until: tuple[int, int]) -> float:
    """Percent of the processors' time between two readings that was stolen."""
    ticks = until[1] - since[1]
    return round(100 * (until[0] - since[0]) / ticks, 1) if ticks > 0 else 0.0
