"""The places of all bookings of a model now: the stored plan, corrected by running pods. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from booking.server.availability.calendars import Calendar, instant, planned_booking, seconds
from booking.server.capacity.capacity import Capacity, Grant
from booking.server.records import Place, Record
from booking.server.store_records import Block
from cluster.decide.booking_plan import (
    NO_NODE,
    OFF_PLAN,
    STEPS,
    Item,
    ModelPlan,
    Pinned,
    Placed,
    PlanAttempt,
    PlannedBooking,
    Timeline,
    off_plan_pods,
    pin,
    planned,
)
from cluster.decide.booking_plan import Block as Load

FIXED_AHEAD: Final = timedelta(seconds=60)
"""What begins within this time is not moved for others."""


@dataclass(frozen=True, slots=True)
class CurrentPlan:
    """The booking plan of a model before a booking is added or changed."""

    model_plan: ModelPlan
    calendar: Calendar
    fixed: frozenset[Item]
    """Where pods run; these are not moved."""
    placed: Mapping[str, Sequence[Placed]]
    """Unit of the calendar -> its items, of those whose place differs from the stored one."""
    fixed_until: int
    pods: Mapping[str, int]
    """Node -> devices that pods of the booking being changed have there."""
    has_begun: bool = False
    """Whether the booking being changed has begun."""

    def attempt(self, steps: int) -> PlanAttempt:
        """A new attempt to place more bookings: it may move planned ones, in so many steps."""
        made = PlanAttempt(self.model_plan, fixed_until=self.fixed_until, steps=steps)
        made.fix(self.fixed)
        return made

    def bounds(self, booking: PlannedBooking) -> Iterator[Mapping[Item, str]]:
        """Constraints on the items of the booking being changed: first where they are, then anywhere.

        A booking that has begun stays where it is planned.
        """
        placed = [(item, node) for item, node in booking.placed() if node in self.model_plan.node_plans]
        here = follow(booking, dict(placed), self.pods)
        yield here
        if not self.has_begun and here:
            yield {}

    def off_plan(self, booking: PlannedBooking, only: Mapping[Item, str]) -> list[Placed]:
        """Pods of a single-node booking being changed that run on other nodes than the booking's."""
        if not booking.is_whole:
            return []
        away = sorted(
            node for node in self.pods if node not in only.values() and node in self.model_plan.node_plans
        )
        return [
            (Item(booking.start, booking.key, OFF_PLAN + number, booking.end, self.pods[node]), node)
            for number, node in enumerate(away)
        ]

    def moved(self, places: Mapping[Item, str]) -> dict[str, tuple[Place, ...]]:
        """Booking id -> its new plan, of all bookings whose place differs from the stored one."""
        found = {key: dict(placed) for key, placed in self.placed.items()}
        for item, node in places.items():
            if item.key not in found:
                found[item.key] = dict(self.calendar.unit(item.key).placed())
            found[item.key][item] = node
        plans = self.calendar.plans({key: planned(list(placed.items())) for key, placed in found.items()})
        return {key: plan for key, plan in plans.items() if plan != self.calendar.records[key].plan}


def current_plan_of(
    model_plan: ModelPlan,
    calendar: Calendar,
    pins: Mapping[str, Mapping[str, int]],
    now: datetime,
    *,
    changing: Record | None = None,
) -> CurrentPlan:
    """The current places of a model's bookings.

    Args:
        model_plan: the plan as stored.
        calendar: the bookings that it was made from.
        pins: booking id -> node -> devices that its pods have there.
        now: this instant.
        changing: a booking that is left out, except for its pods that run outside its node.
    """
    attempt = PlanAttempt(model_plan, fixed_until=seconds(now + FIXED_AHEAD), steps=STEPS)
    pods = pins.get(changing.id, {}) if changing is not None else {}
    pins = calendar.unit_pins(pins)
    if changing is not None and calendar.has_unit(changing.id):
        for item, node in planned_booking(calendar.records[changing.id]).placed():
            if attempt.node_plan(node) is not None:
                attempt.take(item, node)
    fixed: set[Item] = set()
    found: dict[str, dict[Item, str]] = {}
    running = {key: calendar.unit(key) for key in sorted(pins) if calendar.has_unit(key)}
    running = {key: unit for key, unit in running.items() if instant(unit.end) > now}
    held = Pinned.of(model_plan, running.values(), pins)
    for key, unit in running.items():
        if changing is not None and key == changing.id:
            continue
        placed = unit.placed()
        if all(attempt.node_plan(node) is not None for _, node in placed):
            pinned = pin(attempt, placed, pins[key], held)
            fixed.update(item for item, _ in pinned)
            now_at = dict(placed) | {item: node for item, node in pinned if item in dict(placed)}
            if now_at != dict(placed):
                found[key] = now_at
    attempt.fix(fixed)
    fixed.update(
        _place_unplaced(attempt, model_plan, calendar, now, pins=pins, found=found, changing=changing)
    )
    return CurrentPlan(
        model_plan=attempt.plan(),
        calendar=calendar,
        fixed=frozenset(fixed),
        placed={key: tuple(placed.items()) for key, placed in found.items()},
        fixed_until=seconds(now + FIXED_AHEAD),
        pods=pods,
        has_begun=changing is not None and changing.start <= now + FIXED_AHEAD,
    )


