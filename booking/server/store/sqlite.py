"""The booking database in a file.

``BEGIN IMMEDIATE`` locks other processes out before anything is read, so that the data behind a decision are
still valid when it is written. One Store per process and file.
"""

from typing import Final

import peewee

from booking.server.store.connection import Connection
from booking.server.store.sqlite_file import DatabaseFile
from booking.server.store.write_ahead_log import WriteAheadLog

_PATIENCE_SECONDS: Final = 5
"""How long to wait for another writing process: a backup, or a second server by mistake."""
_FULL: Final = 2
_CACHE_KIB: Final = 512
"""Cache of each connection; a pool may have many, and the operating system caches the file, too."""


class SqliteEngine:
    """A database in a file that is held open."""

    reads = "BEGIN DEFERRED"
    writes = "BEGIN IMMEDIATE"
    # The mark identifies the contents of the file, so its incarnation is always the same.
    asks = "SELECT store_id, 0, change FROM meta WHERE id = 1"
    locks = asks

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._mark: bytes | None = None
        self._log: WriteAheadLog | None = None
        self._anchor: Connection | None = None

    @property
    def name(self) -> str:
        """The file's path, for messages."""
        return str(self._file.path)

    def keep_log(self) -> None:
        """Enable the write-ahead log, and remember the file's mark.

        One connection stays open for the log alone: otherwise each last one to close would write it back.
        """
        self._anchor = self.connect()
        for statement in ("PRAGMA journal_mode = WAL", "SELECT store_id FROM meta"):
            self._anchor.rows(statement)
        self._log = WriteAheadLog(self._anchor, self._file.path)
        self._mark = self._file.mark()

    def expect_writers(self) -> None:
        """Let the log have its size before the first of them."""
        if self._log:
            self._log.fill()

    def check(self) -> None:
        """Check that the path leads to the same file, with the same database in it."""
        if self._mark is not None:
            self._file.check(self._mark)

    def connect(self) -> Connection:
        """A new connection, with our settings."""
        database = peewee.SqliteDatabase(
            self._file.uri,
            uri=True,
            timeout=_PATIENCE_SECONDS,
            thread_safe=False,
            check_same_thread=False,
            # A confirmed write survives a loss of power, not only the end of the process.
            pragmas={"synchronous": _FULL, "cache_size": -_CACHE_KIB},
        )
        database.connect()
        return Connection(database)

    def committed(self) -> None:
        """Have the log written back, a moment later and by another thread."""
        if self._log:
            self._log.written()

    def is_lost(self, error: peewee.PeeweeException) -> bool:
        """Never: there is no server."""
        del error
        return False

    def close(self) -> None:
        """Close the file; no connection may have it open any more."""
        if self._log:
            self._log.close()
        if self._anchor:
            self._anchor.close()
        self._file.close()
