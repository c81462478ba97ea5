"""Opening the booking database: file or server, tables, log."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from booking.server.errors import StoreError
from booking.server.store.engine import Engine, readable_errors
from booking.server.store.model_names import normalise_models
from booking.server.store.postgres import PostgresEngine
from booking.server.store.schema import bring_to, create_or_check, version_of
from booking.server.store.sqlite import SqliteEngine
from booking.server.store.sqlite_file import prepare_file
from booking.server.store.store import Store
from booking.server.store.url import address_of

_ONE_AT_A_TIME: Final = 7238146
"""Key of the lock in a PostgreSQL server: two servers that start at once must not both create or migrate."""


def open_store(url: str) -> Store:
    """Open the database, creating missing folders, files and tables.

    A database with an older schema is migrated to the current one.

    Args:
        url: ``sqlite:///relative/path``, ``sqlite:////absolute/path``, or
            ``postgresql://user:password@host:port/database``.

    Raises:
        StoreError: another kind of URL, or a database that is unreachable or not ours.
    """
    engine = engine_of(url)
    try:
        with readable_errors(engine.name):
            store_id, incarnation = prepared(engine)
        return Store(engine, store_id=store_id, incarnation=incarnation)
    except BaseException:
        engine.close()
        raise


def migrated(url: str, version: int) -> None:
    """Migrate one of our databases to another schema, forward or back; no process may have it open.

    Raises:
        StoreError: there is no such schema, or no such database.
    """
    with (
        closing(engine_of(url)) as engine,
        readable_errors(engine.name),
        closing(engine.connect()) as line,
        alone_with(line.database),
    ):
        if version_of(line.database, engine.name) is None:
            raise StoreError(f"The booking database {engine.name} is empty.")
        bring_to(line.database, version)


def engine_of(url: str) -> SqliteEngine | PostgresEngine:
    """The engine for the database that a URL names; a missing file is created.

    Raises:
        StoreError: another kind of URL, or a file that cannot be created.
    """
    address = address_of(url)
    return SqliteEngine(prepare_file(address)) if isinstance(address, Path) else PostgresEngine(address)


def prepared(engine: Engine) -> tuple[str, int]:
    """Create or migrate the tables; returns store id and incarnation."""
    line = engine.connect()
    try:
        with alone_with(line.database):
            create_or_check(line.database, engine.name)
            normalise_models(line.database)
            ((store_id, incarnation, _),) = line.rows(engine.asks)
        if isinstance(engine, SqliteEngine):
            engine.keep_log()
    finally:
        line.close()
    return store_id, incarnation


@contextmanager
def alone_with(database: Any) -> Iterator[None]:
    """A transaction of peewee's, in which no other process creates, migrates or restores."""
    if not database.for_update:
        with database.atomic("IMMEDIATE"):
            yield
        return
    with database.atomic():
        database.execute_sql("SELECT pg_advisory_xact_lock(%s)", (_ONE_AT_A_TIME,))
        yield
