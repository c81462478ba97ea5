"""What happens to bookings when nodes change: which find another place, and which are at risk. Pure.

Nothing is cancelled. Where devices have disappeared, bookings keep their places in the order in which they
were made, those with running pods before all others; the latest ones are at risk.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from booking.server.availability.calendars import Calendar, instant, seconds
from booking.server.availability.current_plan import CurrentPlan, blocks_of, current_plan_of, follow
from booking.server.capacity.capacity import Capacity
from booking.server.records import Place
from booking.server.store_records import Block
from cluster.decide.booking_plan import (
    NO_NODE,
    Item,
    ModelPlan,
    Placed,
    PlanAttempt,
    PlannedBooking,
    Timeline,
    off_plan_pods,
    planned,
)
from cluster.decide.booking_plan import Block as Load
from cluster.decide.booking_plan.timeline import BEGINNING, INDEFINITELY

STEPS: Final = 5_000
"""Places that are tried for all bookings of a model together; no user waits for this."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What must change about the bookings of a model, and which cannot be kept."""

    plans: Mapping[str, tuple[Place, ...]] = field(default_factory=dict)
    """Booking id -> its new plan; those that keep theirs are left out."""
    at_risk: frozenset[str] = frozenset()
    """Bookings that cannot be honoured at present."""


def replanned(
    model: str, calendar: Calendar, capacity: Capacity, now: datetime, *, blocks: Sequence[Block] = ()
) -> Outcome:
    """The new places of a model's bookings, and which bookings are at risk."""
    loads = blocks_of(model, capacity, blocks, now)
    if gone := calendar.past_shares(now):
        calendar.plan(capacity.devices.get(model, {}), loads)  # it is cached there, and changed a little here
        calendar = calendar.without(gone)
    is_watched = bool(calendar.has_wholes(now) or loads)
    if not is_watched and calendar.load.most(seconds(now), INDEFINITELY) <= capacity.total(model):
        return Outcome()
    live = {key: unit for key in calendar.units if instant((unit := calendar.unit(key)).end) > now}
    if not live:
        return Outcome()
    keeping = _Keeping(model, calendar, live, capacity, loads, calendar.unit_pins(capacity.pins), now)
    return keeping.unshared(keeping.watched() if is_watched else keeping.summed())


