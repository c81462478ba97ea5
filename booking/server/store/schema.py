"""The schema of a database: created, checked, and migrated forward or back."""

import secrets
from pathlib import Path
from typing import Any, Final

from playhouse.migrations import Runner

from booking.server.errors import StoreError
from booking.server.store.models import VERSION, MetaRow

_STEPS: Final = Path(__file__).parent / "migrations"
_HISTORY: Final = "schema_migration"
_FUNCTIONS: Final = ("bookings_peak", "audit_is_append_only")
_OURS: Final = {"meta", "bookings"}


def create_or_check(database: Any, name: str) -> None:
    """Check that the tables are ours and current; create them in an empty database, or migrate them.

    Runs in the caller's transaction, in which no other process does the same.

    Args:
        database: a connected peewee database.
        name: of the database, for messages.

    Raises:
        StoreError: the tables are not ours, or of a newer version.
    """
    version = version_of(database, name)
    if version is None:
        create(database, store_id=secrets.token_hex(16), change=0)
    elif version > VERSION or version < 1:
        raise StoreError(
            f"The booking database {name} has schema {version}, and this booking server knows "
            f"schema {VERSION}: run the version that wrote it, or a newer one."
        )
    elif version < VERSION:
        Runner(database, str(_STEPS), table_name=_HISTORY).up()


def version_of(database: Any, name: str) -> int | None:
    """Version of a database's schema; None if it is empty.

    Raises:
        StoreError: the tables are not ours, or the row about the store is missing.
    """
    tables = set(database.get_tables())
    if not tables - {"sqlite_sequence"}:
        return None
    if not tables >= _OURS:
        raise StoreError(f"{name} is the database of another program: give the booking server its own.")
    rows = database.execute_sql("SELECT version FROM meta WHERE id = 1").fetchall()
    if not rows:
        raise StoreError(
            f"The booking database {name} has no identity: it is damaged, restore it from a backup."
        )
    return int(rows[0][0])


def create(database: Any, *, store_id: str, change: int) -> None:
    """Create the current tables in an empty database."""
    Runner(database, str(_STEPS), table_name=_HISTORY).up()
    if not database.for_update:
        # In addition to the store id, which is in a row: this mark is in the file's header
        # (booking.store.sqlite_file).
        database.pragma("application_id", 1 + secrets.randbelow(2**31 - 1))
    MetaRow.insert(id=1, store_id=store_id, version=VERSION, change=change).execute(database)


def drop_all(database: Any) -> None:
    """Drop all our tables, with their contents."""
    cascade = " CASCADE" if database.for_update else ""
    for table in sorted(set(database.get_tables()) - {"sqlite_sequence"}):
        database.execute_sql(f'DROP TABLE "{table}"{cascade}')
    for function in _FUNCTIONS if database.for_update else ():
        database.execute_sql(f"DROP FUNCTION IF EXISTS {function}()")


def bring_to(database: Any, version: int, steps: Path = _STEPS) -> None:
    """Migrate one of our databases to another schema, forward or back; in the caller's transaction.

    Args:
        database: a connected peewee database.
        version: of the schema.
        steps: the folder with the migrations.
    """
    runner = Runner(database, str(steps), table_name=_HISTORY)
    by_number = {step.idx: step.name for step in runner.migrations()}
    if version not in by_number:
        raise StoreError(f"There is no schema {version}; there are {', '.join(map(str, sorted(by_number)))}.")
    ((present,),) = database.execute_sql("SELECT version FROM meta").fetchall()
    if version < present:
        runner.down(by_number[version + 1])
    else:
        runner.up(by_number[version])
