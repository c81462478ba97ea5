"""What becomes of promises when nodes change: which bookings find another place, and which are at risk. Pure.

Nothing is cancelled. Where devices have disappeared, those that were booked first keep their promise, and
those whose pods run where they are before all others; the latest ones are at risk.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from booking.capacity import Capacity
from booking.promises.calendars import Calendar, calendar_of, promise_of, seconds
from booking.promises.ground import Ground, blocks_of, follow, ground_of
from booking.records import Place, Record
from booking.stored import Block
from cluster.decide.witness import (
    NOWHERE,
    Board,
    Item,
    Placed,
    Promise,
    Shift,
    Steps,
    planned,
    strays,
)
from cluster.decide.witness import Block as Load
from cluster.decide.witness.steps import BEGINNING, FOR_EVER

STEPS: Final = 5_000
"""Places that are tried for all bookings of a model together; this is nobody's transaction."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is to be done about the bookings of a model, and what cannot be helped."""

    plans: Mapping[str, tuple[Place, ...]] = field(default_factory=dict)
    """Booking id -> its new plan; those that keep theirs are left out."""
    at_risk: frozenset[str] = frozenset()
    """Bookings that cannot be honoured as things are."""


def at_risk(
    records: Iterable[Record], capacity: Capacity, now: datetime, blocks: Sequence[Block] = ()
) -> frozenset[str]:
    """Ids of the accepted bookings that cannot be honoured as things are.

    Args:
        records: everybody's; those that are over or cancelled do not matter.
        capacity: what can be had.
        now: this instant.
        blocks: maintenance.
    """
    of: dict[str, list[Record]] = {}
    for record in records:
        if record.cancelled is None and record.end > now:
            of.setdefault(record.model, []).append(record)
    found: set[str] = set()
    for model, theirs in of.items():
        found |= kept(model, calendar_of(theirs), capacity, now, blocks=blocks).at_risk
    return frozenset(found)


def kept(
    model: str, calendar: Calendar, capacity: Capacity, now: datetime, *, blocks: Sequence[Block] = ()
) -> Outcome:
    """How the promises of a model are kept from now on."""
    live = {key: record for key, record in calendar.records.items() if record.end > now}
    if not live:
        return Outcome()
    keeping = _Keeping(model, calendar, live, capacity, blocks_of(model, capacity, blocks, now), now)
    return keeping.watched() if calendar.has_wholes(now) or keeping.loads else keeping.summed()


@dataclass(frozen=True, slots=True)
class _Keeping:
    """One model at one instant."""

    model: str
    calendar: Calendar
    live: Mapping[str, Record]
    capacity: Capacity
    loads: tuple[Load, ...]
    now: datetime

    def summed(self) -> Outcome:
        """Nothing but single devices is promised: the sum says it all."""
        total, now = self.capacity.total(self.model), seconds(self.now)
        if self.calendar.load.most(now, FOR_EVER) <= total:
            return Outcome()
        load, lost = Steps(), set[str]()
        for record in self._ranked():
            start, end = max(now, seconds(record.start)), seconds(record.end)
            if load.most(start, end) + record.count <= total:
                load = load.plus(start, end, record.count)
            else:
                lost.add(record.id)
        return Outcome(at_risk=frozenset(lost))

    def watched(self) -> Outcome:
        """Every booking needs a place: as they stand, or with few of them moved, or all ranked anew."""
        board = self.calendar.board(self._devices, self.loads)
        ground = ground_of(board, self.calendar, self.capacity.pins, self.now)
        lifted = self._lifted(ground)
        if lifted is not None:
            shift = Shift(ground.board, fixed_until=BEGINNING, steps=STEPS)
            shift.fix(ground.fixed)
            for item, node in lifted:
                shift.take(item, node)
            if shift.settle([item for item, _ in lifted]):
                return Outcome(plans=ground.moved(dict(shift.places)))
        return self._anew()

    @property
    def _devices(self) -> Mapping[str, int]:
        return self.capacity.devices.get(self.model, {})

    def _ranked(self) -> list[Record]:
        pins = self.capacity.pins
        return sorted(self.live.values(), key=lambda one: (one.id not in pins, one.created, one.id))

    def _lifted(self, ground: Ground) -> list[Placed] | None:
        """Items that must go elsewhere so that no node is too full; None where that cannot be enough."""
        placed = {item for shelf in ground.board.shelves.values() for item in shelf.items}
        if any(item not in placed for key in self.live for item, _ in promise_of(self.live[key]).placed()):
            return None
        lifted: list[Placed] = []
        board, now = ground.board, seconds(self.now)
        while over := next(board.overfull(now), None):
            node, at, _ = over
            movable = [
                item for item in board.shelves[node].overlapping(at, at + 1) if item not in ground.fixed
            ]
            if not movable:
                return None
            latest = max(movable, key=lambda item: (self.live[item.key].created, item))
            lifted.append((latest, node))
            board = board.changed([(latest, node)], ())
        return lifted

    def _anew(self) -> Outcome:
        """All of them, the first booked first; who finds no place is at risk."""
        shift = Shift(Board(self._devices, blocks=self.loads), fixed_until=BEGINNING, steps=STEPS)
        plans: dict[str, list[Placed]] = {}
        lost: set[str] = set()
        # What pods hold is nobody else's, wherever their booking finds its place.
        held = {record.id: self._beside(shift, record) for record in self._ranked()}
        for record in self._ranked():
            for item, node in held[record.id]:
                shift.take(item, node)
            placed = promise_of(record).placed()
            if not self._settled(shift, record, placed):
                lost.add(record.id)
            self._beside(shift, record)
        for item, node in shift.places.items():
            plans.setdefault(item.key, []).append((item, node))
        found = {key: _plan(placed) for key, placed in plans.items()} | dict.fromkeys(lost, ())
        return Outcome(
            plans={key: plan for key, plan in found.items() if plan != self.live[key].plan},
            at_risk=frozenset(lost),
        )

    def _beside(self, shift: Shift, record: Record) -> list[Placed]:
        """Put the booking's pods where they run, as far as its place on the shift is another."""
        placed = [(item, shift.places.get(item, NOWHERE)) for item, _ in promise_of(record).placed()]
        found = [
            (item, node)
            for item, node in strays(placed, self.capacity.pins.get(record.id, {}))
            if shift.shelf(node) is not None
        ]
        for item, node in found:
            shift.put(item, node)
        shift.fix(item for item, _ in found)
        return found

    def _settled(self, shift: Shift, record: Record, placed: Sequence[Placed]) -> bool:
        items = [item for item, _ in placed]
        here = {item: node for item, node in placed if shift.shelf(node) is not None}
        for only in _bounds(promise_of(record), here, self.capacity.pins.get(record.id, {})):
            if shift.settle(items, only):
                if record.id in self.capacity.pins:
                    shift.fix(items)
                return True
        return False


def _bounds(
    promise: Promise, here: Mapping[Item, str], pods: Mapping[str, int]
) -> Iterator[Mapping[Item, str]]:
    """Where pods run; where it is planned; anywhere."""
    if pods:
        yield follow(promise, here, pods)
        yield follow(promise, {}, pods)
    yield here
    yield {}


def _plan(placed: Sequence[Placed]) -> tuple[Place, ...]:
    return tuple(Place(node, count) for node, count in planned(placed))
