"""Schema 2: plans, database guards, blocks, exemptions, audit, refused requests, replays, sessions, people.

A migration back to schema 1 loses nothing: the columns that schema 2 added to bookings are kept in a table of
their own, and the other tables, which schema 1 does not know, stay.
"""

from typing import Any, Final

COLUMNS: Final = (
    ("plan", "TEXT NOT NULL DEFAULT '[]'"),
    ("created_by", "TEXT NOT NULL DEFAULT ''"),
    ("policy", "TEXT NOT NULL DEFAULT ''"),
    ("ended_by", "TEXT"),
    ("reason", "TEXT"),
    ("waived", "BOOLEAN NOT NULL DEFAULT FALSE"),
    ("live_slot", "INTEGER"),
    ("ceiling", "INTEGER"),
    ("judged", "BIGINT"),
)

TABLES: Final = (
    """
    CREATE TABLE IF NOT EXISTS blocks (
        id TEXT NOT NULL PRIMARY KEY,
        node TEXT NOT NULL,
        model TEXT,
        gpus INTEGER CHECK (gpus >= 1),
        starts BIGINT NOT NULL,
        ends BIGINT NOT NULL,
        reason TEXT NOT NULL,
        created_by TEXT NOT NULL,
        created BIGINT NOT NULL,
        CHECK (starts < ends)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS exemptions (
        id TEXT NOT NULL PRIMARY KEY,
        "user" TEXT NOT NULL,
        limits TEXT NOT NULL,
        model TEXT,
        starts BIGINT NOT NULL,
        ends BIGINT NOT NULL,
        reason TEXT NOT NULL CHECK (reason <> ''),
        created_by TEXT NOT NULL,
        created BIGINT NOT NULL,
        CHECK (starts < ends)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS audit (
        number {number},
        at BIGINT NOT NULL,
        actor TEXT NOT NULL,
        action TEXT NOT NULL,
        subject TEXT NOT NULL,
        reason TEXT,
        was TEXT,
        is_now TEXT
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS denied (
        number {number},
        at BIGINT NOT NULL,
        "user" TEXT NOT NULL,
        model TEXT NOT NULL,
        gpus BIGINT NOT NULL,
        starts BIGINT,
        ends BIGINT,
        rules TEXT NOT NULL,
        earliest_start BIGINT
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS replays (
        principal TEXT NOT NULL,
        key_text TEXT NOT NULL,
        digest TEXT NOT NULL,
        status INTEGER NOT NULL,
        body {blob} NOT NULL,
        headers TEXT NOT NULL,
        at BIGINT NOT NULL,
        PRIMARY KEY (principal, key_text)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS sessions (
        id TEXT NOT NULL PRIMARY KEY,
        "user" TEXT NOT NULL,
        name TEXT NOT NULL,
        member_of TEXT NOT NULL,
        csrf TEXT NOT NULL,
        created BIGINT NOT NULL,
        expires BIGINT NOT NULL,
        data TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS people (
        "user" TEXT NOT NULL PRIMARY KEY,
        email TEXT NOT NULL,
        at BIGINT NOT NULL
    )
    """,
    "CREATE INDEX IF NOT EXISTS blocks_end ON blocks (ends)",
    "CREATE INDEX IF NOT EXISTS exemptions_end ON exemptions (ends)",
    "CREATE INDEX IF NOT EXISTS audit_subject ON audit (subject)",
    "CREATE INDEX IF NOT EXISTS denied_at ON denied (at)",
    "CREATE INDEX IF NOT EXISTS replays_at ON replays (at)",
    'CREATE INDEX IF NOT EXISTS sessions_user ON sessions ("user")',
    "CREATE INDEX IF NOT EXISTS sessions_expires ON sessions (expires)",
    "CREATE INDEX IF NOT EXISTS people_email ON people (lower(email))",
)
KINDS: Final = {
    "sqlite": {"number": "INTEGER PRIMARY KEY AUTOINCREMENT", "blob": "BLOB"},
    "postgres": {"number": "BIGSERIAL PRIMARY KEY", "blob": "BYTEA"},
}

