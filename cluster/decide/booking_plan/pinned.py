"""Bookings as items of a plan, and how the pods that already run determine where the items are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cluster.decide.booking_plan.item_list import Item
from cluster.decide.booking_plan.model_plan import ModelPlan, Placed, PlanAttempt
from cluster.decide.booking_plan.timeline import Load

NO_NODE: Final = ""
"""The node of an item that has no place."""
LANE: Final = "lane/"
"""The beginning of a lane's key; no booking's id has a slash."""
OFF_PLAN: Final = 1_000_000
"""The first serial of items for pods that run on another node than their booking is planned on."""


Places = tuple[tuple[str, tuple[int, ...]], ...]
"""(node, numbers of devices) of a booking of shares."""


@dataclass(frozen=True, slots=True)
class PlannedBooking:
    """A booking, or a lane of bookings of shares, as far as its place is concerned."""

    key: str
    start: int
    end: int
    count: int
    is_whole: bool
    """All its devices are on one node."""
    plan: tuple[tuple[str, int], ...] = ()
    """(node, devices): its planned place."""
    memory: int | None = None
    """MiB of each of its devices; None if it has whole devices. Bookings of shares have lanes in the plan."""
    devices: tuple[int, ...] = ()
    """Number of each device in the plan of a booking of shares (``booking_plan.lanes``)."""

    def placed(self) -> list[Placed]:
        """Its items, with their nodes or ``NO_NODE``: one for a whole booking, else one for each device.

        If the plan is for more devices than the booking has, it is from before the booking shrank.
        """
        if self.is_whole:
            at = self.plan[0][0] if len(self.plan) == 1 and self.plan[0][1] >= self.count else NO_NODE
            return [(Item(self.start, self.key, 0, self.end, self.count), at)]
        nodes = [node for node, count in self.plan for _ in range(count)][: self.count]
        if len(nodes) < self.count:
            nodes = [NO_NODE] * self.count
        return [
            (Item(self.start, self.key, serial, self.end, 1), node)
            for serial, node in enumerate(sorted(nodes))
        ]


def is_whole(count: int, topology: str) -> bool:
    """Whether a booking needs one node for all its devices; False for a single device, which always does."""
    return count > 1 and topology == "single-node"


def is_one(placed: Sequence[Placed]) -> bool:
    """Whether these are the items of a booking that needs one node for all its devices, or of a lane."""
    return len(placed) == 1 and (placed[0][0].size > 1 or placed[0][0].key.startswith(LANE))


def planned(places: Sequence[Placed]) -> tuple[tuple[str, int], ...]:
    """(node, number of devices) of a booking's items, sorted by node; without off-plan items."""
    found: dict[str, int] = {}
    for item, node in places:
        if item.serial < OFF_PLAN:
            found[node] = found.get(node, 0) + item.size
    return tuple(sorted(found.items()))


def off_plan_pods(placed: Sequence[Placed], pods: Mapping[str, int]) -> list[Placed]:
    """Items for pods that run where their booking has no place, or too little: they hold their devices, too.

    Args:
        placed: the booking's items and their nodes.
        pods: node -> devices that its pods have there.
    """
    first, there = placed[0][0], dict(planned(placed))
    return [
        (Item(first.start, first.key, OFF_PLAN + number, first.end, pods[node] - there.get(node, 0)), node)
        for number, node in enumerate(sorted(pods))
        if pods[node] > there.get(node, 0)
    ]


@dataclass(frozen=True, slots=True)
class Pinned:
    """The devices of booked pods, and maintenance: the parts of the plan that cannot be moved."""

    model_plan: ModelPlan
    spans: Mapping[str, Sequence[Load]]
    """Node -> (from, until, devices) of each booking's pods there."""

    @classmethod
    def of(
        cls,
        model_plan: ModelPlan,
        planned_bookings: Iterable[PlannedBooking],
        pins: Mapping[str, Mapping[str, int]],
    ) -> "Pinned":
        """From bookings that are not over.

        Args:
            model_plan: the nodes with maintenance, and with all items where they are planned.
            planned_bookings: bookings that have pods.
            pins: booking -> node -> devices that its pods have there.
        """
        spans: dict[str, list[Load]] = {}
        for planned in planned_bookings:
            for node, count in pins[planned.key].items():
                spans.setdefault(node, []).append((planned.start, planned.end, count))
        return cls(model_plan, spans)

    def fits(self, node: str, start: int, end: int) -> bool:
        """Whether a node has devices for all booked pods on it, throughout ``[start, end)``."""
        node_plan = self.model_plan.node_plans[node]
        load = node_plan.blocked(start, end)
        for begin, until, count in self.spans.get(node, ()):
            load = load.plus(begin, until, count)
        return load.most(start, end) <= node_plan.devices


def pin(
    attempt: PlanAttempt, placed: Sequence[Placed], pods: Mapping[str, int], held: Pinned
) -> list[Placed]:
    """Put a booking's items where its pods run.

    A whole booking follows its pods to a node with room for all of it. If there is no such node, or if pods
    run on several, the booking keeps one place and the pods elsewhere count in addition: when they end, the
    booking still has its one node. Single devices follow their pods, but not to a node that has too few
    devices for all pods on it, because of maintenance or an unhealthy device: then they keep the place that
    was found for them elsewhere, and their pods count in addition.

    Args:
        attempt: in which the booking is placed as it is planned.
        placed: its items and their nodes, none of them ``NO_NODE``.
        pods: node -> devices that its pods have there.
        held: the devices that the pods of all bookings have.

    Returns:
        The items that may not be moved, with their nodes.
    """
    if is_one(placed):
        return _pin_whole(attempt, placed[0], pods)
    return _pin_each(attempt, placed, pods, held)


def _pin_whole(attempt: PlanAttempt, placed: Placed, pods: Mapping[str, int]) -> list[Placed]:
    item, node = placed
    for other in () if node in pods else sorted(pods, key=lambda name: (-pods[name], name)):
        node_plan = attempt.node_plan(other)
        if node_plan is not None and node_plan.room(item.start, item.end) >= item.size:
            attempt.take(item, node)
            attempt.put(item, other)
            node = other
            break
    strays = [
        (Item(item.start, item.key, OFF_PLAN + number, item.end, count), name)
        for number, (name, count) in enumerate(sorted(pods.items()))
        if name != node and attempt.node_plan(name) is not None
    ]
    for stray, name in strays:
        attempt.put(stray, name)
    return [*([(item, node)] if node in pods else []), *strays]


def _pin_each(
    attempt: PlanAttempt, placed: Sequence[Placed], pods: Mapping[str, int], held: Pinned
) -> list[Placed]:
    here: dict[str, list[Item]] = {}
    for item, node in placed:
        here.setdefault(node, []).append(item)
    spare = [(item, node) for node, items in here.items() for item in items[pods.get(node, 0) :]]
    pinned = [(item, node) for node, items in here.items() for item in items[: pods.get(node, 0)]]
    off_plan = 0
    for node in sorted(pods):
        missing = min(pods[node] - len(here.get(node, ())), len(spare) - off_plan)
        if missing <= 0 or attempt.node_plan(node) is None:
            continue
        first = spare[-1][0]
        if held.fits(node, first.start, first.end):
            following = [spare.pop() for _ in range(missing)]
            for item, old in following:
                attempt.take(item, old)
                attempt.put(item, node)
                pinned.append((item, node))
        else:
            stray = Item(first.start, first.key, OFF_PLAN + off_plan, first.end, missing)
            off_plan += missing
            attempt.put(stray, node)
            pinned.append((stray, node))
    return pinned
