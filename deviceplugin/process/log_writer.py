"""Writes log lines in a thread of its own: no other thread waits for the reader of the log.

A pipe that the container runtime does not empty blocks the thread that writes to it. In the kubelet's calls
that would keep every pod of the node from being admitted.
"""

import queue
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import structlog

from cluster.process.logs import Stream

log = structlog.get_logger(__name__)

LONGEST_QUEUE: Final = 10_000
"""Maximum number of waiting lines; further ones are lost, and counted."""
AT_THE_END: Final = 2.0
"""Seconds for writing the last lines."""


class AsyncLogStream:
    """A stream that never blocks: a context manager, at whose end the last lines are written."""

    def __init__(self, stream: Stream, longest: int = LONGEST_QUEUE, patience: float = AT_THE_END) -> None:
        self._stream = stream
        self._patience = patience
        self._lines: queue.Queue[str | None] = queue.Queue(longest)
        self._lost = 0
        """Number of lines for which there was no room, and which were not reported yet."""
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, text: str, /) -> int:
        """Take a line. Never waits, never fails."""
        try:
            self._lines.put_nowait(text)
        except queue.Full:
            self._lost += 1
        return len(text)

    def flush(self) -> None:
        """Do nothing: the writer's thread flushes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(queue.Full):
            self._lines.put(None, timeout=self._patience)
        self._thread.join(self._patience)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            with suppress(OSError, ValueError):
                self._stream.write(line)
                self._stream.flush()
            if self._lost and self._lines.empty():
                lost, self._lost = self._lost, 0
                log.warning("log lines were lost", lines=lost, message="Nobody read them in time.")
