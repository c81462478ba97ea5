"""Ending a booking early: released while it runs, cancelled before it begins."""

from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from booking.principals import Principal
from booking.server.errors import RefusedError
from booking.server.records import Record
from booking.server.service import audit_entries
from booking.server.service.authorization import Expected, found, reason_of, require_current
from booking.server.service.context import ServiceContext, rounded_up, whole
from booking.server.service.idempotency import Key, once
from booking.server.service.states import Verb, rejection
from booking.server.store import Reading, Writing

_SECOND: Final = timedelta(seconds=1)
Ending = Literal["release", "cancel"]


def end(
    context: ServiceContext,
    who: Principal,
    booking_id: str,
    verb: Ending,
    *,
    expected: Expected,
    reason: str | None,
    key: Key | None,
) -> Record:
    """Release a running booking or cancel a planned one; returns it as it is afterwards."""

    def decide(writing: Writing) -> Record:
        now = context.clock.now()
        record = allowed(writing, who, booking_id, verb, now=now, expected=expected)
        valid_reason = reason_of(who, record.user, reason)
        after = writing.replace(_over(record, verb, who, now, reason=valid_reason))
        audit_entries.booking(writing, verb, who, now, before=record, after=after, reason=valid_reason)
        return after

    return once(context, who, decide, kind=Record, key=key)


def dry_run(
    context: ServiceContext,
    who: Principal,
    booking_id: str,
    verb: Ending,
    *,
    expected: Expected,
    reason: str | None,
) -> Record:
    """The record after the verb; nothing is stored."""

    def decide(reading: Reading) -> Record:
        now = context.clock.now()
        record = allowed(reading, who, booking_id, verb, now=now, expected=expected)
        return _over(record, verb, who, now, reason=reason)

    return context.store.read(decide)


def allowed(
    reading: Reading, who: Principal, booking_id: str, verb: Verb, *, now: datetime, expected: Expected
) -> Record:
    """The booking, if this user may apply the verb to it now and has seen its current version."""
    record = found(reading, who, booking_id)
    require_current(record, expected)
    wrong = rejection(record, verb, now)
    if wrong:
        raise RefusedError([wrong])
    return record


def _over(record: Record, verb: Ending, who: Principal, now: datetime, *, reason: str | None) -> Record:
    """The booking after the verb."""
    if verb == "release":
        return ended(record, who, now, reason=reason)
    valid_reason = reason_of(who, record.user, reason)
    return msgspec.structs.replace(record, cancelled=whole(now), **_by(who, record, valid_reason))


def ended(record: Record, who: Principal, now: datetime, *, reason: str | None) -> Record:
    """A running booking after its release: at least a second long, so not empty."""
    end = min(max(rounded_up(now), record.start + _SECOND), record.end)
    valid_reason = reason_of(who, record.user, reason)
    by = _by(who, record, valid_reason)
    return msgspec.structs.replace(record, end=end, released=whole(now), waived=bool(by), **by)


def _by(who: Principal, record: Record, reason: str | None) -> dict[str, str | None]:
    return {"ended_by": who.user, "reason": reason} if who.user != record.user else {}
