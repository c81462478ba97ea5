"""The best node for a pod that fits nowhere: exact, though few nodes are examined closely.

The nodes are in a priority queue by a lower bound of the work that the pod would destroy there; once a node
has been examined, by the exact amount. No node behind a suitable choice can be better.
"""

from heapq import heapify, heappop, heappush

from booking.controller.reclaimer.planning.node_candidates import NodeCandidates
from booking.controller.reclaimer.planning.waiting_pod import WaitingPod
from cluster.decide.eviction.victim_selection import NO_VICTIMS, Rank, VictimSelection
from cluster.objects.device_selector import DeviceSelector

_Entry = tuple[Rank, str, int, VictimSelection | None]
"""Rank or a lower bound of it, node, the node's version, its choice once that is known."""


class Search:
    """The queues of one round of planning: one for each model, number of devices and selector."""

    def __init__(self, candidates: NodeCandidates) -> None:
        self._candidates = candidates
        self._queues: dict[tuple[str, int, DeviceSelector], list[_Entry]] = {}

    def best(self, asking: WaitingPod) -> VictimSelection | None:
        """The best choice for the pod, None if no choice would help."""
        queue = self._queue(asking)
        aside: list[_Entry] = []
        best: VictimSelection | None = None
        while queue and (best is None or queue[0][0] < best.rank):
            entry = heappop(queue)
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
            heappush(queue, entry)
        return best

    def changed(self, node: str) -> None:
        """Something of the node was given away: what was known of it does not count any more."""
        version = self._candidates.version(node)
        for queue in self._queues.values():
            heappush(queue, (_at_least(0), node, version, None))

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

    def _examine(self, queue: list[_Entry], node: str, asking: WaitingPod) -> None:
        choice = self._candidates.choice(node, asking.model, asking.need, asking.selector)
        if choice is not None:
            heappush(queue, (choice.rank, node, self._candidates.version(node), choice))

    def _queue(self, asking: WaitingPod) -> list[_Entry]:
        kind = (asking.model, asking.need, asking.selector)
        known = self._queues.get(kind)
        if known is None:
            version, losses = self._candidates.version, self._candidates.least_losses(*kind)
            known = [(_at_least(lost), node, version(node), None) for node, lost in losses.items()]
            heapify(known)
            self._queues[kind] = known
        return known


def _at_least(lost: int) -> Rank:
    """A rank that is not behind any choice that destroys this much."""
    return ((lost, *NO_VICTIMS[1:]), False, 0, "")
