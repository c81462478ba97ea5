"""The bookings of each model at one change of the store: read once, then kept up to date.

A calendar is immutable; its successor shares the unchanged parts with it. So any number of threads may read
one, and a transaction that sees an older state of the database than the newest builds its own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Protocol
from weakref import WeakKeyDictionary

import msgspec

from booking.server.calendar import Lost
from booking.server.records import Place, Record
from cluster.decide.booking_plan import (
    NO_NODE,
    Block,
    Lane,
    ModelPlan,
    Placed,
    PlannedBooking,
    Timeline,
    is_whole,
    lane_pins,
    lanes_of,
    shares_of,
)
from cluster.decide.booking_plan import places as places_of

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
    """Id -> end, of each booking that needs one node for all its devices, or is of shares."""
    shares: Mapping[str, Record] = field(default_factory=dict)
    """Those of the records that are of shares."""
    lanes: Mapping[str, Lane] = field(default_factory=dict)
    """Their lanes, by key."""
    age: int = 0
    """Number of changes applied since the calendar was read as a whole."""
    found: int = 0
    """Number of bookings at that time."""
    model_plans: dict[object, ModelPlan] = field(default_factory=dict)
    """The plan for the devices and blocks that were asked for last; computed on demand."""

    def has_wholes(self, now: datetime, *, without: str | None = None) -> bool:
        """Whether places matter: a booking that is not over, other than ``without``, is one of ``wholes``."""
        # The latest is rarely over, so it is checked first.
        return any(end > now and key != without for key, end in reversed(self.wholes.items()))

    def without(self, records: Iterable[Record]) -> "Calendar":
        """The calendar as if these of its bookings had been cancelled."""
        gone = [msgspec.structs.replace(record, cancelled=record.created) for record in records]
        return self.after(gone, self.change) if gone else self

    def past_shares(self, now: datetime) -> list[Record]:
        """Bookings of shares that are over: they would hold lanes together."""
        return [record for record in self.shares.values() if record.end <= now]

    # --- what the plan places: bookings of whole devices, and lanes -------------------------------------
    @property
    def units(self) -> Iterable[str]:
        """Keys of everything that the plan places."""
        return (*(key for key in self.records if key not in self.shares), *self.lanes)

    def unit(self, key: str) -> PlannedBooking:
        """A booking of whole devices, or a lane.

        Raises:
            KeyError: there is none.
        """
        lane = self.lanes.get(key)
        return lane.planned if lane else planned_booking(self.records[key])

    def has_unit(self, key: str) -> bool:
        """Whether there is one of this key."""
        return key in self.lanes or (key in self.records and key not in self.shares)

    def members(self, key: str) -> tuple[str, ...]:
        """The bookings of a unit."""
        lane = self.lanes.get(key)
        return tuple({share.booking: None for share in lane.shares}) if lane else (key,)

    def created(self, key: str) -> datetime:
        """When the first booking of a unit was made."""
        return min(self.records[booking].created for booking in self.members(key))

    def unit_pins(self, pins: Mapping[str, Mapping[str, int]]) -> Mapping[str, Mapping[str, int]]:
        """Unit -> node -> devices that pods have there, for the same of bookings."""
        if not self.shares:
            return pins
        whole = {key: nodes for key, nodes in pins.items() if key not in self.shares}
        return {**whole, **lane_pins(self.lanes.values(), pins)}

    def plans(self, units: Mapping[str, Sequence[tuple[str, int]]]) -> dict[str, tuple[Place, ...]]:
        """Booking id -> its plan, where units have these plans: (node, devices). None for a lane: no node."""
        found = {
            key: tuple(Place(node, count) for node, count in plan)
            for key, plan in units.items()
            if key not in self.lanes
        }
        lanes = {key: plan for key, plan in units.items() if key in self.lanes}
        nodes = {
            (share.booking, share.serial): plan[0][0] if plan else NO_NODE
            for key, plan in lanes.items()
            for share in self.lanes[key].shares
        }
        for booking in {booking for booking, _ in nodes}:
            shares = shares_of(planned_booking(self.records[booking]))
            found[booking] = share_plan(places_of(shares, nodes))
        return found

    def loads(self) -> Iterable[Record | Lost]:
        """Everything that uses devices over time."""
        return loads_of(self.records.values())

    def plan(self, devices: Mapping[str, int], blocks: tuple[Block, ...]) -> ModelPlan:
        """The plan that places all bookings on these devices; the last one is cached."""
        key = (tuple(devices.items()), blocks)
        found = self.model_plans.get(key)
        if found is None:
            placed = (each for key in self.units for each in self.unit(key).placed())
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
            if before is not None and before.memory is None:
                load = load.plus(*_span(before), -before.count)
                without += planned_booking(before).placed()
            if record.cancelled is None and record.start < record.end:
                records[record.id] = record
                if record.memory is None:
                    load = load.plus(*_span(record), record.count)
                    more += planned_booking(record).placed()
        shares, lanes = self.shares, self.lanes
        if any(record.memory is not None or record.id in shares for record in changed):
            kept = {key: records[key] for key in shares if key in records}
            shares = _shares({**kept, **_by_id(changed, records)})
            lanes = _lanes(shares.values())
            for lane in _others(self.lanes, lanes):
                load = load.plus(lane.item.start, lane.item.end, -lane.item.size)
                without += lane.planned.placed()
            for lane in _others(lanes, self.lanes):
                load = load.plus(lane.item.start, lane.item.end, lane.item.size)
                more += lane.planned.placed()
        model_plans = {key: plan.changed(without, more) for key, plan in list(self.model_plans.items())}
        return replace(
            self,
            change=change,
            records=records,
            load=load,
            wholes=self._wholes_after(changed, records),
            shares=shares,
            lanes=lanes,
            age=age,
            model_plans=model_plans,
        )

    def _wholes_after(self, changed: Iterable[Record], records: Mapping[str, Record]) -> dict[str, datetime]:
        new, gone = (
            _wholes(_by_id(changed, records).values()),
            self.wholes.keys() & {one.id for one in changed},
        )
        wholes = self.wholes
        if gone or new:
            wholes = wholes | new
            for key in gone - new.keys():
                del wholes[key]
        return wholes


def calendar_of(records: Iterable[Record], change: int = 0) -> Calendar:
    """The calendar of one model's bookings, built from scratch; cancelled ones do not count."""
    live = {record.id: record for record in records if record.cancelled is None and record.start < record.end}
    shares = _shares(live)
    lanes = _lanes(shares.values())
    whole = ((*_span(record), record.count) for record in live.values() if record.memory is None)
    return Calendar(
        change=change,
        records=live,
        load=Timeline.of(
            (*whole, *((it.start, it.end, it.size) for it in (one.item for one in lanes.values())))
        ),
        wholes=_wholes(live.values()),
        shares=shares,
        lanes=lanes,
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


def loads_of(records: Iterable[Record]) -> list[Record | Lost]:
    """What bookings of one model use over time: whole devices, and lanes."""
    records = tuple(records)
    lanes = _lanes(record for record in records if record.memory is not None)
    return [
        *(record for record in records if record.memory is None),
        *(Lost(instant(it.start), instant(it.end), it.size) for it in (one.item for one in lanes.values())),
    ]


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
        memory=record.memory,
        devices=tuple(number for place in record.plan for number in place.lanes),
    )


