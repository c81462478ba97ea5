"""How holds are judged by hand: what each node could give, whoever may be evicted."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, combinations

import msgspec
from msgspec.structs import replace

from booking.controller.reclaimer.ending.booking_ends import about_to_end
from booking.controller.reclaimer.planning.node_candidates import NodeCandidates, PlanningInputs
from booking.controller.reclaimer.planning.plan import Round, first_in_time, plan, waiting_for_bookings
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.eviction.holder_cache import HolderCache
from cluster import names
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod
from tests.booking.controller.reclaimer.planning.exhaustive_planner import Everything
from tests.laws.places import HANGS_AFTER
from tests.properties.random_cluster import RESTART, TERMS


@dataclass(frozen=True)
class Options:
    """What a node could give to a pod, worked out by hand."""

    free: frozenset[str]
    leaving: frozenset[str]
    outgoing_devices: frozenset[str]
    evictable: dict[str, tuple[frozenset[str], int, int]]
    """Uid -> its devices of the model, what its eviction destroys, and how often it was evicted before."""

    def sets(self, need: int) -> Iterator[tuple[int, int, int, frozenset[str]]]:
        """(lost work, earlier evictions, number, uids) of every set of victims that frees enough."""
        without = len(self.free | self.leaving | self.outgoing_devices)
        for uids in chain.from_iterable(
            combinations(sorted(self.evictable), size) for size in range(len(self.evictable) + 1)
        ):
            if without + sum(len(self.evictable[uid][0]) for uid in uids) >= need:
                lost, before = (sum(self.evictable[uid][n] for uid in uids) for n in (1, 2))
                yield lost, before, len(uids), frozenset(uids)


@dataclass(frozen=True)
class Blocked:
    """Uids of pods that cannot be evicted."""

    all: frozenset[str]
    by_budgets: frozenset[str]
    """Those whom only budgets protect, which count for a while."""


def at_some_time(before: Blocked, after: Blocked) -> list[Blocked]:
    """What may have been known during a pass: the API server is asked again, and refuses evictions."""
    never_lifted = Blocked(before.all & after.all, before.by_budgets & after.all)
    return [before, after, never_lifted]


def tried_holds(seen: ReclaimerSnapshot, spared: Blocked) -> dict[str, Hold]:
    """The holds that trying out everything finds: first without whom budgets protect, then with them."""
    found = _tried(seen, spared.all)
    if spared.by_budgets:
        found |= _tried(seen.with_holds(found), spared.all - spared.by_budgets)
    return found


def tried_instead(pod: Pod, before: ReclaimerSnapshot, spared: Blocked) -> Iterator[Hold | None]:
    """What it finds for a pod in place of its hold, after all others who wait: without those, then with."""
    kept = {key: text for key, text in (pod.metadata.annotations or {}).items() if key != names.HOLD}
    asking = replace(pod, metadata=replace(pod.metadata, annotations=kept))
    others = before.without_holds(frozenset({pod.metadata.uid}))
    for excluded in (spared.all, spared.all - spared.by_budgets):
        candidates = NodeCandidates(others, _inputs(others, excluded), HolderCache())
        one_round = Round(others, candidates, Everything(candidates))
        for other in sorted(waiting_for_bookings(others), key=first_in_time):
            one_round.serve(other)
        made = one_round.serve(asking)
        yield replace(made.hold, state=None, at=None) if made else None


def _inputs(seen: ReclaimerSnapshot, excluded: frozenset[str]) -> PlanningInputs:
    return PlanningInputs(excluded=excluded, ending=about_to_end(seen, TERMS))


def _tried(seen: ReclaimerSnapshot, excluded: frozenset[str]) -> dict[str, Hold]:
    made = plan(seen, _inputs(seen, excluded), search=Everything)
    return {one.pod.metadata.uid: replace(one.hold, state=None, at=None) for one in made}


def options_on(name: str, model: str, before: ReclaimerSnapshot, holds: dict[str, Hold]) -> Options:
    """What the node could give: by the devices, whose they are, and what becomes of those."""
    view = before.node_snapshots[name][0]
    kept = {uuid for hold in holds.values() if hold.node == name for uuid in hold.devices}
    outgoing_pods = {uid for hold in holds.values() for uid in hold.victims} | about_to_end(before, TERMS)
    usable = {d.uuid for d in view.devices if d.health == "healthy" and d.model == model} - kept
    free, leaving, outgoing_devices = set(usable), set[str](), set[str]()
    evictable: dict[str, tuple[frozenset[str], int, int]] = {}
    for uid, pod in before.pods.items():
        held = {uuid for uuid in view.held if uid in view.holders(uuid)}
        free -= held
        if pod.metadata.deletion_timestamp:
            # Who hangs is not waited for, and cannot be evicted once more.
            leaving |= held & usable if before.now < pod.metadata.deletion_timestamp + HANGS_AFTER else set()
        elif uid in outgoing_pods:
            outgoing_devices |= held & usable
        elif held & usable and uid not in before.cover:
            often = int(pod.metadata.annotation(names.EVICTIONS) or 0)
            cost = len(held) * (_worked(pod, before) + RESTART * 1_000_000)
            evictable[uid] = (frozenset(held & usable), cost, often)
    return Options(frozenset(free), frozenset(leaving), frozenset(outgoing_devices), evictable)


def _worked(pod: Pod, before: ReclaimerSnapshot) -> int:
    """Microseconds since the pod started or saved its work."""
    since = min(pod.status.start_time or before.now, before.now)
    text = pod.metadata.annotation(names.CHECKPOINT_AT)
    if text:
        since = min(max(since, msgspec.convert(text, type(since), strict=False)), before.now)
    return (before.now - since) // timedelta(microseconds=1)
