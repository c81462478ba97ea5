"""One node of a booking plan: its devices of one model, and the items that have their place there."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cluster.decide.booking_plan.item_list import Item, ItemList
from cluster.decide.booking_plan.timeline import BEGINNING, Load, Timeline


@dataclass(frozen=True, slots=True)
class NodePlan:
    """A node's devices of one model, and what is planned on them. It is never changed."""

    devices: int
    """Number of devices that are available now."""
    load: Timeline
    """How many of them are taken over time, by items and by blocks."""
    items: ItemList
    """The items that have their place here."""
    longest: int
    """No item is longer than this."""

    @classmethod
    def of(cls, devices: int, items: Sequence[Item], blocks: Iterable[Load]) -> "NodePlan":
        """A node with these items and blocks."""
        load = Timeline.of([*((item.start, item.end, item.size) for item in items), *blocks])
        return cls(devices, load, ItemList(items), max((item.end - item.start for item in items), default=0))

    def plus(self, item: Item) -> "NodePlan":
        """A copy on which this item has its place, too."""
        load = self.load.plus(item.start, item.end, item.size)
        return NodePlan(self.devices, load, self.items.plus(item), max(self.longest, item.end - item.start))

    def minus(self, item: Item) -> "NodePlan":
        """A copy on which this item has no place any more."""
        load = self.load.plus(item.start, item.end, -item.size)
        return NodePlan(self.devices, load, self.items.minus(item), self.longest)

    def room(self, start: int, end: int) -> int:
        """How many devices are free all the time; negative if more are taken than there are."""
        return self.devices - self.load.most(start, end)

    def blocked(self, start: int, end: int) -> Timeline:
        """What is taken in ``[start, end)`` by anything but items, which is maintenance."""
        load = self.load
        for item in self.overlapping(start, end):
            load = load.plus(item.start, item.end, -item.size)
        return load

    def overlapping(self, start: int, end: int) -> Iterator[Item]:
        """The items that overlap with ``[start, end)``, by start."""
        for item in self.items.since(max(BEGINNING, start - self.longest)):
            if item.start >= end:
                return
            if item.end > start:
                yield item
