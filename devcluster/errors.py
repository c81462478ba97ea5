"""The one error that the cluster's commands and library raise, and how it shows the end of a log."""

from pathlib import Path

_TAIL_LINES = 15
_TAIL_BYTES = 16_384


class ClusterError(Exception):
    """Something about a cluster went wrong; the text is for people."""


def tail(log: Path, lines: int = _TAIL_LINES) -> str:
    """The last lines of a log file, indented; a message where there is no log."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = stream.read().decode(errors="replace")
    except OSError as error:
        return f"  (no log: {error})"
    kept = text.splitlines()[-lines:]
    return "\n".join(f"  {line}" for line in kept) or f"  ({log} is empty)"
