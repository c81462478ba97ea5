"""Requesting GPUs: creating a booking, a dry run of that, and the earliest possible booking."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from booking.principals import Principal
from booking.server.errors import RefusedError
from booking.server.evaluation.evaluate import Decision
from booking.server.records import BookingRequest, Record, SlotRequest
from booking.server.service import audit_entries, slots
from booking.server.service.authorization import beneficiary
from booking.server.service.context import ServiceContext, whole
from booking.server.service.evaluation import EvaluationContext, granted, move_others, refusal
from booking.server.service.idempotency import Key, once
from booking.server.store import Reading, Writing


def create(
    context: ServiceContext, who: Principal, request: BookingRequest, *, user: str | None, key: Key | None
) -> Record:
    """Book, or record the request as denied demand."""
    evaluation_of = _evaluation_for(context, who, user)

    def decide(writing: Writing) -> Record | RefusedError:
        return _booked(evaluation_of(), writing, context.clock.now(), request)

    def again(reading: Reading) -> Decision:
        return evaluation_of().trial(request)(reading)

    return granted(context, once(context, who, decide, kind=Record, key=key), again)


def create_earliest(
    context: ServiceContext,
    who: Principal,
    booking_request: SlotRequest,
    *,
    user: str | None,
    key: Key | None,
) -> Record:
    """Book the first slot: it is found in the transaction that takes it."""
    evaluation_of = _evaluation_for(context, who, user)

    def decide(writing: Writing) -> Record | RefusedError:
        evaluation, now = evaluation_of(), context.clock.now()
        slots.require_instants(booking_request)
        try:
            slot = slots.first(evaluation, writing, now, booking_request)
        except RefusedError as refused:
            decision, _ = evaluation.decided(
                writing, now, slots.request_of(evaluation, writing, now, booking_request)
            )
            # The first start may be fine, and its end too late: record why there was no slot.
            why = msgspec.structs.replace(decision, violations=refused.violations)
            audit_entries.denied(writing, evaluation, why, now)
            return refused
        return _booked(evaluation, writing, now, slots.as_request(booking_request, slot.start, slot.end))

    def again(reading: Reading) -> Decision:
        return slots.trial(evaluation_of(), booking_request)(reading)

    return granted(context, once(context, who, decide, kind=Record, key=key), again)


def dry_run_earliest(
    context: ServiceContext, who: Principal, booking_request: SlotRequest, *, user: str | None
) -> Decision:
    """What ``create_earliest`` would answer."""
    evaluation = EvaluationContext.of(context, who, beneficiary(who, user, context.identity_rules))
    (slot,) = slots.earliest(context, who, booking_request, user=user, most=1)
    return context.store.read(evaluation.trial(slots.as_request(booking_request, slot.start, slot.end)))


def dry_run(
    context: ServiceContext, who: Principal, request: BookingRequest, *, user: str | None
) -> Decision:
    """What ``create`` would answer."""
    evaluation = EvaluationContext.of(context, who, beneficiary(who, user, context.identity_rules))
    return context.store.read(evaluation.trial(request))


def _evaluation_for(
    context: ServiceContext, who: Principal, user: str | None
) -> Callable[[], EvaluationContext]:
    """Creates a user's evaluation inside a transaction: a user id that nobody can have is refused there."""
    capacity = context.capacity()
    return lambda: EvaluationContext.of(
        context, who, beneficiary(who, user, context.identity_rules), capacity
    )


def _booked(
    evaluation: EvaluationContext, writing: Writing, now: datetime, request: BookingRequest
) -> Record | RefusedError:
    decision, guard = evaluation.decided(writing, now, request)
    wanted = _wanted(evaluation, decision, now)
    if wanted is None:
        audit_entries.denied(writing, evaluation, decision, now)
        return refusal(decision)
    move_others(writing, decision)
    record = writing.add(wanted, guard=guard)
    audit_entries.booking(writing, "create", evaluation.who, now, before=None, after=record)
    return record


def _wanted(evaluation: EvaluationContext, decision: Decision, now: datetime) -> Record | None:
    if decision.start is None or decision.end is None or not decision.is_accepted:
        return None
    return Record(
        id=evaluation.context.new_id(),
        user=evaluation.user,
        model=decision.model,
        count=decision.count,
        memory=decision.memory,
        topology=decision.topology,
        namespace=decision.namespace,
        start=decision.start,
        end=decision.end,
        created=whole(now),
        created_by="" if evaluation.user == evaluation.who.user else evaluation.who.user,
        plan=decision.plan,
        policy=evaluation.version,
    )