def share_plan(places: Iterable[tuple[str, tuple[int, ...]]]) -> tuple[Place, ...]:
    """The plan of a booking of shares: its nodes, and the devices there."""
    return tuple(Place(node, len(devices), devices) for node, devices in places)


def instant(at: int) -> datetime:
    """The instant for a booking plan's number of seconds."""
    return datetime.fromtimestamp(at, UTC)


def seconds(moment: datetime) -> int:
    """An instant as a booking plan counts it: whole seconds since 1970."""
    return int(moment.timestamp())


def _wholes(records: Iterable[Record]) -> dict[str, datetime]:
    return {
        record.id: record.end
        for record in records
        if record.memory is not None or is_whole(record.count, record.topology)
    }


def _shares(records: Mapping[str, Record]) -> dict[str, Record]:
    return {key: record for key, record in records.items() if record.memory is not None}


def _by_id(changed: Iterable[Record], records: Mapping[str, Record]) -> dict[str, Record]:
    return {record.id: records[record.id] for record in changed if record.id in records}


def _others(lanes: Mapping[str, Lane], than: Mapping[str, Lane]) -> Iterator[Lane]:
    """Those of the lanes that are elsewhere among the others, or not there."""
    for key, lane in lanes.items():
        if key not in than or (than[key].item, than[key].node) != (lane.item, lane.node):
            yield lane


def _lanes(records: Iterable[Record]) -> dict[str, Lane]:
    shares = (share for record in records for share in shares_of(planned_booking(record)))
    return {lane.item.key: lane for lane in lanes_of(shares)}


def _span(record: Record) -> tuple[int, int]:
    return seconds(record.start), seconds(record.end)
