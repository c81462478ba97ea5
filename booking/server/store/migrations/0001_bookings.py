"""Schema 1: bookings and what belongs to them, the row about the store itself, and the database's guards."""

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
        plan TEXT NOT NULL DEFAULT '[]',
        created_by TEXT NOT NULL DEFAULT '',
        policy TEXT NOT NULL DEFAULT '',
        ended_by TEXT,
        reason TEXT,
        waived BOOLEAN NOT NULL DEFAULT FALSE,
        live_slot INTEGER,
        ceiling INTEGER,
        judged BIGINT,
        memory INTEGER CHECK (memory >= 1),
        CHECK (starts < ends)
    )
    """,
    """
    CREATE TABLE blocks (
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
    CREATE TABLE exemptions (
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
    CREATE TABLE audit (
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
    CREATE TABLE denied (
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
    CREATE TABLE replays (
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
    CREATE TABLE sessions (
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
    CREATE TABLE people (
        "user" TEXT NOT NULL PRIMARY KEY,
        email TEXT NOT NULL,
        at BIGINT NOT NULL
    )
    """,
    "CREATE INDEX blocks_end ON blocks (ends)",
    "CREATE INDEX exemptions_end ON exemptions (ends)",
    "CREATE INDEX audit_subject ON audit (subject)",
    "CREATE INDEX denied_at ON denied (at)",
    "CREATE INDEX replays_at ON replays (at)",
    'CREATE INDEX sessions_user ON sessions ("user")',
    "CREATE INDEX sessions_expires ON sessions (expires)",
    "CREATE INDEX people_email ON people (lower(email))",
    'CREATE INDEX bookingrow_user ON bookings ("user")',
    "CREATE INDEX bookingrow_ends ON bookings (ends)",
    # Guards the limit on planned and active bookings: a second writer to the same slot comes too late.
    'CREATE UNIQUE INDEX bookings_live_slot ON bookings ("user", live_slot) WHERE live_slot IS NOT NULL',
    # Includes what the guard of law L5 reads: it sums the GPUs without reading the bookings themselves.
    """
    CREATE INDEX bookings_model ON bookings (model, ends, starts, gpus, cancelled, memory)
    WHERE cancelled IS NULL
    """,
    "CREATE INDEX bookings_start ON bookings (starts, id)",
    "CREATE INDEX bookings_change ON bookings (change)",
)
KINDS: Final = {
    "sqlite": {"number": "INTEGER PRIMARY KEY AUTOINCREMENT", "blob": "BLOB"},
    "postgres": {"number": "BIGSERIAL PRIMARY KEY", "blob": "BYTEA"},
}

# Guards law L5 on the rows as they are after the write: the load of the model in the span that was evaluated.
# The span that the booking had before with as many GPUs is not checked: devices may have disappeared since.
# It counts whole GPUs alone: how many GPUs shares need is not a sum.
PARTS: Final = {
    "<total>": """
        SELECT sum(gpus) FROM bookings
        WHERE model = NEW.model AND memory IS NULL AND cancelled IS NULL
            AND ends > <since> AND starts < NEW.ends
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
        WHERE model = NEW.model AND memory IS NULL AND cancelled IS NULL
            AND ends > <since> AND starts < NEW.ends
        UNION ALL
        SELECT ends, -gpus FROM bookings
        WHERE model = NEW.model AND memory IS NULL AND cancelled IS NULL
            AND ends > <since> AND starts < NEW.ends
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
        WHEN NEW.ceiling IS NOT NULL AND NEW.memory IS NULL AND NEW.cancelled IS NULL
            AND (<total>) > NEW.ceiling
        BEGIN SELECT RAISE(ABORT, '<too many>') WHERE (<peak>) > NEW.ceiling; END
        """,
        """
        CREATE TRIGGER bookings_peak_update AFTER UPDATE OF starts, ends, gpus, model, cancelled ON bookings
        WHEN NEW.ceiling IS NOT NULL AND NEW.memory IS NULL AND NEW.cancelled IS NULL
            AND (<total>) > NEW.ceiling
        BEGIN SELECT RAISE(ABORT, '<too many>') WHERE (<peak of growth>) > NEW.ceiling; END
        """,
        """
        CREATE TRIGGER audit_update BEFORE UPDATE ON audit
        BEGIN SELECT RAISE(ABORT, '<append only>'); END
        """,
        """
        CREATE TRIGGER audit_delete BEFORE DELETE ON audit
        BEGIN SELECT RAISE(ABORT, '<append only>'); END
        """,
        # REPLACE removes a row without firing the trigger above.
        """
        CREATE TRIGGER audit_replace BEFORE INSERT ON audit
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
        FOR EACH ROW WHEN (NEW.ceiling IS NOT NULL AND NEW.memory IS NULL AND NEW.cancelled IS NULL)
        EXECUTE FUNCTION bookings_peak()
        """,
        """
        CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION '<append only>' USING ERRCODE = 'check_violation'; END $$
        """,
        """
        CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
        FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only()
        """,
    ),
}


def up(_migrator: Any, db: Any) -> None:
    """Create tables, indexes and guards."""
    kind = "postgres" if db.for_update else "sqlite"
    for statement in TABLES:
        db.execute_sql(statement.format(**KINDS[kind]))
    for guard in GUARDS[kind]:
        db.execute_sql(_written_out(guard, kind))


def _written_out(guard: str, kind: str) -> str:
    """The statement of a guard, with its parts in place of their names."""
    for name, text in (*PARTS.items(), ("<later>", LATER[kind])):
        guard = guard.replace(name, text)
    return guard