INDEXES: Final = (
    # Guards the limit on planned and active bookings: a second writer to the same slot comes too late.
    'CREATE UNIQUE INDEX bookings_live_slot ON bookings ("user", live_slot) WHERE live_slot IS NOT NULL',
    # Includes the GPUs: the peak guard sums them without reading the bookings themselves.
    "CREATE INDEX bookings_model ON bookings (model, ends, starts, gpus, cancelled) WHERE cancelled IS NULL",
    "CREATE INDEX bookings_start ON bookings (starts, id)",
    "CREATE INDEX bookings_change ON bookings (change)",
    "DROP INDEX bookingrow_model_ends",
)
INDEXES_BEFORE: Final = (
    "DROP INDEX bookings_live_slot",
    "DROP INDEX bookings_model",
    "DROP INDEX bookings_start",
    "DROP INDEX bookings_change",
    "CREATE INDEX bookingrow_model_ends ON bookings (model, ends)",
)

# Guards law L5 on the rows as they are after the write: the load of the model in the span that was evaluated.
# The span that the booking had before with as many GPUs is not checked: devices may have disappeared since.
PARTS: Final = {
    "<total>": """
        SELECT sum(gpus) FROM bookings
        WHERE model = NEW.model AND cancelled IS NULL AND ends > <since> AND starts < NEW.ends
    """,
    "<peak>": """
        SELECT max(load) FROM (
            SELECT t, sum(d) OVER (ORDER BY t, d ROWS UNBOUNDED PRECEDING) AS load FROM (<changes>) AS changes
        ) AS profile WHERE t < NEW.ends
    """,
    "<peak of growth>": """
        SELECT max(load) FROM (
            SELECT t, sum(d) OVER (ORDER BY t, d ROWS UNBOUNDED PRECEDING) AS load
            FROM (<changes> UNION ALL SELECT OLD.ends, 0) AS changes
        ) AS profile WHERE t < NEW.ends AND t >= <since> AND NOT (
            t >= OLD.starts AND t < OLD.ends
            AND NEW.gpus <= OLD.gpus AND NEW.model = OLD.model AND OLD.cancelled IS NULL
        )
    """,
    "<changes>": """
        SELECT <later>(starts, <since>) AS t, gpus AS d FROM bookings
        WHERE model = NEW.model AND cancelled IS NULL AND ends > <since> AND starts < NEW.ends
        UNION ALL
        SELECT ends, -gpus FROM bookings
        WHERE model = NEW.model AND cancelled IS NULL AND ends > <since> AND starts < NEW.ends
    """,
    "<since>": "<later>(NEW.starts, coalesce(NEW.judged, NEW.starts))",
    "<too many>": "more devices of the model would be booked than there are",
    "<append only>": "the audit is never changed",
}
LATER: Final = {"sqlite": "max", "postgres": "greatest"}
GUARDS: Final = {
    "sqlite": (
        """
        CREATE TRIGGER bookings_peak_insert AFTER INSERT ON bookings
        WHEN NEW.ceiling IS NOT NULL AND NEW.cancelled IS NULL AND (<total>) > NEW.ceiling
        BEGIN SELECT RAISE(ABORT, '<too many>') WHERE (<peak>) > NEW.ceiling; END
        """,
        """
        CREATE TRIGGER bookings_peak_update AFTER UPDATE OF starts, ends, gpus, model, cancelled ON bookings
        WHEN NEW.ceiling IS NOT NULL AND NEW.cancelled IS NULL AND (<total>) > NEW.ceiling
        BEGIN SELECT RAISE(ABORT, '<too many>') WHERE (<peak of growth>) > NEW.ceiling; END
        """,
        """
        CREATE TRIGGER IF NOT EXISTS audit_update BEFORE UPDATE ON audit
        BEGIN SELECT RAISE(ABORT, '<append only>'); END
        """,
        """
        CREATE TRIGGER IF NOT EXISTS audit_delete BEFORE DELETE ON audit
        BEGIN SELECT RAISE(ABORT, '<append only>'); END
        """,
        # REPLACE removes a row without firing the trigger above.
        """
        CREATE TRIGGER IF NOT EXISTS audit_replace BEFORE INSERT ON audit
        WHEN EXISTS (SELECT 1 FROM audit WHERE number = NEW.number)
        BEGIN SELECT RAISE(ABORT, '<append only>'); END
        """,
    ),
    # The row about the store is locked first: our own transactions have locked it already, and any other
    # writer waits here, so that the load includes all bookings.
    "postgres": (
        """
        CREATE FUNCTION bookings_peak() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE most BIGINT;
        BEGIN
            PERFORM 1 FROM meta WHERE id = 1 FOR UPDATE;
            IF (<total>) <= NEW.ceiling THEN RETURN NULL; END IF;
            IF TG_OP = 'INSERT' THEN most := (<peak>); ELSE most := (<peak of growth>); END IF;
            IF most > NEW.ceiling THEN RAISE EXCEPTION '<too many>' USING ERRCODE = 'check_violation'; END IF;
            RETURN NULL;
        END $$
        """,
        """
        CREATE CONSTRAINT TRIGGER bookings_peak
        AFTER INSERT OR UPDATE OF starts, ends, gpus, model, cancelled ON bookings
        FOR EACH ROW WHEN (NEW.ceiling IS NOT NULL AND NEW.cancelled IS NULL)
        EXECUTE FUNCTION bookings_peak()
        """,
        """
        CREATE OR REPLACE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION '<append only>' USING ERRCODE = 'check_violation'; END $$
        """,
        "DROP TRIGGER IF EXISTS audit_is_append_only ON audit",
        """
        CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
        FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only()
        """,
    ),
}
UNGUARDED: Final = {
    "sqlite": ("DROP TRIGGER bookings_peak_insert", "DROP TRIGGER bookings_peak_update"),
    "postgres": ("DROP TRIGGER bookings_peak ON bookings", "DROP FUNCTION bookings_peak()"),
}
KEEP: Final = """
    CREATE TABLE bookings_of_schema_2 AS
    SELECT id, plan, created_by, policy, ended_by, reason, waived, live_slot, ceiling, judged FROM bookings
"""
BRING_BACK: Final = """
    UPDATE bookings SET plan = kept.plan, created_by = kept.created_by, policy = kept.policy,
        ended_by = kept.ended_by, reason = kept.reason, waived = kept.waived,
        live_slot = kept.live_slot, ceiling = kept.ceiling, judged = kept.judged
    FROM bookings_of_schema_2 AS kept WHERE kept.id = bookings.id
"""


