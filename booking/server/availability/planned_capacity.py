"""How many devices of one model can still be guaranteed: the basis of decisions about bookings. Pure.

The sum over all nodes is checked first: that is cheap, and usually decides. The booking plan is consulted
where the sum is not enough: for a booking that needs one node for all its devices, and for every booking of
a model that has such bookings or blocked nodes, because other users' bookings must stay placeable.

A booking that has begun, or begins within a moment, stays where it is planned: the extender may be binding
its pods there at the same time. If its pods run on a node that cannot keep them to its end (because of
maintenance, or a device that has become unhealthy), the plan controller has another place for it that is not
visible here; then an answer is checked against what the plan controller would do.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final

import msgspec

from booking import wording
from booking.server.availability.calendars import Calendar, calendar_of, instant, planned_booking, seconds
from booking.server.availability.current_plan import FIXED_AHEAD, CurrentPlan, blocks_of, current_plan_of
from booking.server.availability.replan import replanned
from booking.server.availability.share_search import Held, ShareSearch, WantedShares, scarcity
from booking.server.availability.start_search import OneNode, Sum, first_start
from booking.server.capacity.capacity import Capacity
from booking.server.capacity.free_capacity import (
    CapacityRequest,
    FreeCapacity,
    Placement,
    Shortage,
    Timetable,
)
from booking.server.records import Place, Record
from booking.server.store_records import Block
from cluster.decide.booking_plan import (
    STEPS,
    Item,
    PlanAttempt,
    PlannedBooking,
    Timeline,
    is_whole,
    planned,
    shares_of,
)
from cluster.objects.slots import PER_GPU

TRIES: Final = 16
"""How many starts at which the sum fits are examined closely in search of the earliest."""
TRY_STEPS: Final = 24
"""How many places are tried for all of these starts together."""
SHARE_TRIES: Final = 32
"""The same for shares: at more starts there is room, but not on one device all the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCapacities:
    """What can be guaranteed of every model, in one transaction; computed for a model on demand."""

    capacity: Capacity
    now: datetime
    calendar_of: Callable[[str], Calendar]
    blocks: Sequence[Block] = ()
    changing: Record | None = None
    """The booking being changed: it does not block itself, and stays where its pods run."""
    _made: dict[str, "PlannedCapacity"] = field(default_factory=dict, init=False)

    def __call__(self, model: str) -> FreeCapacity:
        """The free capacity of a model, in label form."""
        if model not in self._made:
            changing = self.changing if self.changing and self.changing.model == model else None
            self._made[model] = PlannedCapacity(
                model,
                self.calendar_of(model),
                self.capacity,
                blocks=self.blocks,
                now=self.now,
                changing=changing,
            )
        return self._made[model]


