"""What a node agent wrote into its log, and when."""

from datetime import datetime
from itertools import takewhile
from typing import Final

import msgspec

from devcluster.daemons import Daemon
from devcluster.wait import poll

PATIENCE: Final = 60.0


class Line(msgspec.Struct):
    """The fields of a line that are evaluated."""

    event: str = ""
    time: datetime | None = None
    healthy: int = -1
    """Of "devices prepared": how many devices are healthy."""


def logged(daemon: Daemon, event: str, *, since: datetime, healthy: int | None = None) -> datetime:
    """When an agent first wrote a line with this event after an instant; waits for it.

    Args:
        daemon: the agent.
        event: the line's text.
        since: earlier lines do not count.
        healthy: counts only lines with this number.
    """

    def found() -> datetime | None:
        lines = map(_line, reversed(daemon.log.read_text(errors="replace").splitlines()))
        fresh = takewhile(lambda line: line.time is None or line.time >= since, lines)
        fitting = (line for line in fresh if line.event == event and healthy in {None, line.healthy})
        return min((line.time for line in fitting if line.time), default=None)

    at = poll(found, seconds=PATIENCE, every=0.02)
    if at is None:
        raise RuntimeError(f"{daemon.name} does not write {event!r} within {PATIENCE:.0f} s: {daemon.log}.")
    return at


def _line(text: str) -> Line:
    try:
        return msgspec.json.decode(text, type=Line)
    except msgspec.MsgspecError:
        return Line()
