"""Whether a booked pod may be placed on a node: whether the plan of all bookings still holds with it there.

Used by the extender, which binds pods, and by the reclaimer, which holds devices for them: both decide alike.
Bookings are where the booking server's plan has them (``spec.places``), corrected by where pods run.
If a model has no maintenance, no booking that needs one node for all its devices, and none of shares, nothing
is searched and every node is allowed: single devices find a place wherever the sum fits. Bookings of shares
are in the plan as lanes: only together they have a device.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Final

from cluster.decide.booking_plan.item_list import Item
from cluster.decide.booking_plan.lanes import Lane, lane_pins, lanes_of, shares_of
from cluster.decide.booking_plan.model_plan import Block, ModelPlan, Placed, PlanAttempt
from cluster.decide.booking_plan.pinned import (
    NO_NODE,
    OFF_PLAN,
    Pinned,
    PlannedBooking,
    is_one,
    is_whole,
    off_plan_pods,
    pin,
)
from cluster.decide.booking_plan.timeline import BEGINNING, INDEFINITELY, Timeline
from cluster.objects.bookings import Booking, BookingSpec
from cluster.objects.maintenance import MaintenanceBlock

STEPS: Final = 200
"""Number of places to try for one pod and node."""

Pins = Mapping[str, Mapping[str, int]]
"""Booking -> node -> devices that its pods have there, or that are kept there for them."""


@dataclass(frozen=True, slots=True)
class _Spare:
    """The items of a booking that its pods do not use yet."""

    placed: list[Placed]
    sizes: Mapping[str, int]
    """Node -> devices."""

    @classmethod
    def of(cls, placed: list[Placed]) -> "_Spare":
        sizes: Counter[str] = Counter()
        for item, node in placed:
            sizes[node] += item.size
        return cls(placed, sizes)


@dataclass(slots=True, eq=False)
class PlacementCheck:
    """All bookings of one model, at one instant. Caches its answers."""

    plan: ModelPlan
    placed: Mapping[str, list[Placed]]
    """Booking or lane -> its items and their nodes, ``NO_NODE`` for items without a place."""
    pinned: Mapping[str, list[Placed]]
    """Booking or lane -> items that stay where its pods are."""
    now: int
    shares: Mapping[str, "BookedShares"] = field(default_factory=dict)
    """Booking of shares -> them."""
    _answers: dict[tuple[str, str, int], bool] = field(default_factory=dict)
    _spares: dict[str, _Spare] = field(default_factory=dict)
    _found: dict[tuple[object, ...], bool] = field(default_factory=dict)
    _permanent_fits: dict[tuple[str, int], bool] = field(default_factory=dict)
    _plan: ModelPlan | None = None
    _stay: frozenset[Item] = field(init=False)

    def __post_init__(self) -> None:
        """Collect the items that no search moves."""
        self._stay = frozenset(item for some in self.pinned.values() for item, _ in some)

    def allows(self, booking: str, node: str, need: int) -> bool:
        """Whether a pod of the booking that needs so many devices may be placed there."""
        key = (booking, node, need)
        if key not in self._answers:
            self._answers[key] = self._allows(*key)
        return self._answers[key]

    def has(self, booking: str, node: str) -> int:
        """How many devices of the booking are planned there and not in use by its pods."""
        if theirs := self.shares.get(booking):
            planned = sum(self._node_of(lane) == node for lane in theirs.lanes)
            return max(0, planned - theirs.pods.get(node, 0))
        return self._spare(booking).sizes.get(node, 0)

    def holds(self, *, with_begun: bool = False) -> bool:
        """Whether every booking has a place while all pods stay; bookings that have not begun may move.

        Args:
            with_begun: bookings that have begun but have no pods there may be moved, too, as the plan
                controller will do if a node has too little.
        """
        return self._repaired(with_begun=with_begun) is not None

    def _repaired(self, *, with_begun: bool) -> PlanAttempt | None:
        attempt, plan = self._attempt(BEGINNING if with_begun else self.now), self.plan
        lifted: list[Item] = []
        while over := next(plan.overfull(self.now), None):
            node, at, _ = over
            there = plan.node_plans[node].overlapping(at, at + 1)
            movable = [i for i in there if (with_begun or i.start > self.now) and i not in self._stay]
            if not movable:
                return None
            latest = max(movable)
            lifted.append(latest)
            attempt.take(latest, node)
            plan = plan.changed([(latest, node)], ())
        return attempt if attempt.place_all(lifted) else None

    def allows_permanent(self, node: str, devices: int) -> bool:
        """Whether all bookings that have or can get a place keep one without this many devices of a node."""
        plan = self._steady()
        node_plan = plan.node_plans.get(node)
        if node_plan is None or node_plan.room(self.now, INDEFINITELY) >= devices:
            return True
        key = (node, devices)
        if key not in self._permanent_fits:
            holder = Item(self.now, node, OFF_PLAN, INDEFINITELY, devices)
            attempt = self._attempt(self.now, plan)
            self._permanent_fits[key] = attempt.place_all([holder], {holder: node})
        return self._permanent_fits[key]

    def _steady(self) -> ModelPlan:
        """The plan as the plan controller will make it: all bookings placed for which there is a place."""
        if self._plan is None:
            attempt = self._repaired(with_begun=True) or self._attempt(self.now)
            node_plans = self.plan.node_plans
            for item in [item for some in self.placed.values() for item, at in some if at not in node_plans]:
                attempt.place_all([item])
            self._plan = attempt.plan()
        return self._plan

    def _spare(self, booking: str) -> _Spare:
        """The booking's items that no pod of it uses; the item of a whole booking is never used up."""
        if booking not in self._spares:
            placed = self.placed.get(booking, [])
            if not is_one(placed):
                used = {item for item, _ in self.pinned.get(booking, ())}
                placed = [(item, node) for item, node in placed if item not in used]
            self._spares[booking] = _Spare.of(placed)
        return self._spares[booking]

    def _node_of(self, lane: str) -> str:
        return self.placed[lane][0][1]

    def _allows_shares(self, theirs: "BookedShares", node: str, missing: int) -> bool:
        """Whether so many more devices of a booking can be there: its lanes, or others in addition."""
        if missing <= 0 or node not in self.plan.node_plans:
            return missing <= 0
        away = (self.placed[lane][0] for lane in dict.fromkeys(theirs.lanes) if not self.pinned.get(lane))
        lanes = list(islice((each for each in away if each[1] != node), missing))
        if sum(item.size for item, _ in lanes) >= missing and self._moves(lanes, node):
            return True
        start, end = max(theirs.booking.start, self.now), theirs.booking.end
        return self._moves([(Item(start, theirs.booking.key, OFF_PLAN, end, missing), NO_NODE)], node)

    def _allows(self, booking: str, node: str, need: int) -> bool:
        if theirs := self.shares.get(booking):
            return self._allows_shares(theirs, node, need - self.has(booking, node))
        spare = self._spare(booking).placed
        if not spare or node not in self.plan.node_plans:
            # The booking is unknown here, or has more pods than devices: there is no plan to keep to.
            return booking not in self.placed and node in self.plan.node_plans
        if is_one(spare):
            return self._allows_whole(spare[0], node, need)
        missing = need - self.has(booking, node)
        elsewhere = islice((each for each in spare if each[1] != node), max(0, missing))
        moved = list(elsewhere)
        return missing <= 0 or (missing == len(moved) and self._moves(moved, node))

    def _allows_whole(self, placed: Placed, node: str, need: int) -> bool:
        item, at = placed
        if at == node:
            return True
        if not self.pinned.get(item.key) and self._moves([placed], node):
            return True
        stray = Item(max(item.start, self.now), item.key, OFF_PLAN + OFF_PLAN, item.end, need)
        return self._moves([(stray, NO_NODE)], node)

    def _moves(self, placed: Sequence[Placed], node: str) -> bool:
        """Whether these items can be there while all others find a place."""
        items = [item for item, _ in placed]
        start, end = min(item.start for item in items), max(item.end for item in items)
        if self.plan.node_plans[node].room(start, end) >= sum(item.size for item in items):
            return True
        # Two nodes with as many devices, and with others' items of the same spans, get the same answer.
        alike = (tuple(placed), *self._like(node))
        if alike not in self._found:
            attempt = self._attempt(self.now)
            for item, at in placed:
                if at in self.plan.node_plans:
                    attempt.take(item, at)
            self._found[alike] = attempt.place_all(items, dict.fromkeys(items, node))
        return self._found[alike]

    def _like(self, node: str) -> tuple[object, ...]:
        """Everything about a node that a search depends on."""
        node_plan = self.plan.node_plans[node]
        items = [(one.start, one.end, one.size, one in self._stay) for one in node_plan.items]
        return node_plan.devices, tuple(node_plan.load.spans()), tuple(items)

    def _attempt(self, fixed_until: int, plan: ModelPlan | None = None) -> PlanAttempt:
        attempt = PlanAttempt(plan or self.plan, fixed_until=fixed_until, steps=STEPS)
        attempt.fix(self._stay)
        return attempt


