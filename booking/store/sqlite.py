"""The booking database in a file.

``BEGIN IMMEDIATE`` locks other processes out before anything is read, so that the data behind a decision are
still true when it is written. One Store per process and file.
"""

from typing import Final

import peewee

from booking.store.connection import Connection
from booking.store.sqlite_file import DatabaseFile

_PATIENCE_SECONDS: Final = 5
"""With another process that writes: a backup, a second server by mistake."""
_FULL: Final = 2
_CACHE_KIB: Final = 512
"""Of each connection, and there may be as many as a pool has; the system has the file in memory, too."""


class SqliteEngine:
    """A database in a file that is held open."""

    reads = "BEGIN DEFERRED"
    writes = "BEGIN IMMEDIATE"
    # The mark identifies the contents of the file: its incarnation is always the same.
    asks = "SELECT store_id, 0, change FROM meta WHERE id = 1"
    locks = asks

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._mark: bytes | None = None
        self._anchor: Connection | None = None

    @property
    def name(self) -> str:
        """The file's path, for messages."""
        return str(self._file.path)

    def keep_log(self) -> None:
        """From now on there is a log, and the file is what it is now.

        One connection stays open, unused: without it each last one to close would write the log back.
        """
        self._anchor = self.connect()
        for statement in ("PRAGMA journal_mode = WAL", "SELECT store_id FROM meta"):
            self._anchor.rows(statement)
        self._mark = self._file.mark()

    def check(self) -> None:
        """See that the path leads to the same file, and that it still is the same database."""
        if self._mark is not None:
            self._file.check(self._mark)

    def connect(self) -> Connection:
        """A new connection, with the settings that every one of ours has."""
        database = peewee.SqliteDatabase(
            self._file.uri,
            uri=True,
            timeout=_PATIENCE_SECONDS,
            thread_safe=False,
            check_same_thread=False,
            # What was answered survives a loss of power, not only of the process.
            pragmas={"synchronous": _FULL, "cache_size": -_CACHE_KIB},
        )
        database.connect()
        return Connection(database)

    def is_lost(self, error: peewee.PeeweeException) -> bool:
        """Never: there is no server."""
        del error
        return False

    def close(self) -> None:
        """Let go of the file, when no connection has it open any more."""
        if self._anchor:
            self._anchor.close()
        self._file.close()