def _place_unplaced(
    attempt: PlanAttempt,
    model_plan: ModelPlan,
    calendar: Calendar,
    now: datetime,
    *,
    pins: Mapping[str, Mapping[str, int]],
    found: dict[str, dict[Item, str]],
    changing: Record | None,
) -> set[Item]:
    """Place bookings that have no place: made before the first single-node booking, or on a lost node.

    A booking for which no place is found is at risk; it takes up room only in the sum, and where its pods
    run. A booking that is over needs no place.

    Returns:
        Pods that run where their booking has no place.
    """
    off_plan: set[Item] = set()
    of: dict[str, list[Item]] = {}
    for item in model_plan.unplaced:
        of.setdefault(item.key, []).append(item)
    for key, items in sorted(of.items(), key=lambda each: (each[0] not in pins, each[1][0].start, each[0])):
        unit = calendar.unit(key) if calendar.has_unit(key) else None
        if unit is None or instant(unit.end) <= now or (changing is not None and key == changing.id):
            continue
        only, placed = follow(unit, {}, pins.get(key, {}), items), unit.placed()
        if attempt.place_all(items, only) or (only and attempt.place_all(items)):
            kept = {item: node for item, node in placed if node != NO_NODE}
            found[key] = kept | {item: attempt.places[item] for item in items}
            placed = list(found[key].items())
            for item in attempt.places.keys() - set(items):
                _note(item, attempt.places[item], calendar, found)
        for item, node in off_plan_pods(placed, pins.get(key, {})):
            if attempt.node_plan(node) is not None:
                attempt.put(item, node)
                attempt.fix([item])
                off_plan.add(item)
    return off_plan


def _note(item: Item, node: str, calendar: Calendar, found: dict[str, dict[Item, str]]) -> None:
    """Record the new place of another booking that was moved for one that had no place."""
    placed = dict(calendar.unit(item.key).placed()) if calendar.has_unit(item.key) else {}
    if item in placed and (item.key in found or placed[item] != node):
        found.setdefault(item.key, placed)[item] = node


def follow(
    booking: PlannedBooking, here: Mapping[Item, str], pods: Mapping[str, int], items: Sequence[Item] = ()
) -> dict[Item, str]:
    """Item -> node such that the items are where the booking's pods run, and otherwise stay."""
    items = items or [item for item, _ in booking.placed()]
    if booking.is_whole:
        item = items[0]
        at = here.get(item)
        if pods and at not in pods:
            at = min(pods, key=lambda name: (-pods[name], name))
        return {} if at is None else {item: at}
    left = dict(pods)
    bound: dict[Item, str] = {}
    for item in items:
        if left.get(here.get(item, NO_NODE)):
            bound[item] = here[item]
            left[here[item]] -= 1
    spare = [item for item in items if item not in bound]
    for node in sorted(left):
        for _ in range(left[node]):
            if spare:
                bound[spare.pop()] = node
    return bound | {item: here[item] for item in spare if item in here}


def blocks_of(
    model: str,
    capacity: Capacity,
    blocks: Sequence[Block],
    now: datetime,
    *,
    pauses: Sequence[Grant] = (),
) -> tuple[Load, ...]:
    """The load of unusable devices of a model: maintenance, grants to others, and ``pauses``."""
    devices = capacity.devices.get(model, {})
    loads: dict[str, list[tuple[int, int, int]]] = {}
    for block in blocks:
        if block.node in devices and block.model in {None, model} and block.end > now:
            count = devices[block.node] if block.count is None else block.count
            loads.setdefault(block.node, []).append((seconds(block.start), seconds(block.end), count))
    for grant in (*capacity.grants.get(model, ()), *pauses):
        loads.setdefault(grant.node, []).append((seconds(now), seconds(grant.until), grant.count))
    return tuple(
        (node, start, end, min(level, devices[node]))
        for node, some in sorted(loads.items())
        for start, end, level in Timeline.of(some).spans()
        if devices[node]
    )