@dataclass(frozen=True, slots=True)
class BookedShares:
    """A booking of shares, and where it is in the plan."""

    booking: PlannedBooking
    lanes: tuple[str, ...]
    """The lane of each of its shares."""
    pods: Mapping[str, int]
    """Node -> devices that its pods have there."""


def placement_check(
    model: str,
    bookings: Iterable[Booking],
    *,
    devices: Mapping[str, int],
    blocks: Mapping[str, tuple[MaintenanceBlock, ...]],
    pins: Pins,
    now: datetime,
    is_all: bool = False,
) -> PlacementCheck | None:
    """The check of a model; None if every node is allowed for every pod of a booking.

    Args:
        model: in label form.
        bookings: all known bookings.
        devices: node -> available devices of the model.
        blocks: node -> maintenance.
        pins: where pods of bookings are.
        now: this instant.
        is_all: make a check even if places do not matter to bookings: then None only if nothing is booked.
    """
    live = [b for b in bookings if b.spec.model == model and b.spec.end > now]
    loads = tuple(_loads(model, devices, blocks, now))
    if not live or not (is_all or loads or any(needs_places(b.spec) for b in live)):
        return None
    booked = [planned_booking(booking) for booking in live]
    lanes = lanes_of(share for one in booked if one.memory is not None for share in shares_of(one))
    shares = _booked_shares(booked, lanes, pins)
    planned_bookings = [one for one in booked if one.memory is None] + [lane.planned for lane in lanes]
    pins = {**{key: nodes for key, nodes in pins.items() if key not in shares}, **lane_pins(lanes, pins)}
    plan = ModelPlan(devices, (each for planned in planned_bookings for each in planned.placed()), loads)
    instant = int(now.timestamp())
    attempt = PlanAttempt(plan, fixed_until=instant)
    held = Pinned.of(plan, (each for each in planned_bookings if each.key in pins), pins)
    placed: dict[str, list[Placed]] = {}
    pinned: dict[str, list[Placed]] = {}
    for planned in planned_bookings:
        items = planned.placed()
        if planned.key in pins and not all(node in devices for _, node in items):
            # The booking has no place, but its pods run: no other booking may use their devices.
            pinned[planned.key] = [
                each for each in off_plan_pods(items, pins[planned.key]) if each[1] in devices
            ]
            for item, node in pinned[planned.key]:
                attempt.put(item, node)
        elif planned.key in pins:
            pinned[planned.key] = pin(attempt, items, pins[planned.key], held)
            items = list(
                (dict(items) | {i: n for i, n in pinned[planned.key] if i.serial < OFF_PLAN}).items()
            )
        placed[planned.key] = items
    return PlacementCheck(attempt.plan(), placed, pinned, instant, shares)


