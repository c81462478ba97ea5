"""A planner that tries out every set of victims on every node: what the fast one is judged by."""

from itertools import chain, combinations

from booking.controller.reclaimer.planning.search import Search
from booking.controller.reclaimer.planning.waiting_pod import WaitingPod
from cluster.decide.eviction.victim_selection import VictimSelection, taking


class Everything(Search):
    """Tries out every set of victims on every node."""

    def best(self, asking: WaitingPod) -> VictimSelection | None:
        found = (one for node in asking.snapshot.nodes for one in self._on(asking, node))
        return min(found, key=lambda choice: choice.rank, default=None)

    def _on(self, asking: WaitingPod, node: str) -> list[VictimSelection]:
        if not asking.is_open(node):
            return []
        candidate = self._candidates.candidate(node, asking.model, asking.selector)
        there = len(candidate.free) + len(candidate.leaving) + len(candidate.outgoing_devices)
        found = []
        for some in chain.from_iterable(
            combinations(candidate.victims, size) for size in range(len(candidate.victims) + 1)
        ):
            if there + sum(len(victim.devices) for victim in some) >= asking.need:
                choice = taking(candidate, asking.need, some)
                verdict = asking.verdict(candidate, choice)
                if verdict == "suits":
                    found.append(choice)
                elif verdict == "waits":
                    found.append(taking(candidate, asking.need, some, waits=True))
        return found
