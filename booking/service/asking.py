"""Asking for GPUs: a booking, a trial of one, or when there could be one."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from booking.errors import RefusedError
from booking.evaluate import Decision
from booking.principals import Principal
from booking.records import BookingRequest, Record, SlotRequest
from booking.service import auditing, slots
from booking.service.authority import beneficiary
from booking.service.ground import Ground, whole
from booking.service.judging import Bid, granted, move_others, refusal
from booking.service.once import Key, once
from booking.store import Reading, Writing


def create(
    ground: Ground, who: Principal, request: BookingRequest, *, user: str | None, key: Key | None
) -> Record:
    """Book, or keep in mind that somebody would have liked to."""
    bid_of = _bidder(ground, who, user)

    def decide(writing: Writing) -> Record | RefusedError:
        return _booked(bid_of(), writing, ground.clock.now(), request)

    def again(reading: Reading) -> Decision:
        return bid_of().trial(request)(reading)

    return granted(ground, once(ground, who, decide, kind=Record, key=key), again)


def create_earliest(
    ground: Ground, who: Principal, wish: SlotRequest, *, user: str | None, key: Key | None
) -> Record:
    """Book the first slot: it is found in the transaction that takes it."""
    bid_of = _bidder(ground, who, user)

    def decide(writing: Writing) -> Record | RefusedError:
        bid, now = bid_of(), ground.clock.now()
        slots.demand_instants(wish)
        try:
            slot = slots.first(bid, writing, now, wish)
        except RefusedError as refused:
            asked, _ = bid.decided(writing, now, slots.request_of(bid, writing, now, wish))
            # The first start may be fine, and its end too late: what is recorded is why there was no slot.
            why = msgspec.structs.replace(asked, violations=refused.violations)
            auditing.denied(writing, bid, why, now)
            return refused
        return _booked(bid, writing, now, slots.as_request(wish, slot.start, slot.end))

    def again(reading: Reading) -> Decision:
        return slots.trial(bid_of(), wish)(reading)

    return granted(ground, once(ground, who, decide, kind=Record, key=key), again)


def dry_run_earliest(ground: Ground, who: Principal, wish: SlotRequest, *, user: str | None) -> Decision:
    """What ``create_earliest`` would answer."""
    bid = Bid.of(ground, who, beneficiary(who, user, ground.identity_rules))
    (slot,) = slots.earliest(ground, who, wish, user=user, most=1)
    return ground.store.read(bid.trial(slots.as_request(wish, slot.start, slot.end)))


def dry_run(ground: Ground, who: Principal, request: BookingRequest, *, user: str | None) -> Decision:
    """What ``create`` would answer."""
    bid = Bid.of(ground, who, beneficiary(who, user, ground.identity_rules))
    return ground.store.read(bid.trial(request))


def _bidder(ground: Ground, who: Principal, user: str | None) -> Callable[[], Bid]:
    """What makes a bid for somebody inside a transaction: whom nobody can mean is refused there."""
    capacity = ground.capacity()
    return lambda: Bid.of(ground, who, beneficiary(who, user, ground.identity_rules), capacity)


def _booked(bid: Bid, writing: Writing, now: datetime, request: BookingRequest) -> Record | RefusedError:
    decision, guard = bid.decided(writing, now, request)
    wanted = _wanted(bid, decision, now)
    if wanted is None:
        auditing.denied(writing, bid, decision, now)
        return refusal(decision)
    move_others(writing, decision)
    record = writing.add(wanted, guard=guard)
    auditing.booking(writing, "create", bid.who, now, before=None, after=record)
    return record


def _wanted(bid: Bid, decision: Decision, now: datetime) -> Record | None:
    if decision.start is None or decision.end is None or not decision.is_accepted:
        return None
    return Record(
        id=bid.ground.new_id(),
        user=bid.user,
        model=decision.model,
        count=decision.count,
        topology=decision.topology,
        namespace=decision.namespace,
        start=decision.start,
        end=decision.end,
        created=whole(now),
        created_by="" if bid.user == bid.who.user else bid.who.user,
        plan=decision.plan,
        policy=bid.version,
    )
