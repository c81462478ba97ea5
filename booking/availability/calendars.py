"""The bookings of each model at one change of the store: read once, then kept up to date.

A calendar is immutable; its successor shares the unchanged parts with it. So any number of threads may read
one, and a transaction that sees an older state of the database than the newest builds its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from booking.records import Record
from cluster.decide.booking_plan import Block, ModelPlan, Placed, PlannedBooking, Timeline, is_whole

FEW: Final = 250
"""A calendar is rebuilt, without past bookings, after more changes than it had bookings when it
was built, and more than this number: so it is never much larger than what is booked."""


class Source(Protocol):
    """A transaction of the booking database."""

    def change(self) -> int:
        """Number of the newest change that the transaction sees."""
        ...

    @property
    def has_written(self) -> bool:
        """Whether it has written something, and so sees what is not committed yet."""
        ...

    def ending_after(self, instant: datetime, *, model: str | None = None) -> Sequence[Record]:
        """Bookings that are not cancelled and end after the instant."""
        ...

    def changed_after(self, change: int, *, model: str | None = None) -> Sequence[Record]:
        """Bookings, cancelled ones too, that were written by a change after this one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """All bookings of one model."""

    change: int = 0
    """Number of the change of the store up to which the calendar is current."""
    records: Mapping[str, Record] = field(default_factory=dict)
    """Id -> booking that is not cancelled and was not over when the calendar was read."""
    load: Timeline = field(default_factory=Timeline)
    """Booked devices over time, on whichever nodes."""
    wholes: dict[str, datetime] = field(default_factory=dict)
    """Id -> end, of each booking that needs one node for all its devices."""
    age: int = 0
    """Number of changes applied since the calendar was read as a whole."""
    found: int = 0
    """Number of bookings at that time."""
    model_plans: dict[object, ModelPlan] = field(default_factory=dict)
    """The plan for the devices and blocks that were asked for last; computed on demand."""

    def has_wholes(self, now: datetime, *, without: str | None = None) -> bool:
        """Whether a booking that is not over, other than ``without``, needs one node for all its devices."""
        # The latest is rarely over, so it is checked first.
        return any(end > now and key != without for key, end in reversed(self.wholes.items()))

    def plan(self, devices: Mapping[str, int], blocks: tuple[Block, ...]) -> ModelPlan:
        """The plan that places all bookings on these devices; the last one is cached."""
        key = (tuple(devices.items()), blocks)
        found = self.model_plans.get(key)
        if found is None:
            placed = (each for record in self.records.values() for each in planned_booking(record).placed())
            found = ModelPlan(devices, placed, blocks)
            self.model_plans.clear()
            self.model_plans[key] = found
        return found

    def after(self, changed: Iterable[Record], change: int) -> "Calendar":
        """The calendar with the current state of these bookings."""
        changed = tuple(changed)
        records, load, age = dict(self.records), self.load, self.age + len(changed)
        without: list[Placed] = []
        more: list[Placed] = []
        for record in changed:
            before = records.pop(record.id, None)
            if before is not None:
                load = load.plus(*_span(before), -before.count)
                without += planned_booking(before).placed()
            if record.cancelled is None and record.start < record.end:
                records[record.id] = record
                load = load.plus(*_span(record), record.count)
                more += planned_booking(record).placed()
        model_plans = {key: plan.changed(without, more) for key, plan in list(self.model_plans.items())}
        gone = self.wholes.keys() & {record.id for record in changed}
        new = _wholes(records[record.id] for record in changed if record.id in records)
        wholes = self.wholes
        if gone or new:
            wholes = wholes | new
            for key in gone - new.keys():
                del wholes[key]
        return replace(
            self, change=change, records=records, load=load, wholes=wholes, age=age, model_plans=model_plans
        )


def calendar_of(records: Iterable[Record], change: int = 0) -> Calendar:
    """The calendar of one model's bookings, built from scratch; cancelled ones do not count."""
    live = {record.id: record for record in records if record.cancelled is None and record.start < record.end}
    return Calendar(
        change=change,
        records=live,
        load=Timeline.of((*_span(record), record.count) for record in live.values()),
        wholes=_wholes(live.values()),
        found=len(live),
    )


class Calendars:
    """The newest calendar of every model that was asked for. Thread-safe."""

    def __init__(self) -> None:
        self._newest: dict[str, Calendar] = {}
        self._unstored: WeakKeyDictionary[Source, dict[str, Calendar]] = WeakKeyDictionary()
        """Calendars of transactions that have written: after a rollback others reuse their change numbers."""

    def of(self, model: str, source: Source, now: datetime) -> Calendar:
        """The calendar of a model, as this transaction sees it."""
        cache = self._unstored.setdefault(source, {}) if source.has_written else self._newest
        change, known = source.change(), cache.get(model) or self._newest.get(model)
        if known is not None and known.change == change:
            return known
        if known is None or known.change > change or known.age > max(FEW, known.found):
            made = calendar_of(source.ending_after(now, model=model), change)
        else:
            made = known.after(source.changed_after(known.change, model=model), change)
        newest = cache.get(model)
        if newest is None or newest.change <= change:
            cache[model] = made
        return made


def planned_booking(record: Record) -> PlannedBooking:
    """A booking in the form that the booking plan uses."""
    start, end = _span(record)
    return PlannedBooking(
        key=record.id,
        start=start,
        end=end,
        count=record.count,
        is_whole=is_whole(record.count, record.topology),
        plan=tuple((place.node, place.count) for place in record.plan),
    )


def seconds(moment: datetime) -> int:
    """An instant as a booking plan counts it: whole seconds since 1970."""
    return int(moment.timestamp())


def _wholes(records: Iterable[Record]) -> dict[str, datetime]:
    return {record.id: record.end for record in records if is_whole(record.count, record.topology)}


def _span(record: Record) -> tuple[int, int]:
    return seconds(record.start), seconds(record.end)