def needs_places(spec: BookingSpec) -> bool:
    """Whether places matter for a booking: it needs one node for several devices, or is of shares."""
    return spec.memory is not None or is_whole(spec.count, spec.topology)


def _booked_shares(
    booked: Iterable[PlannedBooking], lanes: Iterable[Lane], pins: Pins
) -> dict[str, BookedShares]:
    lane_keys: dict[str, list[str]] = {}
    for lane in lanes:
        for share in lane.shares:
            lane_keys.setdefault(share.booking, []).append(lane.item.key)
    return {
        one.key: BookedShares(one, tuple(lane_keys[one.key]), pins.get(one.key, {}))
        for one in booked
        if one.key in lane_keys
    }


def planned_booking(booking: Booking) -> PlannedBooking:
    """A Booking object, as far as its place is concerned."""
    spec = booking.spec
    return PlannedBooking(
        key=booking.name,
        start=int(spec.start.timestamp()),
        end=int(spec.end.timestamp()),
        count=spec.count,
        is_whole=is_whole(spec.count, spec.topology),
        plan=tuple((place.node, place.count) for place in spec.places),
        memory=spec.memory,
        devices=tuple(number for place in spec.places for number in place.lanes),
    )


def _loads(
    model: str, devices: Mapping[str, int], blocks: Mapping[str, tuple[MaintenanceBlock, ...]], now: datetime
) -> Iterable[Block]:
    """Maintenance of the nodes that have the model; never for more devices than a node has."""
    for node in sorted(blocks.keys() & devices.keys()):
        steps = Timeline.of(
            (
                int(one.start.timestamp()),
                int(one.end.timestamp()),
                devices[node] if one.count is None else one.count,
            )
            for one in blocks[node]
            if one.model in {None, model} and one.end > now
        )
        for start, end, level in steps.spans():
            if devices[node]:
                yield node, start, end, min(level, devices[node])
