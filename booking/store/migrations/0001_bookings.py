"""Schema 1: bookings, and the row about the store itself."""

from typing import Any, Final

TABLES: Final = (
    """
    CREATE TABLE meta (
        id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
        store_id TEXT NOT NULL,
        version INTEGER NOT NULL,
        change BIGINT NOT NULL
    )
    """,
    """
    CREATE TABLE bookings (
        id TEXT NOT NULL PRIMARY KEY,
        "user" TEXT NOT NULL,
        model TEXT NOT NULL,
        gpus INTEGER NOT NULL CHECK (gpus >= 1),
        topology TEXT NOT NULL,
        namespace TEXT,
        starts BIGINT NOT NULL,
        ends BIGINT NOT NULL,
        created BIGINT NOT NULL,
        released BIGINT,
        cancelled BIGINT,
        change BIGINT NOT NULL,
        CHECK (starts < ends)
    )
    """,
    'CREATE INDEX bookingrow_user ON bookings ("user")',
    "CREATE INDEX bookingrow_ends ON bookings (ends)",
    "CREATE INDEX bookingrow_model_ends ON bookings (model, ends)",
)


def up(_migrator: Any, db: Any) -> None:
    """Create the tables of bookings and of the store's own values."""
    for statement in TABLES:
        db.execute_sql(statement)
