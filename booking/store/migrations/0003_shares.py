"""Schema 3: bookings of shares of GPUs.

A migration back to schema 2 loses nothing: how large shares are is kept in a table of its own. Until the next
migration forward their bookings have whole GPUs.
"""

from typing import Any, Final

KEEP: Final = """
    CREATE TABLE bookings_of_schema_3 AS SELECT id, memory FROM bookings WHERE memory IS NOT NULL
"""
BRING_BACK: Final = """
    UPDATE bookings SET memory = kept.memory FROM bookings_of_schema_3 AS kept WHERE kept.id = bookings.id
"""


def up(_migrator: Any, db: Any) -> None:
    """Add the memory of bookings, with kept contents if there are any."""
    db.execute_sql("ALTER TABLE bookings ADD COLUMN memory INTEGER CHECK (memory >= 1)")
    if db.table_exists("bookings_of_schema_3"):
        db.execute_sql(BRING_BACK)
        db.execute_sql("DROP TABLE bookings_of_schema_3")
    db.execute_sql("UPDATE meta SET version = 3")


def down(_migrator: Any, db: Any) -> None:
    """Drop the memory of bookings, and keep it in a table of its own."""
    db.execute_sql(KEEP)
    db.execute_sql("ALTER TABLE bookings DROP COLUMN memory")
    db.execute_sql("UPDATE meta SET version = 2")
