"""The tables of the current schema, bound to no database: each query is executed on the given one."""

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec
import peewee

VERSION: Final = 1
"""Version of the schema: the number of the newest migration."""


@lru_cache(maxsize=1024)
def instant(seconds: int) -> datetime:
    """The aware instant in UTC for the value of an ``InstantField`` column."""
    return datetime.fromtimestamp(seconds, UTC)


class InstantField(peewee.BigIntegerField):
    """An aware instant, stored as whole seconds since 1970 in UTC: it sorts and compares as itself."""

    def db_value(self, value: datetime | None) -> int | None:
        """Whole seconds since 1970; None stays None."""
        return None if value is None else int(value.timestamp())

    def python_value(self, value: int | None) -> datetime | None:
        """The value as read."""
        return None if value is None else instant(value)


class JsonField(peewee.TextField):
    """Any JSON value, as text: the same in both databases."""

    def db_value(self, value: Any) -> str | None:
        """JSON text; None stays None."""
        return None if value is None else msgspec.json.encode(value, order="sorted").decode()

    def python_value(self, value: str | None) -> Any:
        """The value as read."""
        return None if value is None else json.loads(value)


class MetaRow(peewee.Model):
    """The one row about the store itself."""

    id = peewee.IntegerField(primary_key=True)
    store_id = peewee.TextField()
    version = peewee.IntegerField()
    """Version of the schema."""
    change = peewee.BigIntegerField()
    """Number of the newest change."""

    class Meta:
        """Peewee's."""

        table_name = "meta"


class BookingRow(peewee.Model):
    """A booking: the fields of ``booking.server.records.Record``, and columns that the schema itself uses."""

    id = peewee.TextField(primary_key=True)
    user = peewee.TextField()
    model = peewee.TextField()
    count = peewee.IntegerField(column_name="gpus")
    topology = peewee.TextField()
    namespace = peewee.TextField(null=True)
    start = InstantField(column_name="starts")
    end = InstantField(column_name="ends")
    created = InstantField()
    released = InstantField(null=True)
    cancelled = InstantField(null=True)
    change = peewee.BigIntegerField()
    plan = JsonField()
    created_by = peewee.TextField()
    policy = peewee.TextField()
    ended_by = peewee.TextField(null=True)
    reason = peewee.TextField(null=True)
    waived = peewee.BooleanField()
    memory = peewee.IntegerField(null=True)
    live_slot = peewee.IntegerField(null=True)
    """Which of the user's slots a planned or active booking has; unique. None once that is settled."""
    ceiling = peewee.IntegerField(null=True)
    """Devices of the model at the last evaluation; a trigger compares the load with it."""
    judged = InstantField(null=True)
    """The instant from which it was evaluated."""

    class Meta:
        """Peewee's."""

        table_name = "bookings"


class BlockRow(peewee.Model):
    """A ``booking.server.store_records.Block``."""

    id = peewee.TextField(primary_key=True)
    node = peewee.TextField()
    model = peewee.TextField(null=True)
    count = peewee.IntegerField(column_name="gpus", null=True)
    start = InstantField(column_name="starts")
    end = InstantField(column_name="ends")
    reason = peewee.TextField()
    created_by = peewee.TextField()
    created = InstantField()

    class Meta:
        """Peewee's."""

        table_name = "blocks"


class ExemptionRow(peewee.Model):
    """A ``booking.server.store_records.Exemption``."""

    id = peewee.TextField(primary_key=True)
    user = peewee.TextField()
    limits = JsonField()
    model = peewee.TextField(null=True)
    start = InstantField(column_name="starts")
    end = InstantField(column_name="ends")
    reason = peewee.TextField()
    created_by = peewee.TextField()
    created = InstantField()

    class Meta:
        """Peewee's."""

        table_name = "exemptions"


class AuditRow(peewee.Model):
    """A ``booking.server.store_records.AuditEntry``; triggers prevent changes and removals."""

    number = peewee.BigAutoField()
    at = InstantField()
    actor = peewee.TextField()
    action = peewee.TextField()
    subject = peewee.TextField()
    reason = peewee.TextField(null=True)
    before = JsonField(null=True, column_name="was")
    after = JsonField(null=True, column_name="is_now")

    class Meta:
        """Peewee's."""

        table_name = "audit"


class DeniedRow(peewee.Model):
    """A ``booking.server.store_records.Denied``."""

    number = peewee.BigAutoField()
    at = InstantField()
    user = peewee.TextField()
    model = peewee.TextField()
    count = peewee.BigIntegerField(column_name="gpus")
    start = InstantField(column_name="starts", null=True)
    end = InstantField(column_name="ends", null=True)
    rules = JsonField()
    earliest_start = InstantField(null=True)

    class Meta:
        """Peewee's."""

        table_name = "denied"


class ReplayRow(peewee.Model):
    """A ``booking.server.store_records.Replay`` of a principal's idempotency key."""

    principal = peewee.TextField()
    key = peewee.TextField(column_name="key_text")
    digest = peewee.TextField()
    status = peewee.IntegerField()
    body = peewee.BlobField()
    headers = JsonField()
    at = InstantField()

    class Meta:
        """Peewee's."""

        table_name = "replays"
        primary_key = peewee.CompositeKey("principal", "key")


class SessionRow(peewee.Model):
    """A ``booking.server.store_records.Session``."""

    id = peewee.TextField(primary_key=True)
    user = peewee.TextField()
    name = peewee.TextField()
    groups = JsonField(column_name="member_of")
    csrf = peewee.TextField()
    created = InstantField()
    expires = InstantField()
    data = JsonField()

    class Meta:
        """Peewee's."""

        table_name = "sessions"


class PersonRow(peewee.Model):
    """A user's e-mail address; the server shows it to no other user."""

    user = peewee.TextField(primary_key=True)
    email = peewee.TextField()
    at = InstantField()

    class Meta:
        """Peewee's."""

        table_name = "people"


TABLES: Final = (
    MetaRow,
    BookingRow,
    BlockRow,
    ExemptionRow,
    AuditRow,
    DeniedRow,
    ReplayRow,
    SessionRow,
    PersonRow,
)
