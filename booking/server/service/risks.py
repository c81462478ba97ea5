"""Bookings that cannot be kept at present: computed from the stored plan and the capacity."""

from collections.abc import Iterable
from datetime import datetime

from booking.principals import Principal
from booking.server.availability.replan import replanned
from booking.server.evaluation.alternatives import Alternative
from booking.server.evaluation.evaluate import instead_of
from booking.server.records import Record
from booking.server.service.authorization import found
from booking.server.service.context import ServiceContext
from booking.server.service.evaluation import EvaluationContext
from booking.server.service.remembered_alternatives import Basis
from booking.server.store import Reading
from booking.server.store_records import Block


def at_risk(context: ServiceContext, records: Iterable[Record]) -> frozenset[str]:
    """Ids of the bookings at risk among these."""
    live = {record.id: record.model for record in records}
    if not live:
        return frozenset()
    capacity = context.capacity()

    def ask(reading: Reading) -> frozenset[str]:
        now = context.clock.now()
        blocks = reading.blocks(start=now)
        found: set[str] = set()
        for model in sorted(set(live.values())):
            calendar = context.calendars.of(model, reading, now)
            found |= replanned(model, calendar, capacity, now, blocks=blocks).at_risk
        return frozenset(found & live.keys())

    return context.store.read(ask)


def affected(context: ServiceContext, block: Block) -> tuple[Record, ...]:
    """Bookings during a block that cannot be kept at present, by start; the block need not be stored."""
    capacity = context.capacity()
    models = [model for model, nodes in capacity.devices.items() if block.node in nodes]

    def ask(reading: Reading) -> tuple[Record, ...]:
        now = context.clock.now()
        blocks = [*(each for each in reading.blocks(start=now) if each.id != block.id), block]
        found: list[Record] = []
        for model in models if block.model is None else [block.model]:
            calendar = context.calendars.of(model, reading, now)
            lost = replanned(model, calendar, capacity, now, blocks=blocks).at_risk
            records = (calendar.records[key] for key in lost)
            found += (one for one in records if one.start < block.end and block.start < one.end)
        return tuple(sorted(found, key=lambda one: (one.start, one.id)))

    return context.store.read(ask)


def alternatives(context: ServiceContext, who: Principal, booking_id: str) -> tuple[Alternative, ...]:
    """What the owner could have instead of a booking that cannot be kept.

    The search takes most of a second of processor time on a large site: its answer is remembered.
    """
    capacity = context.capacity()

    def ask(reading: Reading) -> tuple[Alternative, ...]:
        now = context.clock.now()
        record = found(reading, who, booking_id)
        if record.state(now) not in {"planned", "active"}:
            return ()
        basis = Basis(reading.change(), capacity, context.current_policy.policy())
        return context.alternatives.get(
            who, booking_id, basis, now=now, compute=lambda: search(reading, record, now)
        )

    def search(reading: Reading, record: Record, now: datetime) -> tuple[Alternative, ...]:
        evaluation = EvaluationContext.of(context, who, record.user, capacity)
        return instead_of(
            record,
            now,
            evaluation.limits_for(reading, now),
            history=reading.history(record.user),
            free_capacity_for=evaluation.free_capacity_for(reading, now, changing=record),
            capacity=capacity,
        )

    return context.store.read(ask)
