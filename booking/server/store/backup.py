"""A copy of the whole database in one file, and the restore of a database from such a copy.

The file's format does not depend on the database: a copy of a SQLite file can be restored to a PostgreSQL
server, and vice versa. It shows one moment, while others read and write. It includes the store id and the
number of the newest change, so that the mirror recognises the restored database as the same one (law L9).
Sessions are left out: people sign in again.
"""

import base64
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, Final

import peewee

from booking.server.errors import StoreError
from booking.server.store import dump_file
from booking.server.store.connection import Connection
from booking.server.store.dump_file import Head, Row
from booking.server.store.engine import readable_errors
from booking.server.store.models import TABLES, VERSION, AuditRow, BookingRow, DeniedRow, MetaRow, SessionRow
from booking.server.store.opening import alone_with, engine_of
from booking.server.store.schema import create, drop_all, version_of
from booking.server.store.url import address_of

_AT_ONCE: Final = 100
"""Rows in one statement."""
_LEFT_OUT: Final = (MetaRow, SessionRow)
_NUMBERED: Final = (AuditRow, DeniedRow)
_OF_THE_MOMENT: Final = {"ceiling", "judged"}
"""Columns of a booking that matter only while its row is written."""


def back_up(url: str, file: Path | BinaryIO) -> tuple[Head, int]:
    """Copy a database into a new file, or an open one; returns the copy's head and row count.

    Raises:
        StoreError: the database cannot be read, or the file cannot be written or exists already.
    """
    address = address_of(url)
    if isinstance(address, Path) and not address.exists():
        raise StoreError(f"There is no booking database {address}.")
    with closing(engine_of(url)) as engine, readable_errors(engine.name), closing(engine.connect()) as line:
        line.begin(engine.reads)
        if version_of(line.database, engine.name) != VERSION:
            raise StoreError(
                f"The booking database {engine.name} has not schema {VERSION}: start the booking server once."
            )
        ((store_id, change),) = line.rows("SELECT store_id, change FROM meta WHERE id = 1")
        head = Head(schema=VERSION, store_id=store_id, change=change)
        rows = _rows_of(line)
        if isinstance(file, Path):
            return head, dump_file.write(file, head, rows)
        return head, dump_file.write_to(file, head, rows)


def restore(file: Path, url: str, *, overwrite: bool = False) -> tuple[Head, int]:
    """Restore a database from a copy, completely or not at all; returns the copy's head and row count.

    Args:
        file: the copy.
        url: of a database that is empty, or a file that does not exist.
        overwrite: whether its contents may be lost.

    Raises:
        StoreError: the copy cannot be read, or the database cannot be written, or it is not empty.
    """
    head, rows = dump_file.read(file)
    if head.schema != VERSION:
        raise StoreError(f"{file} has schema {head.schema}, and schema {VERSION} is known here.")
    with closing(engine_of(url)) as engine, readable_errors(engine.name), closing(engine.connect()) as line:
        with alone_with(line.database):
            _empty(line.database, engine.name, overwrite=overwrite)
            create(line.database, store_id=head.store_id, change=head.change)
            number = _fill(line.database, rows)
        if not line.database.for_update:
            # Write the log back into the file: a server that has it open by mistake then sees that it has
            # been replaced.
            line.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    return head, number


def _empty(database: Any, name: str, *, overwrite: bool) -> None:
    """Check that a database is empty, or empty it."""
    if version_of(database, name) is None:
        return
    if not overwrite:
        raise StoreError(
            f"The booking database {name} is not empty: name an empty one, or say that what is in it may be "
            "lost (--overwrite)."
        )
    drop_all(database)


def _rows_of(line: Connection) -> Iterator[Row]:
    for table in TABLES:
        if table in _LEFT_OUT:
            continue
        columns = _columns(table)
        query = table.select(*columns.values()).order_by(*_key(table))
        for values in query.tuples().execute(line.database):
            named = zip(columns.items(), values, strict=True)
            yield Row(_name(table), {name: _dumped(field, value) for (name, field), value in named})


def _fill(database: Any, rows: Iterator[Row]) -> int:
    tables = {_name(table): table for table in TABLES if table not in _LEFT_OUT}
    batch: list[dict[Any, Any]] = []
    columns: dict[str, Any] = {}
    current, number = "", 0
    for row in rows:
        if row.table not in tables:
            raise StoreError(f"The backup has a table {row.table} of which nothing is known here.")
        if row.table != current or len(batch) == _AT_ONCE:
            _insert(database, tables.get(current), batch)
            batch, current, columns = [], row.table, _columns(tables[row.table])
        if others := sorted(columns.keys() ^ row.values.keys()):
            raise StoreError(
                f"The backup's table {current} has other columns than schema {VERSION} has: "
                f"{', '.join(others)}."
            )
        batch.append({columns[name]: _taken(columns[name], value) for name, value in row.values.items()})
        number += 1
    _insert(database, tables.get(current), batch)
    if database.for_update:
        for table in _NUMBERED:
            database.execute_sql(
                "SELECT setval(pg_get_serial_sequence(%s, 'number'), %s, false)",
                (_name(table), _next_number(database, table)),
            )
    return number


def _insert(database: Any, table: Any, batch: list[dict[Any, Any]]) -> None:
    if batch:
        table.insert_many(batch).execute(database)


def _next_number(database: Any, table: Any) -> int:
    ((newest,),) = table.select(peewee.fn.max(table.number)).tuples().execute(database)
    return int(newest or 0) + 1


def _columns(table: Any) -> dict[str, Any]:
    """The columns of a table that copies have, by name."""
    return {
        name: field
        for name, field in _meta(table).columns.items()
        if table is not BookingRow or name not in _OF_THE_MOMENT
    }


def _dumped(field: Any, value: Any) -> Any:
    """A value of a row in the copy's form: numbers, texts and JSON; instants as seconds."""
    if isinstance(field, peewee.BlobField):
        return base64.b64encode(value).decode()
    return field.db_value(value)


def _taken(field: Any, value: Any) -> Any:
    """A value of the copy in the form of a database's row."""
    if isinstance(field, peewee.BlobField):
        return base64.b64decode(value)
    return field.python_value(value)


def _name(table: Any) -> str:
    return str(_meta(table).table_name)


def _key(table: Any) -> tuple[Any, ...]:
    key = _meta(table).primary_key
    if isinstance(key, peewee.CompositeKey):
        return tuple(getattr(table, name) for name in key.field_names)
    return (key,)


def _meta(table: Any) -> Any:
    return vars(table)["_meta"]
