"""Records for later: the audit, refused requests, and answers to requests that are repeated."""

from datetime import datetime, timedelta
from typing import Final

import msgspec

from booking.server.store.models import AuditRow, DeniedRow, JsonField, ReplayRow
from booking.server.store.transaction import Transaction, WritingTransaction
from booking.server.store_records import NOT_GRANTED, AuditEntry, Denied, Replay

REPLAYS_KEPT: Final = timedelta(hours=48)
"""How long an idempotency key is remembered; a day is guaranteed."""
DENIED_KEPT: Final = timedelta(days=180)
"""How long refused requests are remembered."""
_AUDIT: Final = """
    INSERT INTO audit (at, actor, action, subject, reason, was, is_now) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_DENIED: Final = """
    INSERT INTO denied (at, "user", model, gpus, starts, ends, rules, earliest_start)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_JSON: Final = JsonField()


class AuditRead(Transaction):
    """Reads the audit log, refused requests and stored answers."""

    def audit_page(
        self, *, after: int | None, limit: int, subject: str | None = None, actor: str | None = None
    ) -> list[AuditEntry]:
        """Entries, newest first: those with numbers below ``after``, of one subject or actor or all."""
        query = AuditRow.select().order_by(AuditRow.number.desc()).limit(limit)
        if after is not None:
            query = query.where(AuditRow.number < after)
        if subject is not None:
            query = query.where(AuditRow.subject == subject)
        if actor is not None:
            query = query.where(AuditRow.actor == actor)
        return [AuditEntry(**row) for row in self._all(query)]

    def denied_page(self, *, after: int | None, limit: int) -> list[Denied]:
        """Refused requests, newest first: those with numbers below ``after``."""
        query = DeniedRow.select().order_by(DeniedRow.number.desc()).limit(limit)
        if after is not None:
            query = query.where(DeniedRow.number < after)
        return [Denied(**{**row, "rules": tuple(row["rules"])}) for row in self._all(query)]

    def replayed(self, principal: str, key: str) -> Replay | None:
        """The stored answer to this principal's request with this key."""
        query = ReplayRow.select().where((ReplayRow.principal == principal) & (ReplayRow.key == key))
        for row in self._all(query):
            kept = {name: row[name] for name in Replay.__struct_fields__}
            return Replay(**{**kept, "body": bytes(row["body"])})
        return None


class AuditWrite(WritingTransaction):
    """Writes the audit log, refused requests and stored answers."""

    def audit(self, entry: AuditEntry) -> None:
        """Store an audit entry, in the transaction of the change."""
        was, is_now = _JSON.db_value(entry.before), _JSON.db_value(entry.after)
        values = (entry.actor, entry.action, entry.subject, entry.reason, was, is_now)
        self._run(_AUDIT, int(entry.at.timestamp()), *values)

    def denied_add(self, denied: Denied) -> None:
        """Store a refused request, and delete entries that are too old."""
        self._run("DELETE FROM denied WHERE at < ?", _seconds(denied.at - DENIED_KEPT))
        span = (_seconds(denied.start), _seconds(denied.end))
        values = (denied.user, denied.model, denied.count, *span, _JSON.db_value(denied.rules))
        self._run(_DENIED, _seconds(denied.at), *values, _seconds(denied.earliest_start))

    def remember(self, principal: str, key: str, replay: Replay) -> None:
        """Store an answer; it replaces a refusal of this key, and answers that are too old are deleted."""
        is_its_refusal = (
            (ReplayRow.principal == principal) & (ReplayRow.key == key) & (ReplayRow.status == NOT_GRANTED)
        )
        self._do(ReplayRow.delete().where((ReplayRow.at < replay.at - REPLAYS_KEPT) | is_its_refusal))
        self._do(ReplayRow.insert(principal=principal, key=key, **msgspec.structs.asdict(replay)))


def _seconds(instant: datetime | None) -> int | None:
    return None if instant is None else int(instant.timestamp())
