"""SQLite's write-ahead log: large enough from the start, and written back beside the writers.

A commit is durable once the log is on disk. That takes a tenth of a millisecond where the log overwrites
itself. Where its file grows, it waits for the journal of the file system, and so for what all others have
written and deleted lately. A log that is written back into the database within a commit waits for the same.
"""

import threading
from pathlib import Path
from typing import Final

import peewee

from booking.server.store.connection import Connection
from cluster.process.clock import Clock, SystemClock

FILLED: Final = 6 * 2**20
"""Bytes of the log from the start: SQLite begins it again at 4 MiB, after the turn that fills them."""
WRITTEN_BACK_AFTER: Final = 0.25
"""Seconds after a commit; all writes of that time are written back together."""
_PASSES: Final = 8
"""While others write, the log is never empty after one pass: the next one has little left to do."""


class WriteAheadLog:
    """The log of one database. Thread-safe."""

    def __init__(self, line: Connection, path: Path, clock: Clock | None = None) -> None:
        """Args: line: for our own use, in any thread; path: the database's, beside which the log lies."""
        self._line = line
        self._path = path.with_name(f"{path.name}-wal")
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._written = threading.Event()
        self._closed = threading.Event()

    def fill(self) -> None:
        """Let the log's file have its size from now on; what is written for that is rolled back.

        Where there is no room, or another process writes, it stays as it is.
        """
        if self._path.exists() and self._path.stat().st_size >= FILLED:
            return
        try:
            self._line.begin("BEGIN IMMEDIATE")
            self._line.run("CREATE TABLE filling (zeros)")
            # The connection's cache is far smaller, so that it goes to the log.
            self._line.run("INSERT INTO filling VALUES (zeroblob(?))", FILLED + 2**20)
        except peewee.PeeweeException:
            pass
        self._line.undo()

    def written(self) -> None:
        """Something was committed; returns at once."""
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._write_back, name="store-log", daemon=True)
                self._thread.start()
        self._written.set()

    def close(self) -> None:
        """End the thread; the connection is not used any more."""
        with self._lock:
            self._closed.set()
        self._written.set()
        if self._thread:
            self._thread.join()

    def _write_back(self) -> None:
        while self._written.wait() and not self._clock.wait(self._closed, WRITTEN_BACK_AFTER):
            self._written.clear()
            for _ in range(_PASSES):
                if self._is_written_back():
                    break

    def _is_written_back(self) -> bool:
        """Write back what is in the log; whether nothing was added meanwhile, or it cannot be done now."""
        try:
            ((is_busy, pages, done),) = self._line.rows("PRAGMA wal_checkpoint(PASSIVE)")
        except peewee.PeeweeException:
            # It stays in the log, which writers write back themselves, too, when it is full.
            return True
        return bool(is_busy) or pages == done
