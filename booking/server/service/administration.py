"""Administration besides booking: maintenance, exemptions, audit log and denied requests."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Final

from booking import durations, wording
from booking.policy.limits import Limits
from booking.policy.policy import read_exemption
from booking.policy.values import ValueMistakeError
from booking.principals import Principal
from booking.server.capacity.capacity import Capacity
from booking.server.errors import RefusedError, UnknownBlockError, UnknownExemptionError
from booking.server.evaluation import request_validation
from booking.server.records import Violation
from booking.server.service import audit_entries, pagination
from booking.server.service.authorization import (
    beneficiary,
    optional_reason,
    require_administrator,
    required_reason,
)
from booking.server.service.context import ServiceContext, whole
from booking.server.service.idempotency import Key, judged
from booking.server.service.pagination import Page
from booking.server.store import Reading, Writing
from booking.server.store_records import AuditEntry, Block, Denied, Exemption
from cluster import names

_FARTHEST: Final = Limits().farthest
"""How far ahead maintenance and exemptions may reach, whatever the policy says about bookings."""

_MOST: Final = 256
"""GPUs of one node. May exceed its present number: some may be unhealthy, and healthy again by then."""


def blocks(context: ServiceContext) -> tuple[Block, ...]:
    """Maintenance that is not over."""
    return context.store.read(lambda reading: tuple(reading.blocks(start=context.clock.now())))


def add_block(
    context: ServiceContext,
    who: Principal,
    *,
    node: str,
    start: datetime,
    end: datetime,
    reason: str,
    model: str | None,
    count: int | None,
    key: Key | None,
    dry_run: bool,
) -> Block:
    """Add a maintenance block: GPUs of a node cannot be booked for a time."""
    require_administrator(who, "block GPUs")
    capacity = context.capacity()
    label = None if model is None else names.model_label(model)

    def judge(_: Reading) -> Block:
        valid_reason, now = required_reason(reason), whole(context.clock.now())
        wrong = [*_wrong_span(start, end, now), *_wrong_devices(node, label, count, capacity)]
        if wrong:
            raise RefusedError(wrong)
        return Block(
            id=context.new_id(),
            node=node,
            model=label,
            count=count,
            start=max(now, whole(start.astimezone(UTC))),
            end=whole(end.astimezone(UTC)),
            reason=valid_reason,
            created_by=who.user,
            created=now,
        )

    def keep(writing: Writing, block: Block) -> None:
        writing.block_add(block)
        audit_entries.written(
            writing, "block.add", who, block.created, subject=block.id, after=block, reason=block.reason
        )

    return judged(context, who, judge, keep, kind=Block, key=key, dry_run=dry_run)


def remove_block(
    context: ServiceContext,
    who: Principal,
    block_id: str,
    *,
    reason: str | None,
    key: Key | None,
    dry_run: bool,
) -> Block:
    """Remove a maintenance block."""
    require_administrator(who, "remove maintenance")
    valid_reason = optional_reason(reason)

    def judge(reading: Reading) -> Block:
        block = reading.block(block_id)
        if block is None:
            raise UnknownBlockError(f"There is no maintenance block {wording.quoted(block_id)}.")
        return block

    def keep(writing: Writing, block: Block) -> None:
        writing.block_remove(block_id)
        now = context.clock.now()
        audit_entries.written(
            writing, "block.remove", who, now, subject=block_id, before=block, reason=valid_reason
        )

    return judged(context, who, judge, keep, kind=Block, key=key, dry_run=dry_run)


def block_page(context: ServiceContext, *, after: str | None, limit: int) -> Page[Block]:
    """Maintenance that is not over, a page at a time."""
    return pagination.by_start(blocks(context), after=after, limit=limit)


def exemptions(
    context: ServiceContext, who: Principal, *, user: str | None, after: str | None, limit: int
) -> Page[Exemption]:
    """Exemptions that are not over, a page at a time."""
    whose = (
        beneficiary(who, user, context.identity_rules)
        if user is not None or not who.is_administrator
        else None
    )
    now = context.clock.now()
    found = context.store.read(lambda reading: reading.exemptions(whose, None))
    return pagination.by_start((each for each in found if each.end > now), after=after, limit=limit)


def add_exemption(
    context: ServiceContext,
    who: Principal,
    *,
    user: str,
    start: datetime,
    end: datetime,
    limits: Mapping[str, Any],
    reason: str,
    model: str | None,
    key: Key | None,
    dry_run: bool,
) -> Exemption:
    """Let other limits hold for a user."""
    require_administrator(who, "exempt somebody")
    label = None if model is None else names.model_label(model)
    unknown = [] if label is None else [*_wrong_model(label, context.capacity())]

    def judge(_: Reading) -> Exemption:
        whose, valid_reason = beneficiary(who, user, context.identity_rules), required_reason(reason)
        now = whole(context.clock.now())
        wrong = [*_wrong_span(start, end, now), *_wrong_limits(limits), *unknown]
        if wrong:
            raise RefusedError(wrong)
        return Exemption(
            id=context.new_id(),
            user=whose,
            limits=dict(limits),
            model=label,
            start=whole(start.astimezone(UTC)),
            end=whole(end.astimezone(UTC)),
            reason=valid_reason,
            created_by=who.user,
            created=now,
        )

    def keep(writing: Writing, made: Exemption) -> None:
        writing.exemption_add(made)
        audit_entries.written(
            writing, "exemption.add", who, made.created, subject=made.id, after=made, reason=made.reason
        )

    return judged(context, who, judge, keep, kind=Exemption, key=key, dry_run=dry_run)


def remove_exemption(
    context: ServiceContext,
    who: Principal,
    exemption_id: str,
    *,
    reason: str | None,
    key: Key | None,
    dry_run: bool,
) -> Exemption:
    """Delete an exemption, and write who did it and why into the audit log."""
    require_administrator(who, "remove exemptions")
    valid_reason = optional_reason(reason)

    def judge(reading: Reading) -> Exemption:
        exemption = reading.exemption(exemption_id)
        if exemption is None:
            raise UnknownExemptionError(f"There is no exemption {wording.quoted(exemption_id)}.")
        return exemption

    def keep(writing: Writing, exemption: Exemption) -> None:
        writing.exemption_remove(exemption_id)
        now = context.clock.now()
        audit_entries.written(
            writing, "exemption.remove", who, now, subject=exemption_id, before=exemption, reason=valid_reason
        )

    return judged(context, who, judge, keep, kind=Exemption, key=key, dry_run=dry_run)


def audit(
    context: ServiceContext,
    who: Principal,
    *,
    subject: str | None,
    actor: str | None,
    after: str | None,
    limit: int,
) -> Page[AuditEntry]:
    """A page of the audit log, newest first."""
    require_administrator(who, "see the audit")
    begin, most = pagination.number_of(after), pagination.bounded(limit)
    found = context.store.read(
        lambda reading: reading.audit_page(after=begin, limit=most + 1, subject=subject, actor=actor)
    )
    return Page(tuple(found[:most]), str(found[most - 1].number) if len(found) > most else None)


def denied(context: ServiceContext, who: Principal, *, after: str | None, limit: int) -> Page[Denied]:
    """A page of refused requests, newest first."""
    require_administrator(who, "see denied demand")
    begin, most = pagination.number_of(after), pagination.bounded(limit)
    found = context.store.read(lambda reading: reading.denied_page(after=begin, limit=most + 1))
    return Page(tuple(found[:most]), str(found[most - 1].number) if len(found) > most else None)


def _wrong_span(start: datetime, end: datetime, now: datetime) -> Iterator[Violation]:
    wrong = [*request_validation.of_instants(start=start, end=end)]
    yield from wrong
    if wrong:
        return
    if end <= start:
        yield Violation(
            rule="ends-before-it-starts",
            message=f"It ends at {wording.instant(end)}, "
            f"which is not after its start {wording.instant(start)}.",
        )
    elif end <= now:
        yield Violation(
            rule="ends-in-the-past",
            message=f"It ends at {wording.instant(end)}, and it is {wording.instant(now)} already.",
        )
    elif end > (farthest := durations.after(now, _FARTHEST, UTC)):
        yield Violation(
            rule="too-far-ahead",
            message=f"It ends at {wording.instant(end)}, "
            f"and nothing is planned after {wording.instant(farthest)}.",
            limit=wording.iso(farthest),
            actual=wording.iso(end),
        )


def _wrong_limits(limits: Mapping[str, Any]) -> Iterator[Violation]:
    try:
        read_exemption(limits)
    except ValueMistakeError as error:
        yield Violation(rule="not-a-limit", message=str(error))


def _wrong_model(model: str, capacity: Capacity) -> Iterator[Violation]:
    if model not in capacity.devices:
        yield request_validation.unknown_model(model, capacity)


def _wrong_devices(
    node: str, model: str | None, count: int | None, capacity: Capacity
) -> Iterator[Violation]:
    known = sorted({name for on_nodes in capacity.devices.values() for name in on_nodes})
    if node not in known:
        near = get_close_matches(wording.clipped(node), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {wording.listed(known) or 'none'}."
        yield Violation(
            rule="unknown-node",
            message=f"No node with GPUs is called {wording.quoted(node)}: {hint}",
            actual=wording.clipped(node),
        )
    elif model is not None and model in capacity.devices and node not in capacity.devices[model]:
        there = (other for other, on_nodes in capacity.devices.items() if node in on_nodes)
        yield Violation(
            rule="not-on-this-node",
            message=f"Node {node} has no GPU of model {model}: there are {wording.listed(sorted(there))}.",
            actual=model,
        )
    if model is not None:
        yield from _wrong_model(model, capacity)
    if count is not None and count < 1:
        yield Violation(
            rule="count-below-one",
            message=f"Maintenance is of at least 1 GPU, not {count}.",
            limit=1,
            actual=count,
        )
    elif count is not None and count > _MOST:
        yield Violation(
            rule="more-than-a-node-has",
            message=f"No node has {count} GPUs: leave the count out to take all of them.",
            limit=_MOST,
            actual=count,
        )
