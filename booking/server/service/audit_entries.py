"""Audit entries, written in the transaction of each change: who changed what, and who was refused."""

from datetime import datetime
from typing import Any, Final

import msgspec

from booking import wording
from booking.principals import Principal
from booking.server.evaluation.evaluate import Decision
from booking.server.records import Record
from booking.server.service.context import whole
from booking.server.service.evaluation import EvaluationContext
from booking.server.store import Writing
from booking.server.store_records import AuditEntry, Denied

_MOST_COUNT: Final = 2**31 - 1
"""Requests for more GPUs are recorded with this number."""


def booking(
    writing: Writing,
    verb: str,
    who: Principal,
    now: datetime,
    *,
    before: Record | None,
    after: Record,
    reason: str | None = None,
) -> None:
    """Record that a booking was created or changed."""
    written(writing, f"booking.{verb}", who, now, subject=after.id, before=before, after=after, reason=reason)


def written(
    writing: Writing,
    action: str,
    who: Principal,
    now: datetime,
    *,
    subject: str,
    before: msgspec.Struct | None = None,
    after: msgspec.Struct | None = None,
    reason: str | None = None,
) -> None:
    """Record a change and who made it."""
    writing.audit(
        AuditEntry(
            at=whole(now),
            actor=who.user,
            action=action,
            subject=subject,
            reason=reason,
            before=_builtins(before),
            after=_builtins(after),
        )
    )


def denied(writing: Writing, evaluation: EvaluationContext, decision: Decision, now: datetime) -> None:
    """Record a refused request."""
    writing.denied_add(
        Denied(
            at=whole(now),
            user=evaluation.user,
            model=_visible(wording.clipped(decision.model)),
            count=max(-_MOST_COUNT, min(decision.count, _MOST_COUNT)),
            start=decision.start,
            end=decision.end,
            rules=tuple(violation.rule for violation in decision.violations),
            earliest_start=decision.earliest_start,
        )
    )


def _visible(text: str) -> str:
    """A user's text in a form that a list can show and every database stores: it may contain anything."""
    return text if text.isprintable() else repr(text)


def _builtins(what: msgspec.Struct | None) -> dict[str, Any] | None:
    return None if what is None else msgspec.to_builtins(what)
