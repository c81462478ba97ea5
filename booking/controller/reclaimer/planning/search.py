"""The best node for a pod that fits nowhere: exact, though few nodes are examined closely.

The nodes are in a priority queue by a lower bound of the work that the pod would destroy there; once a node
has been examined, by the exact amount. No node behind a suitable choice can be better. Most nodes never get
into the queue: they come in the order of their bounds, and only as far as they are needed.
"""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from booking.controller.reclaimer.planning.node_candidates import NodeCandidates
from booking.controller.reclaimer.planning.waiting_pod import WaitingPod
from cluster.decide.eviction.victim_selection import NO_VICTIMS, Rank, VictimSelection
from cluster.objects.device_selector import DeviceSelector

_Entry = tuple[Rank, str, int, VictimSelection | None]
"""Rank or a lower bound of it, node, the node's version, its choice once that is known."""


class _Queue:
    """The nodes for one kind of pods, the least rank first."""

    def __init__(self, entries: list[_Entry], coming: Iterator[_Entry]) -> None:
        """Args: coming: further entries, in ascending order."""
        self._entries = entries
        heapify(entries)
        self._coming = coming
        self._next = next(coming, None)

    def push(self, entry: _Entry) -> None:
        """Add an entry."""
        heappush(self._entries, entry)

    def pop(self, below: Rank | None) -> _Entry | None:
        """Take the first entry; None if there is none, or none below a rank."""
        while self._next and (not self._entries or self._next[0] <= self._entries[0][0]):
            heappush(self._entries, self._next)
            self._next = next(self._coming, None)
        if not self._entries or (below is not None and self._entries[0][0] >= below):
            return None
        return heappop(self._entries)


class Search:
    """The queues of one round of planning: one for each model, number of devices and selector."""

    def __init__(self, candidates: NodeCandidates) -> None:
        self._candidates = candidates
        self._queues: dict[tuple[str, int, DeviceSelector], _Queue] = {}

    def best(self, asking: WaitingPod) -> VictimSelection | None:
        """The best choice for the pod, None if no choice would help."""
        queue = self._queue(asking)
        aside: list[_Entry] = []
        best: VictimSelection | None = None
        while entry := queue.pop(best.rank if best else None):
            _, node, version, choice = entry
            if version != self._candidates.version(node):
                continue
            if choice is None and asking.is_open(node):
                self._examine(queue, node, asking)
                continue
            aside.append(entry)
            if choice is not None and asking.is_open(node):
                found = self._suiting(asking, choice, best)
                best = min(filter(None, (best, found)), key=lambda one: one.rank, default=None)
        for entry in aside:
            queue.push(entry)
        return best

    def changed(self, node: str) -> None:
        """Something of the node was given away: what was known of it does not count any more."""
        version = self._candidates.version(node)
        for queue in self._queues.values():
            queue.push((_at_least(0), node, version, None))

    def _suiting(
        self, asking: WaitingPod, choice: VictimSelection, best: VictimSelection | None
    ) -> VictimSelection | None:
        """The best on this node with which the pod would be placed there."""
        candidate = self._candidates.candidate(choice.node, asking.model, asking.selector)
        match asking.verdict(candidate, choice):
            case "suits":
                return choice
            case "waits" if not choice.waits:
                return asking.with_more_victims(candidate, best)
            case "waits":
                return choice
            case _:
                return asking.with_more_victims(candidate, best)

    def _examine(self, queue: _Queue, node: str, asking: WaitingPod) -> None:
        choice = self._candidates.choice(node, asking.model, asking.need, asking.selector)
        if choice is not None:
            queue.push((choice.rank, node, self._candidates.version(node), choice))

    def _queue(self, asking: WaitingPod) -> _Queue:
        kind = (asking.model, asking.need, asking.selector)
        known = self._queues.get(kind)
        if known is None:
            known = self._queues[kind] = self._queue_of(*kind)
        return known

    def _queue_of(self, model: str, need: int, selector: DeviceSelector) -> _Queue:
        if not selector.is_by_model:
            bounds = self._candidates.least_losses(model, need, selector)
            return _Queue(list(self._entries((lost, node) for node, lost in bounds.items())), iter(()))
        changed = frozenset(self._candidates.changed(model))
        # One that changes later gets another version, and is in the queue again then.
        coming: Iterator[_Entry] = (
            (_at_least(lost), node, 0, None)
            for lost, node in self._candidates.ascending_losses(model, need)
            if node not in changed
        )
        return _Queue(list(self._entries((0, node) for node in changed)), coming)

    def _entries(self, bounds: Iterable[tuple[int, str]]) -> Iterator[_Entry]:
        version = self._candidates.version
        return ((_at_least(lost), node, version(node), None) for lost, node in bounds)


def _at_least(lost: int) -> Rank:
    """A rank that is not behind any choice that destroys this much."""
    return ((lost, *NO_VICTIMS[1:]), False, 0, "")
