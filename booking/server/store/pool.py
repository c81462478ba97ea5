"""Connections that are kept open between transactions."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import peewee

from booking.server.store.connection import Connection
from booking.server.store.engine import Engine, message

_KEPT: Final = 16
"""Maximum number of idle connections: one for each concurrent request."""


class Pool:
    """Connections to one database. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._is_closed = False

    @contextmanager
    def begun(self, how: str) -> Iterator[Connection]:
        """A connection inside a transaction that has just begun; it is rolled back if it is left open.

        If an idle connection turns out to be lost, it is replaced and all idle ones are closed: the server
        may have been restarted, or hang, and each of them would have to be waited for.

        Raises:
            StoreError: the database cannot be reached.
            peewee.PeeweeException: it refuses.
        """
        line = self._begun(how)
        try:
            yield line
        except BaseException:
            if line.undo():
                self._give_back(line)
            else:
                line.close()
            raise
        self._give_back(line)

    def _begun(self, how: str) -> Connection:
        while True:
            with self._lock:
                line = self._idle.pop() if self._idle else None
            fresh = line is None
            line = line or self._connected()
            try:
                line.begin(how)
            except peewee.PeeweeException as error:
                if fresh or not self._engine.is_lost(error):
                    self._keep_or_close(line, is_lost=self._engine.is_lost(error))
                    raise
                line.close()
                self._close_idle()
            else:
                return line

    def _connected(self) -> Connection:
        """A new connection. If none can be opened now, a retry a moment later would not help."""
        try:
            return self._engine.connect()
        except peewee.PeeweeException as error:
            raise message(self._engine.name, error) from error

    def _keep_or_close(self, line: Connection, *, is_lost: bool) -> None:
        if is_lost:
            line.close()
        else:
            self._give_back(line)

    def _give_back(self, line: Connection) -> None:
        with self._lock:
            if not self._is_closed and len(self._idle) < _KEPT:
                self._idle.append(line)
                return
        line.close()

    def close(self) -> None:
        """Close all idle connections; the others are closed when they are returned."""
        with self._lock:
            self._is_closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for line in idle:
            line.close()
