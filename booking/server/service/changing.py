"""Changing a booking: extend, shorten, move, more or fewer GPUs, another namespace. Never cancelled first."""

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
from msgspec import UNSET

from booking.principals import Principal
from booking.server.capacity.capacity import Capacity
from booking.server.errors import RefusedError
from booking.server.evaluation import request_validation
from booking.server.evaluation.evaluate import Decision
from booking.server.records import BookingChange, BookingRequest, Record
from booking.server.service import audit_entries
from booking.server.service.authorization import Expected, reason_of
from booking.server.service.context import ServiceContext
from booking.server.service.ending import allowed, ended
from booking.server.service.evaluation import EvaluationContext, granted, move_others, refusal
from booking.server.service.idempotency import Key, once
from booking.server.store import Reading, Writing


def change(
    context: ServiceContext,
    who: Principal,
    booking_id: str,
    change: BookingChange,
    *,
    expected: Expected,
    reason: str | None,
    key: Key | None,
) -> Record:
    """Change a booking as requested, or leave it as it is."""
    capacity = context.capacity()

    def decide(writing: Writing) -> Record | RefusedError:
        now = context.clock.now()
        before = allowed(writing, who, booking_id, "change", now=now, expected=expected)
        valid_reason = reason_of(who, before.user, reason)
        if _ends_it(before, change, now):
            after = writing.replace(ended(before, who, now, reason=valid_reason))
            audit_entries.booking(
                writing, "release", who, now, before=before, after=after, reason=valid_reason
            )
            return after
        evaluation = EvaluationContext.of(context, who, before.user, capacity)
        decision, guard = evaluation.decided(writing, now, _request(before, change), changing=before)
        wanted = _changed(before, decision, evaluation)
        if wanted is None:
            audit_entries.denied(writing, evaluation, decision, now)
            return refusal(decision)
        if not _differs(wanted, before):
            return before
        move_others(writing, decision)
        after = writing.replace(wanted, guard=None if _gives_back(before, wanted) else guard)
        audit_entries.booking(writing, "change", who, now, before=before, after=after, reason=valid_reason)
        return after

    trial = _trial(context, who, booking_id, change, capacity=capacity, expected=None, reason=reason)
    return granted(context, once(context, who, decide, kind=Record, key=key), trial)


def dry_run(
    context: ServiceContext,
    who: Principal,
    booking_id: str,
    change: BookingChange,
    *,
    expected: Expected,
    reason: str | None,
) -> Decision:
    """The answer that ``change`` would give."""
    capacity = context.capacity()
    return context.store.read(
        _trial(context, who, booking_id, change, capacity=capacity, expected=expected, reason=reason)
    )


def _trial(
    context: ServiceContext,
    who: Principal,
    booking_id: str,
    change: BookingChange,
    *,
    capacity: Capacity,
    expected: Expected,
    reason: str | None,
) -> Callable[[Reading], Decision]:
    """A function that evaluates the change now, with alternatives."""

    def decide(reading: Reading) -> Decision:
        now = context.clock.now()
        before = allowed(reading, who, booking_id, "change", now=now, expected=expected)
        valid_reason = reason_of(who, before.user, reason)
        if _ends_it(before, change, now):
            return _end(ended(before, who, now, reason=valid_reason))
        evaluation = EvaluationContext.of(context, who, before.user, capacity)
        return evaluation.judged(reading, now, _request(before, change), changing=before)

    return decide


def _ends_it(record: Record, change: BookingChange, now: datetime) -> bool:
    """Whether a running booking would be over: that is a release, to which the rules do not apply."""
    end = change.end
    if record.state(now) != "active" or end is UNSET or any(request_validation.of_instant("end", end)):
        return False
    is_moved = change.start is not UNSET and change.start != record.start
    return not is_moved and record.start < end <= now


def _request(record: Record, change: BookingChange) -> BookingRequest:
    """The whole booking as it should become.

    One GPU is always on one node. If more are requested, the topology is chosen as for a new booking.
    """
    count = record.count if change.count is UNSET else change.count
    return BookingRequest(
        model=record.model,
        start=record.start if change.start is UNSET else change.start,
        end=record.end if change.end is UNSET else change.end,
        count=count,
        memory=record.memory if change.memory is UNSET else change.memory,
        namespace=record.namespace if change.namespace is UNSET else change.namespace,
        topology=None if record.count == 1 and count != 1 else record.topology,
    )


def _changed(record: Record, decision: Decision, evaluation: EvaluationContext) -> Record | None:
    """The booking as it was decided; None where it was not."""
    if decision.start is None or decision.end is None or not decision.is_accepted:
        return None
    return msgspec.structs.replace(
        record,
        count=decision.count,
        memory=decision.memory,
        topology=decision.topology,
        namespace=decision.namespace,
        start=decision.start,
        end=decision.end,
        plan=decision.plan,
        policy=evaluation.version,
    )


def _differs(one: Record, other: Record) -> bool:
    """Whether they differ for people: another place, or a newer policy, is not a change by itself."""
    return any(
        getattr(one, name) != getattr(other, name)
        for name in ("start", "end", "count", "memory", "namespace")
    )


def _gives_back(before: Record, after: Record) -> bool:
    """Whether nothing is taken beyond what it already has: then the calendar may be overfull."""
    is_no_more = after.count <= before.count and (after.memory or 0) <= (before.memory or 0)
    return before.start <= after.start and after.end <= before.end and is_no_more


def _end(record: Record) -> Decision:
    """The decision that stands for a release: always accepted."""
    return Decision(
        model=record.model,
        count=record.count,
        memory=record.memory,
        topology=record.topology,
        namespace=record.namespace,
        start=record.start.astimezone(UTC),
        end=record.end,
        plan=record.plan,
    )