def up(_migrator: Any, db: Any) -> None:
    """Add the new columns of bookings, with kept contents if there are any; create missing tables."""
    kind = kind_of(db)
    for name, definition in COLUMNS:
        db.execute_sql(f"ALTER TABLE bookings ADD COLUMN {name} {definition}")
    if db.table_exists("bookings_of_schema_2"):
        db.execute_sql(BRING_BACK)
        db.execute_sql("DROP TABLE bookings_of_schema_2")
    for statement in (*TABLES, *INDEXES):
        db.execute_sql(statement.format(**KINDS[kind]))
    for guard in GUARDS[kind]:
        db.execute_sql(written_out(guard, kind))
    db.execute_sql("UPDATE meta SET version = 2")


def down(_migrator: Any, db: Any) -> None:
    """Drop the columns of the bookings, and keep their contents in a table of their own."""
    for statement in (*UNGUARDED[kind_of(db)], *INDEXES_BEFORE, KEEP):
        db.execute_sql(statement)
    for name, _ in COLUMNS:
        db.execute_sql(f"ALTER TABLE bookings DROP COLUMN {name}")
    db.execute_sql("UPDATE meta SET version = 1")


def kind_of(db: Any) -> str:
    """Which database it is, by its key in ``GUARDS``."""
    return "postgres" if db.for_update else "sqlite"


def written_out(guard: str, kind: str) -> str:
    """The statement of a guard, with its parts in place of their names."""
    for name, text in (*PARTS.items(), ("<later>", LATER[kind])):
        guard = guard.replace(name, text)
    return guard
