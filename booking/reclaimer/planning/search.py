"""The best place of all nodes for a pod that fits nowhere: exact, and few of them are looked at closely.

Each node stands in a queue by what a pod there destroys at least, then, once it has been looked at, by what
it destroys. Nobody behind a choice that suits can be better.
"""

from heapq import heapify, heappop, heappush

from booking.reclaimer.planning.asking import Asking
from booking.reclaimer.planning.sites import Sites
from cluster.decide.evicting.choice import NOBODY, Choice, Rank
from cluster.objects.wishes import Wished

_Entry = tuple[Rank, str, int, Choice | None]
"""Rank or less than it, node, its version, its choice once that is known."""


class Search:
    """The queues of one round of planning: one for each number of devices of a model that pods wish alike."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._queues: dict[tuple[str, int, Wished], list[_Entry]] = {}

    def best(self, asking: Asking) -> Choice | None:
        """The best choice for the pod, None where nothing can be done for it."""
        queue = self._queue(asking)
        aside: list[_Entry] = []
        best: Choice | None = None
        while queue and (best is None or queue[0][0] < best.rank):
            entry = heappop(queue)
            _, node, version, choice = entry
            if version != self._sites.version(node):
                continue
            if choice is None and asking.is_open(node):
                self._look(queue, node, asking)
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
        version = self._sites.version(node)
        for queue in self._queues.values():
            heappush(queue, (_at_least(0), node, version, None))

    def _suiting(self, asking: Asking, choice: Choice, best: Choice | None) -> Choice | None:
        """The best on this node with which the pod would be placed there."""
        site = self._sites.site(choice.node, asking.model, asking.wished)
        match asking.verdict(site, choice):
            case "suits":
                return choice
            case "waits" if not choice.waits:
                return asking.dearer(site, best)
            case "waits":
                return choice
            case _:
                return asking.dearer(site, best)

    def _look(self, queue: list[_Entry], node: str, asking: Asking) -> None:
        choice = self._sites.choice(node, asking.model, asking.need, asking.wished)
        if choice is not None:
            heappush(queue, (choice.rank, node, self._sites.version(node), choice))

    def _queue(self, asking: Asking) -> list[_Entry]:
        kind = (asking.model, asking.need, asking.wished)
        known = self._queues.get(kind)
        if known is None:
            version, losses = self._sites.version, self._sites.least_losses(*kind)
            known = [(_at_least(lost), node, version(node), None) for node, lost in losses.items()]
            heapify(known)
            self._queues[kind] = known
        return known


def _at_least(lost: int) -> Rank:
    """Nothing that destroys so much is before this."""
    return ((lost, *NOBODY[1:]), False, 0, "")
