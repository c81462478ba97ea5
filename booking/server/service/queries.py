"""What a user sees of bookings: their own, as an administrator all, and of all the load."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from booking.policy.limits import limit_values
from booking.policy.visibility import may_see_user
from booking.principals import Principal
from booking.server import calendar
from booking.server.availability.calendars import Calendar, instant, loads_of
from booking.server.availability.current_plan import blocks_of
from booking.server.calendar import Load, Lost, Step
from booking.server.capacity.capacity import Capacity
from booking.server.errors import RefusedError
from booking.server.evaluation import request_validation
from booking.server.records import Place, Record
from booking.server.service.authorization import found, require_administrator
from booking.server.service.context import ServiceContext
from booking.server.service.evaluation import EvaluationContext
from booking.server.service.overview import Booked, Overview
from booking.server.service.pagination import Page, bounded, no_page
from booking.server.store import Reading
from booking.server.store_records import Block, Filters
from cluster import names

_MOMENT: Final = timedelta(seconds=1)


class ModelAvailability(msgspec.Struct, frozen=True):
    """How much of a model is free over a span."""

    model: str
    capacity: int
    """Whole healthy GPUs at present."""
    steps: tuple[Step, ...]
    """Without gaps, from the span's start to its end; the capacity excludes devices in maintenance at the
    time."""
    memory: int | None = None
    """MiB of each GPU that can be booked in shares; None if GPUs of this model are booked whole only."""
    nodes: Mapping[str, int] = {}
    """Node -> whole healthy GPUs of the model at present."""
    blocks: tuple[Block, ...] = ()
    """Maintenance in the span, of these nodes."""
    bookings: tuple[Booked, ...] = ()
    """In the span; only those whose owner the caller may see."""


def listed(
    context: ServiceContext, who: Principal, filters: Filters, *, after: str | None, limit: int
) -> Page[Record]:
    """A page of bookings."""
    if not who.is_administrator:
        if filters.user not in {None, who.user}:
            require_administrator(who, "see bookings of others")
        filters = msgspec.structs.replace(filters, user=who.user)

    def ask(reading: Reading) -> Page[Record]:
        try:
            found, following = reading.page(
                filters, now=context.clock.now(), after=after, limit=bounded(limit)
            )
        except (ValueError, OverflowError) as error:
            raise no_page(after) from error
        return Page(tuple(found), following)

    return context.store.read(ask)


def show(context: ServiceContext, who: Principal, booking_id: str) -> Record:
    """One of the caller's bookings; administrators see all users'."""
    return context.store.read(lambda reading: found(reading, who, booking_id))


def availability(
    context: ServiceContext, who: Principal, model: str | None, *, start: datetime, end: datetime
) -> tuple[ModelAvailability, ...]:
    """The free devices, by model."""
    capacity = context.capacity()
    label = None if model is None else names.model_label(model)
    wrong = request_validation.of_question(label, start, end, capacity=capacity)
    if wrong:
        raise RefusedError(wrong)
    start, end = start.astimezone(UTC), end.astimezone(UTC)
    now = context.clock.now()
    records, blocks = context.store.read(
        lambda reading: (reading.ending_after(start, model=label), reading.blocks(start=now))
    )

    booked = _visible_bookings(context, who, start, end)

    def availability_of(model: str) -> ModelAvailability:
        nodes = capacity.devices.get(model, {})
        of_model = [record for record in records if record.model == model]
        return ModelAvailability(
            model=model,
            capacity=capacity.total(model),
            memory=capacity.memories.get(model),
            steps=_steps(loads_of(of_model), model, capacity, blocks, now=now, span=(start, end)),
            nodes=nodes,
            blocks=tuple(
                block
                for block in blocks
                if block.node in nodes
                and block.model in {None, model}
                and block.start < end
                and start < block.end
            ),
            bookings=tuple(each for each in booked(of_model) if each.user is not None),
        )

    return tuple(availability_of(each) for each in ([label] if label is not None else capacity.models))


def bookable(context: ServiceContext) -> Mapping[str, int]:
    """Model -> GPUs that the calendar leaves for a booking that begins now."""
    capacity = context.capacity()

    def ask(reading: Reading) -> dict[str, int]:
        now = context.clock.now()
        blocks = reading.blocks(start=now)
        return {
            model: _steps(
                context.calendars.of(model, reading, now).loads(),
                model,
                capacity,
                blocks,
                now=now,
                span=(now, now + _MOMENT),
            )[0].free
            for model in capacity.models
        }

    return context.store.read(ask)


def overview(context: ServiceContext, who: Principal, start: datetime, end: datetime) -> Overview:
    """Capacity, bookings and maintenance in a span, for the calendar of the page."""
    capacity = context.capacity()
    wrong = request_validation.of_question(None, start, end, capacity=capacity)
    if wrong:
        raise RefusedError(wrong)

    booked = _visible_bookings(context, who, start, end)

    def ask(reading: Reading) -> Overview:
        now = context.clock.now()
        return Overview(
            capacity=capacity,
            booked={
                model: tuple(booked(context.calendars.of(model, reading, now).records.values()))
                for model in capacity.models
            },
            blocks=tuple(reading.blocks(start=start, end=end)),
            lanes={
                model: tuple(_visible_lanes(context.calendars.of(model, reading, now), who))
                for model in capacity.models
            },
        )

    return context.store.read(ask)


def _steps(
    records: Iterable[Load],
    model: str,
    capacity: Capacity,
    blocks: Sequence[Block],
    *,
    now: datetime,
    span: tuple[datetime, datetime],
) -> tuple[Step, ...]:
    """What bookings, maintenance, grants and unresponsive nodes leave of a model over a span."""
    loads = blocks_of(model, capacity, blocks, now, pauses=capacity.pauses.get(model, ()))
    lost = (
        Lost(datetime.fromtimestamp(since, UTC), datetime.fromtimestamp(until, UTC), count)
        for _, since, until, count in loads
    )
    return calendar.availability(records, *span, capacity=capacity.total(model), lost=lost)


def _visible_bookings(
    context: ServiceContext, who: Principal, start: datetime, end: datetime
) -> Callable[[Iterable[Record]], Iterator[Booked]]:
    """Bookings of a span, as a user sees them."""
    visibility = context.current_policy.policy().visibility

    def visible(records: Iterable[Record]) -> Iterator[Booked]:
        for record in records:
            if record.start < end and record.end > start:
                user = record.user if may_see_user(who, record.user, visibility) else None
                is_mine = record.user == who.user
                yield Booked(
                    record.count, record.start, record.end, is_mine, record.places, user, record.memory
                )

    return visible


def _visible_lanes(calendar: Calendar, who: Principal) -> Iterator[Booked]:
    for key, lane in calendar.lanes.items():
        item = lane.item
        is_mine = any(calendar.records[booking].user == who.user for booking in calendar.members(key))
        plan = (Place(lane.node, item.size),) if lane.node else ()
        yield Booked(item.size, instant(item.start), instant(item.end), is_mine, plan)


def limits(context: ServiceContext, who: Principal, *, model: str | None) -> Mapping[str, Any]:
    """The limits that hold for the caller now, of one model or of all."""
    evaluation = EvaluationContext.of(context, who, who.user)
    label = "" if model is None else names.model_label(model)
    return context.store.read(
        lambda reading: limit_values(evaluation.limits_for(reading, context.clock.now())(label))
    )