@dataclass(frozen=True, slots=True)
class _Keeping:
    """The inputs of a new plan of one model, at one instant."""

    model: str
    calendar: Calendar
    live: Mapping[str, PlannedBooking]
    """What the plan places, by the calendar's keys: bookings of whole devices, and lanes."""
    capacity: Capacity
    loads: tuple[Load, ...]
    pins: Mapping[str, Mapping[str, int]]
    """Unit -> node -> devices that pods have there."""
    now: datetime

    def summed(self) -> Outcome:
        """The outcome where only single devices are guaranteed: the sum over all nodes decides."""
        total, now = self.capacity.total(self.model), seconds(self.now)
        load, at_risk = Timeline(), set[str]()
        for unit in self._ranked():
            start = max(now, unit.start)
            if load.most(start, unit.end) + unit.count <= total:
                load = load.plus(start, unit.end, unit.count)
            else:
                at_risk.add(unit.key)
        return Outcome(at_risk=frozenset(at_risk))

    def unshared(self, outcome: Outcome) -> Outcome:
        """The outcome, with the bookings of shares that are larger than what a device offers now."""
        offered = self.capacity.memories.get(self.model, 0)
        lanes = ((key, self.calendar.lanes[key]) for key in self.live if key in self.calendar.lanes)
        lost = {
            booking for key, lane in lanes if lane.peak > offered for booking in self.calendar.members(key)
        }
        return replace(outcome, at_risk=outcome.at_risk | lost) if lost else outcome

    def watched(self) -> Outcome:
        """Find a place for every booking: as they are, or with a few of them moved, or all placed again."""
        model_plan = self.calendar.plan(self._devices, self.loads)
        current_plan = current_plan_of(model_plan, self.calendar, self.capacity.pins, self.now)
        lifted = self._lifted(current_plan)
        if lifted is not None:
            attempt = PlanAttempt(current_plan.model_plan, fixed_until=BEGINNING, steps=STEPS)
            attempt.fix(current_plan.fixed)
            for item, node in lifted:
                attempt.take(item, node)
            if attempt.place_all([item for item, _ in lifted]):
                return Outcome(plans=current_plan.moved(dict(attempt.places)))
        return self._replan_all()

    @property
    def _devices(self) -> Mapping[str, int]:
        return self.capacity.devices.get(self.model, {})

    def _ranked(self) -> list[PlannedBooking]:
        created = self.calendar.created
        return sorted(
            self.live.values(), key=lambda one: (one.key not in self.pins, created(one.key), one.key)
        )

    def _lifted(self, current_plan: CurrentPlan) -> list[Placed] | None:
        """Items that must move so that no node is overfull; None where moving them cannot be enough."""
        placed = {
            item for node_plan in current_plan.model_plan.node_plans.values() for item in node_plan.items
        }
        if any(item not in placed for unit in self.live.values() for item, _ in unit.placed()):
            return None
        lifted: list[Placed] = []
        model_plan, now = current_plan.model_plan, seconds(self.now)
        while over := next(model_plan.overfull(now), None):
            node, at, _ = over
            movable = [
                item
                for item in model_plan.node_plans[node].overlapping(at, at + 1)
                if item not in current_plan.fixed
            ]
            if not movable:
                return None
            latest = max(movable, key=lambda item: (self.calendar.created(item.key), item))
            lifted.append((latest, node))
            model_plan = model_plan.changed([(latest, node)], ())
        return lifted

    def _replan_all(self) -> Outcome:
        """All of them, the first booked first; who finds no place is at risk."""
        attempt = PlanAttempt(ModelPlan(self._devices, blocks=self.loads), fixed_until=BEGINNING, steps=STEPS)
        plans: dict[str, list[Placed]] = {}
        at_risk: set[str] = set()
        # What pods hold is nobody else's, wherever their booking finds its place.
        held = {unit.key: self._put_off_plan(attempt, unit) for unit in self._ranked()}
        for unit in self._ranked():
            for item, node in held[unit.key]:
                attempt.take(item, node)
            if not self._is_placed(attempt, unit):
                at_risk.add(unit.key)
            self._put_off_plan(attempt, unit)
        for item, node in attempt.places.items():
            plans.setdefault(item.key, []).append((item, node))
        calendar = self.calendar
        found = calendar.plans({key: planned(plans.get(key, ())) for key in plans.keys() | at_risk})
        return Outcome(
            plans={key: plan for key, plan in found.items() if plan != calendar.records[key].plan},
            at_risk=frozenset(booking for key in at_risk for booking in calendar.members(key)),
        )

    def _put_off_plan(self, attempt: PlanAttempt, unit: PlannedBooking) -> list[Placed]:
        """Put the unit's pods where they run, as far as its place on the attempt is another."""
        placed = [(item, attempt.places.get(item, NO_NODE)) for item, _ in unit.placed()]
        found = [
            (item, node)
            for item, node in off_plan_pods(placed, self.pins.get(unit.key, {}))
            if attempt.node_plan(node) is not None
        ]
        for item, node in found:
            attempt.put(item, node)
        attempt.fix(item for item, _ in found)
        return found

    def _is_placed(self, attempt: PlanAttempt, unit: PlannedBooking) -> bool:
        placed = unit.placed()
        items = [item for item, _ in placed]
        here = {item: node for item, node in placed if attempt.node_plan(node) is not None}
        for only in _bounds(unit, here, self.pins.get(unit.key, {})):
            if attempt.place_all(items, only):
                if unit.key in self.pins:
                    attempt.fix(items)
                return True
        return False


def _bounds(
    booking: PlannedBooking, here: Mapping[Item, str], pods: Mapping[str, int]
) -> Iterator[Mapping[Item, str]]:
    """Constraints on the booking's items, strictest first: where pods run, where it is planned, anywhere."""
    if pods:
        yield follow(booking, here, pods)
        yield follow(booking, {}, pods)
    yield here
    yield {}
