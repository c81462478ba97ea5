"""What the kernel reports about a process in /proc/PID/stat, whatever its name is."""

import os
from pathlib import Path
from typing import Final

STATE: Final = 0
"""``Z``: it has ended and has not been reaped; ``T``: it is stopped."""
PARENT: Final = 1
USER_TICKS: Final = 11
SYSTEM_TICKS: Final = 12
BORN: Final = 19
"""Its start, in ticks since boot: together with the PID it identifies a process, since PIDs are reused."""


def fields_of(process: int | str) -> tuple[str, ...] | None:
    """The fields after the name, which may contain blanks and brackets; None if there is no such process."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    return tuple(text.rpartition(")")[2].split())


def used_seconds(process: int) -> float:
    """The seconds of processor time that a process has used so far; 0 if there is no such process."""
    fields = fields_of(process)
    ticks = int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS]) if fields else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def lives(process: int) -> bool:
    """Whether a process still runs; one that has ended and has not been reaped does not."""
    fields = fields_of(process)
    return fields is not None and fields[STATE] not in ("Z", "X")