class PlannedCapacity:
    """The free capacity of a model by its booking plan; implements ``free_capacity.FreeCapacity``."""

    def __init__(
        self,
        model: str,
        calendar: Calendar,
        capacity: Capacity,
        *,
        blocks: Sequence[Block] = (),
        now: datetime,
        changing: Record | None = None,
    ) -> None:
        self._model, self._capacity = model, capacity
        self._now, self._changing, self._maintenance = now, changing, blocks
        self._total = capacity.total(model)
        # A running booking continues where it is: a node that is unresponsive for a moment is no reason to
        # end it.
        is_new = changing is None or changing.start > now
        pauses = capacity.pauses.get(model, ()) if is_new else ()
        self._blocks = blocks_of(model, capacity, blocks, now, pauses=pauses)
        self._calendar = self._without_gone(calendar, changing)
        self._load = self._loaded()
        wholes = calendar.has_wholes(now, without=changing.id if changing else None)
        self._is_watched = bool(wholes or self._blocks)
        self._current_plan: CurrentPlan | None = None
        self._scarcities: dict[int, Timeline] = {}
        """MiB -> what ``_scarcity`` is made from."""
        self._tried: dict[tuple[CapacityRequest, int, int], Placement | None] = {}

    # --- what evaluation asks ------------------------------------------------------------------------
    def lacking(self, wanted: CapacityRequest, start: datetime, end: datetime) -> Shortage | None:
        """Why the devices are not available throughout ``[start, end)``; None when they are."""
        if end <= start:
            return None
        if wanted.memory is not None:
            found = self._placed(wanted, start, end) is not None
            return None if found else self._too_little(wanted, start, end)
        free = self._total - self._load.most(seconds(start), seconds(end)) - wanted.buffer
        if wanted.count > free:
            return self._short(wanted, max(0, free), start, end)
        if self._needs_place(wanted) and self._placed(wanted, start, end) is None:
            return self._apart(wanted, free, start, end)
        return None

    def earliest(self, wanted: CapacityRequest, timetable: Timetable) -> datetime | None:
        """The first start of the timetable for which ``lacking`` returns None; None if there is none.

        If that would take too many searches of the booking plan, a later start that is certain.
        """
        if wanted.memory is not None:
            return self._earliest_shares(wanted, timetable)
        load = self._sum(wanted)
        start = first_start(load, timetable, timetable.start_at(timetable.not_before))
        if not self._needs_place(wanted):
            return start
        certain, left = self._certain(wanted, timetable), TRY_STEPS
        for _ in range(TRIES):
            if start is None or (certain is not None and start >= certain):
                break
            placing, left = self._try(wanted, start, timetable.end_of(start), left)
            if placing is not None:
                return start
            turn = load.next_change(seconds(start))
            if turn is None:
                return None
            if not left and (wanted.count == 1 or wanted.topology == "single-node"):
                # No more bookings can be moved, and ``certain`` is the first start that needs no move.
                break
            start = first_start(load, timetable, timetable.start_at(instant(turn)))
        return certain

    def place(self, wanted: CapacityRequest, start: datetime, end: datetime) -> Placement | None:
        """The GPUs' place in the booking plan; None when ``lacking`` reports a problem."""
        if self.lacking(wanted, start, end) is not None:
            return None
        if self._needs_place(wanted):
            return self._placed(wanted, start, end)
        return self._unwatched(wanted, start, end)

    def _without_gone(self, calendar: Calendar, changing: Record | None) -> Calendar:
        """The calendar without bookings of shares that are over, and without the one being changed."""
        gone = calendar.past_shares(self._now)
        if changing is not None and changing.id in calendar.shares:
            gone.append(calendar.shares[changing.id])
        if gone:
            # The plan is cached there, and changed here a little.
            calendar.plan(self._devices, self._blocks)
        return calendar.without(gone)

    @property
    def _devices(self) -> Mapping[str, int]:
        return self._capacity.devices.get(self._model, {})

    # --- shares --------------------------------------------------------------------------------------
    def _earliest_shares(self, wanted: CapacityRequest, timetable: Timetable) -> datetime | None:
        """The first start with a place; after so many tries, the first at which whole GPUs would have one."""
        if (wanted.memory or 0) > self._capacity.memories.get(self._model, 0):
            return None
        load = self._scarcity(wanted)
        start = first_start(load, timetable, timetable.start_at(timetable.not_before))
        certain = self._certain(msgspec.structs.replace(wanted, memory=None), timetable)
        left = TRY_STEPS
        for _ in range(SHARE_TRIES):
            if start is None or (certain is not None and start >= certain):
                break
            placing, left = self._try(wanted, start, timetable.end_of(start), left)
            if placing is not None:
                return start
            turn = self._next_turn(seconds(start))
            start = None if turn is None else first_start(load, timetable, timetable.start_at(instant(turn)))
        return certain

    def _next_turn(self, after: int) -> int | None:
        """When the load changes next, or a share ends."""
        lanes, change = self._calendar.lanes.values(), self._load.next_change(after)
        turns = [one.end for lane in lanes if lane.item.end > after for one in lane.shares if one.end > after]
        return min([*turns, *([] if change is None else [change])], default=None)

    def _scarcity(self, wanted: CapacityRequest) -> Sum:
        """Where no share of that size has a place, whatever is moved."""
        capacity, memory = self._capacity, wanted.memory or 0
        if memory not in self._scarcities:
            self._scarcities[memory] = scarcity(
                self._calendar.lanes.values(),
                self._load,
                memory=memory,
                offered=capacity.memories.get(self._model, 0),
                slots=capacity.slots.get(self._model, PER_GPU),
            )
        return Sum(self._scarcities[memory], self._total - wanted.buffer - wanted.count)

    def _share_search(
        self, wanted: CapacityRequest, start: datetime, end: datetime, steps: int
    ) -> ShareSearch:
        changing, current = self._changing, self._current()
        held = Held()
        if changing is not None:
            had = shares_of(planned_booking(changing))
            held = Held(
                devices=tuple(one.device for one in had if one.device),
                nodes=tuple(one.node for one in had if one.device),
                has_begun=changing.start <= self._now + FIXED_AHEAD,
            )
            # What has begun has been in its lanes since then.
            start = changing.start if changing.start <= self._now else start
        return ShareSearch(
            WantedShares(
                key=changing.id if changing else "",
                start=seconds(start),
                end=seconds(end),
                count=wanted.count,
                memory=wanted.memory or 0,
                is_together=is_whole(wanted.count, wanted.topology),
                offered=self._capacity.memories.get(self._model, 0),
                slots=self._capacity.slots.get(self._model, PER_GPU),
                limit=self._total - wanted.buffer,
            ),
            current,
            self._calendar,
            self._load,
            steps=steps,
            held=held,
        )

    def _try_shares(
        self, wanted: CapacityRequest, start: datetime, end: datetime, steps: int
    ) -> tuple[Placement | None, int]:
        """A place for the shares, if any, and how many more may be tried; at first others are not moved."""
        for budget in (0, steps) if steps else (0,):
            search = self._share_search(wanted, start, end, budget)
            placing = search.place()
            if placing is not None and (not self._is_strained or self._is_kept(wanted, start, end, placing)):
                return placing, steps if budget == 0 else search.left
        return None, search.left if steps else 0

    def _too_little(self, wanted: CapacityRequest, start: datetime, end: datetime) -> Shortage:
        search = self._share_search(wanted, start, end, 0)
        search.place()
        free = min(search.found, wanted.count - 1)
        size = wording.mebibytes(wanted.memory or 0)
        return Shortage(
            free=free,
            total=self._total,
            message=f"{wording.counted(free, 'share')} of {size} of a GPU of model {self._model} can be had "
            f"all the time from {wording.instant(start)} to {wording.instant(end)}, "
            f"and {wording.requested(wanted.count)}.",
        )

    # --- the sum -------------------------------------------------------------------------------------
    def _loaded(self) -> Timeline:
        changing = self._changing
        was = self._calendar.records.get(changing.id) if changing else None
        if not self._blocks and was is None:
            return self._calendar.load
        load = self._calendar.load
        for _, start, end, count in self._blocks:
            load = load.plus(start, end, count)
        if was is not None:
            load = load.plus(seconds(was.start), seconds(was.end), -was.count)
        return load

    def _sum(self, wanted: CapacityRequest) -> Sum:
        return Sum(self._load, self._total - wanted.buffer - wanted.count)

    # --- the booking plan ----------------------------------------------------------------------------
    def _needs_place(self, wanted: CapacityRequest) -> bool:
        return self._is_watched or wanted.memory is not None or is_whole(wanted.count, wanted.topology)

    def _certain(self, wanted: CapacityRequest, timetable: Timetable) -> datetime | None:
        """A start that needs no search: one node has room without moves, or all bookings have ended."""
        node = OneNode(self._current().model_plan, wanted.count)
        begin = timetable.start_at(timetable.not_before)
        found = first_start(node, timetable, begin)
        while found is not None:
            start = first_start(self._sum(wanted), timetable, found)
            if start is None:
                return None
            if start == found:
                return self._if_none_lacking(wanted, timetable, start)
            found = first_start(node, timetable, start)
        last = instant(max(0, self._load.last_change()))
        return self._if_none_lacking(wanted, timetable, timetable.start_at(max(begin, last)))

    def _if_none_lacking(
        self, wanted: CapacityRequest, timetable: Timetable, start: datetime
    ) -> datetime | None:
        return start if self.lacking(wanted, start, timetable.end_of(start)) is None else None

    def _current(self) -> CurrentPlan:
        if self._current_plan is None:
            model_plan = self._calendar.plan(self._devices, self._blocks)
            self._current_plan = current_plan_of(
                model_plan, self._calendar, self._capacity.pins, self._now, changing=self._changing
            )
        return self._current_plan

    def _placed(self, wanted: CapacityRequest, start: datetime, end: datetime) -> Placement | None:
        """A place for the devices and the moves that it takes; None if there is none. Cached."""
        key = (wanted, seconds(start), seconds(end))
        if key not in self._tried:
            self._tried[key], _ = self._try(wanted, start, end, STEPS)
        return self._tried[key]

    def _try(
        self, wanted: CapacityRequest, start: datetime, end: datetime, steps: int
    ) -> tuple[Placement | None, int]:
        """A place for the devices, if any, and how many more places may be tried."""
        if wanted.memory is not None:
            return self._try_shares(wanted, start, end, steps)
        current_plan, booking = self._current(), self._planned_booking(wanted, start, end)
        items = [item for item, _ in booking.placed()]
        for only in current_plan.bounds(booking):
            attempt = current_plan.attempt(steps)
            off_node = current_plan.off_plan(booking, only)
            if not all(_has_room(attempt, item, node) for item, node in off_node):
                continue
            for item, node in off_node:
                attempt.put(item, node)
            attempt.fix(item for item, _ in off_node)
            if attempt.place_all(items, only):
                placing = _placing(attempt, current_plan, items)
                if not self._is_strained or self._is_kept(wanted, start, end, placing):
                    return placing, attempt.left
            steps = attempt.left
        return None, steps

    # --- what the plan controller will do -------------------------------------------------------------
    @cached_property
    def _is_strained(self) -> bool:
        """Whether pods run on devices that their bookings cannot keep."""
        return next(self._current().model_plan.overfull(seconds(self._now)), None) is not None

    def _is_kept(self, wanted: CapacityRequest, start: datetime, end: datetime, placing: Placement) -> bool:
        """Whether the booking, accepted like this, puts no booking at risk, itself included."""
        records = dict(self._calendar.records)
        for key, plan in placing.moved.items():
            records[key] = msgspec.structs.replace(records[key], plan=plan)
        before = self._changing or next(iter(records.values()))
        key, created = (before.id, before.created) if self._changing else ("", self._now)
        records[key] = msgspec.structs.replace(
            before,
            id=key,
            count=wanted.count,
            memory=wanted.memory,
            topology=wanted.topology,
            start=start,
            end=end,
            created=created,
            plan=placing.plan,
        )
        at_risk = self._at_risk(records.values())
        return key not in at_risk and at_risk <= self._at_risk_already

    @cached_property
    def _at_risk_already(self) -> frozenset[str]:
        return self._at_risk(self._calendar.records.values())

    def _at_risk(self, records: Iterable[Record]) -> frozenset[str]:
        calendar = calendar_of(records)
        return replanned(self._model, calendar, self._capacity, self._now, blocks=self._maintenance).at_risk

    def _unwatched(self, wanted: CapacityRequest, start: datetime, end: datetime) -> Placement:
        """A place where only single devices are guaranteed: they find one in time wherever the sum fits.

        A place that is easily found is stored nevertheless, in case that changes.
        """
        changing = self._changing
        was = self._calendar.records.get(changing.id) if changing else None
        model_plan = self._calendar.plan(self._devices, self._blocks)
        attempt = PlanAttempt(model_plan, fixed_until=seconds(self._now), steps=0)
        for item, node in planned_booking(was).placed() if was else ():
            if node in model_plan.node_plans:
                attempt.take(item, node)
        booking = self._planned_booking(wanted, start, end)
        items = [item for item, _ in booking.placed()]
        here = {item: node for item, node in booking.placed() if node in model_plan.node_plans}
        # Where pods of it may run it is, or without a place: then those that are in its way are moved.
        has_begun = changing is not None and changing.start <= self._now + FIXED_AHEAD
        found = attempt.place_all(items, here) or (not has_begun and attempt.place_all(items))
        return Placement(plan=_plan((item, attempt.places[item]) for item in items)) if found else Placement()

    def _planned_booking(self, wanted: CapacityRequest, start: datetime, end: datetime) -> PlannedBooking:
        """The request in the form of the booking plan, with the place of the booking being changed."""
        changing = self._changing
        return PlannedBooking(
            key=changing.id if changing else "",
            start=seconds(start),
            end=seconds(end),
            count=wanted.count,
            is_whole=is_whole(wanted.count, wanted.topology),
            plan=planned_booking(changing).plan if changing else (),
        )

    # --- messages -----------------------------------------------------------------------------------
    def _short(self, wanted: CapacityRequest, free: int, start: datetime, end: datetime) -> Shortage:
        left_free = f" (with {wanted.buffer} to be left free)" if wanted.buffer else ""
        return Shortage(
            free=free,
            total=self._total,
            message=f"{free} of the {wording.counted(self._total, 'GPU')} of model {self._model}{left_free} "
            f"can be had all the time from {wording.instant(start)} to {wording.instant(end)}, "
            f"and {wording.requested(wanted.count)}.",
        )

    def _apart(self, wanted: CapacityRequest, free: int, start: datetime, end: datetime) -> Shortage:
        """The shortage where the sum would suffice but the places do not."""
        node_plans = self._current().model_plan.node_plans.values()
        on_nodes = [max(0, node_plan.room(seconds(start), seconds(end))) for node_plan in node_plans]
        when = f"all the time from {wording.instant(start)} to {wording.instant(end)}"
        if is_whole(wanted.count, wanted.topology):
            most = min(max(on_nodes, default=0), wanted.count - 1)
            where = f"at most {most} on one node"
        else:
            most = min(sum(on_nodes), wanted.count - 1)
            where = f"{most} of them without taking others the node that they are guaranteed"
        return Shortage(
            free=most,
            total=self._total,
            message=f"{wording.counted(free, 'GPU')} of model {self._model} can be had {when}, "
            f"{where}, and {wording.requested(wanted.count)}.",
        )


def _has_room(attempt: PlanAttempt, item: Item, node: str) -> bool:
    node_plan = attempt.node_plan(node)
    return node_plan is not None and node_plan.room(item.start, item.end) >= item.size


def _placing(attempt: PlanAttempt, current_plan: CurrentPlan, items: Iterable[Item]) -> Placement:
    own = set(items)
    places = attempt.places
    key = next(iter(own)).key
    moved = current_plan.moved({item: node for item, node in places.items() if item.key != key})
    return Placement(plan=_plan((item, places[item]) for item in own), moved=moved)


def _plan(placed: Iterable[tuple[Item, str]]) -> tuple[Place, ...]:
    return tuple(Place(node, count) for node, count in planned(list(placed)))
