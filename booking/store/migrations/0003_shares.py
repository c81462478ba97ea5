"""Schema 3: bookings of shares of GPUs.

The guard of law L5 counts whole GPUs alone: how many GPUs shares need is not a sum.

A migration back to schema 2 loses nothing: how large shares are is kept in a table of its own. Until the next
migration forward their bookings have whole GPUs.
"""

from importlib import import_module
from typing import Any, Final

_BEFORE: Final = import_module("booking.store.migrations.0002_promises")
_GUARDS: Final = 2
"""The first two statements of ``GUARDS`` make the guard of bookings, in both databases."""

KEEP: Final = """
    CREATE TABLE bookings_of_schema_3 AS SELECT id, memory FROM bookings WHERE memory IS NOT NULL
"""
BRING_BACK: Final = """
    UPDATE bookings SET memory = kept.memory FROM bookings_of_schema_3 AS kept WHERE kept.id = bookings.id
"""
# Includes what the guard reads, as before.
INDEX: Final = """
    CREATE INDEX bookings_model ON bookings (model, ends, starts, gpus, cancelled, memory)
    WHERE cancelled IS NULL
"""
INDEX_BEFORE: Final = """
    CREATE INDEX bookings_model ON bookings (model, ends, starts, gpus, cancelled) WHERE cancelled IS NULL
"""
WHOLE: Final = (
    ("model = NEW.model AND cancelled IS NULL", "model = NEW.model AND memory IS NULL AND cancelled IS NULL"),
    ("NEW.ceiling IS NOT NULL AND", "NEW.ceiling IS NOT NULL AND NEW.memory IS NULL AND"),
)


def up(_migrator: Any, db: Any) -> None:
    """Add the memory of bookings, with kept contents if there are any."""
    db.execute_sql("ALTER TABLE bookings ADD COLUMN memory INTEGER CHECK (memory >= 1)")
    if db.table_exists("bookings_of_schema_3"):
        db.execute_sql(BRING_BACK)
        db.execute_sql("DROP TABLE bookings_of_schema_3")
    _guard(db, INDEX, WHOLE)
    db.execute_sql("UPDATE meta SET version = 3")


def down(_migrator: Any, db: Any) -> None:
    """Drop the memory of bookings, and keep it in a table of its own."""
    db.execute_sql(KEEP)
    _guard(db, INDEX_BEFORE, ())
    db.execute_sql("ALTER TABLE bookings DROP COLUMN memory")
    db.execute_sql("UPDATE meta SET version = 2")


def _guard(db: Any, index: str, changes: tuple[tuple[str, str], ...]) -> None:
    """Replace the guard of bookings and the index that it reads."""
    kind = _BEFORE.kind_of(db)
    for statement in (*_BEFORE.UNGUARDED[kind], "DROP INDEX bookings_model", index):
        db.execute_sql(statement)
    for guard in _BEFORE.GUARDS[kind][:_GUARDS]:
        text = _BEFORE.written_out(guard, kind)
        for before, after in changes:
            text = text.replace(before, after)
        db.execute_sql(text)
