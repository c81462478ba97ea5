"""The booking database on a PostgreSQL server.

Each writing transaction locks the one row about the store before it reads anything. That row has the number
of the newest change, which must grow in the order of commits, so writers queue there anyway; and under READ
COMMITTED each statement after the lock sees everything that was committed before. No transaction fails
because of another, and only one that has lost its connection is retried.
"""

from typing import Any, Final

import peewee

from booking.server.errors import StoreError
from booking.server.store.connection import Connection
from booking.server.store.url import Server
from booking.server.store.watchdog import Watchdog
from cluster import names

_LOST: Final = ("08", "57P0", "40001", "40P01", "25P03")
"""SQLSTATEs of lost connections, servers that shut down, and transactions that were aborted in favour of
others."""
_MILLISECONDS: Final = "-c lock_timeout=10000 -c statement_timeout=30000"
_DEFAULTS: Final = {
    "connect_timeout": "5",
    "application_name": names.PRODUCT,
    "options": f"{_MILLISECONDS} -c idle_in_transaction_session_timeout=60000 -c synchronous_commit=on",
    "tcp_user_timeout": "10000",
}


class _Watched(peewee.PostgresqlDatabase):
    """Limits the wait for an answer."""

    def __init__(self, name: str, watchdog: Watchdog, **options: Any) -> None:
        self._watchdog = watchdog
        super().__init__(name, **options)

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        """Execute a statement; returns its cursor once the server has answered.

        Raises:
            peewee.OperationalError: it has not answered in time.
        """
        peewees: Any = super()
        with self._watchdog.watching(peewees.connection().fileno):
            return peewees.execute_sql(sql, params)


class PostgresEngine:
    """Opens connections to a PostgreSQL database."""

    reads = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    writes = "BEGIN ISOLATION LEVEL READ COMMITTED"
    # A restore creates the table again, which then has another OID in the server.
    asks = "SELECT store_id, tableoid::bigint, change FROM meta WHERE id = 1"
    locks = f"{asks} FOR UPDATE"

    def __init__(self, server: Server) -> None:
        self._server = server
        self._watchdog = Watchdog(server.answer_timeout)

    @property
    def name(self) -> str:
        """Database, host and port, for messages."""
        return self._server.shown

    def expect_writers(self) -> None:
        """Nothing: the server keeps the files of its log, and uses them again."""

    def check(self) -> None:
        """Nothing: a server identifies itself, since the store id is read in every transaction."""

    def connect(self) -> Connection:
        """A new connection, with the current password."""
        server = self._server
        password = _read(server) if server.password_file else server.password
        options: dict[str, Any] = {**_DEFAULTS, **server.options}
        database = _Watched(
            server.database,
            self._watchdog,
            host=server.host or None,
            port=server.port,
            user=server.user,
            password=password,
            prefer_psycopg3=True,
            thread_safe=False,
            **options,
        )
        database.connect()
        return Connection(database)

    def committed(self) -> None:
        """Nothing: the server looks after its log."""

    def is_lost(self, error: peewee.PeeweeException) -> bool:
        """Whether the connection was lost, or the transaction aborted."""
        state = getattr(getattr(error, "orig", None), "sqlstate", None)
        if state is None:
            return isinstance(error, peewee.OperationalError | peewee.InterfaceError)
        return str(state).startswith(_LOST)

    def close(self) -> None:
        """Stop the watchdog; the engine holds nothing else."""
        self._watchdog.close()


def _read(server: Server) -> str:
    try:
        return server.password_file.read_text().strip() if server.password_file else ""
    except OSError as error:
        raise StoreError(
            f"The password of the booking database {server.shown} cannot be read from "
            f"{server.password_file}: {error.strerror}."
        ) from error
