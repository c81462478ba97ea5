"""What the kernel says of a process in /proc/PID/stat, whatever its name is."""

from pathlib import Path
from typing import Final

STATE: Final = 0
"""``Z``: it has ended and was not reaped; ``T``: it is stopped."""
PARENT: Final = 1
USER_TICKS: Final = 11
SYSTEM_TICKS: Final = 12
BORN: Final = 19
"""In ticks since boot: together with the PID it names a process for good."""


def fields_of(process: int | str) -> tuple[str, ...] | None:
    """The fields behind the name, which may hold blanks and brackets; None where there is no such process."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    return tuple(text.rpartition(")")[2].split())


def lives(process: int) -> bool:
    """Whether a process still runs; one that has ended and was not reaped does not."""
    fields = fields_of(process)
    return fields is not None and fields[STATE] not in ("Z", "X")
