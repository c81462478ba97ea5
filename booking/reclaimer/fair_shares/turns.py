"""Whose turn it is: free GPUs for waiting pods without a booking, in the order of fair shares.

The turn of a pod is a hold, written together with the removal of its queue gate. Booked pods come first: free
devices that they are about to take are left to them. Nothing is done while no pod waits behind the gate: then
kube-scheduler places every pod that comes.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final

from booking.eviction.holder_cache import HolderCache
from booking.policy.fair_shares import FairShares
from booking.reclaimer.fair_shares.feasible import Feasible, need_in
from booking.reclaimer.fair_shares.pools import Pool, pools_of
from booking.reclaimer.fair_shares.standing import settings_of, tree_of
from booking.reclaimer.fair_shares.wishes import Wish, Wishes
from booking.reclaimer.planning.node_candidates import NodeCandidates, PlanningInputs
from booking.reclaimer.planning.plan import Plan, Round, first_in_time, waiting_for_bookings
from booking.reclaimer.planning.search import Search
from booking.reclaimer.snapshot import Snapshot
from cluster.decide.eviction.costs import microseconds
from cluster.decide.fairshare import Books, Line, Shares, Unit, advance, deserve, grants, observe
from cluster.decide.request import GpuRequest, gpu_request_of
from cluster.objects.pods import Pod
from cluster.objects.scheduling_gates import is_queued
from cluster.process.clock import Clock

MOST: Final = 20
"""Turns that are given in one pass."""
INFEASIBLE_FOR: Final = 60.0
"""Seconds after which the gate of a pod is removed that no node could take: it does not wait for a turn."""
RESTS: Final = 4
"""The next pass waits this many times the duration of the last: the thread has more urgent work."""


class Turns:
    """Gives turns. Not thread-safe; what it remembers are past shares, and what is cheap to compute again."""

    def __init__(self, clock: Clock, shares: Callable[[], FairShares]) -> None:
        """Args: shares: the settings that are in force."""
        self._clock = clock
        self._settings = shares
        self._wishes, self._feasible = Wishes(), Feasible()
        self._in_line: dict[str, tuple[Wish, tuple[str, ...]]] = {}
        """Uid -> its wish, and the models in whose lines it waits."""
        self.lines: dict[str, Line] = {}
        """Model -> the units that wait for it."""
        self.books: dict[str, Books] = {}
        self.shares: dict[str, Shares] = {}
        """Model -> who holds and deserves what, after the last pass."""
        self._infeasible: dict[str, float] = {}
        """Uid -> since when no node could take it, monotonic."""
        self._next = 0.0

    def forget(self) -> None:
        """Nobody gets turns here: another process does, or fair shares are off."""
        self._in_line, self.lines, self.books, self.shares, self._infeasible = {}, {}, {}, {}, {}

    def plans(self, snapshot: Snapshot, inputs: PlanningInputs, holder_cache: HolderCache) -> list[Plan]:
        """The holds that are to be written now, in this order."""
        begun = self._clock.monotonic()
        if begun < self._next:
            return []
        settings = self._settings()
        wishes = self._wishes.at(snapshot, settings)
        if not wishes and not self._in_line:
            return []
        candidates = NodeCandidates(snapshot, inputs, holder_cache)
        self._feasible.refresh(snapshot)
        self._update(wishes, snapshot, candidates)
        pools = pools_of(snapshot, holder_cache, settings)
        self._account(pools, snapshot, settings)
        found = self._grant(wishes, snapshot, candidates)
        now = self._clock.monotonic()
        self._next = now + RESTS * (now - begun)
        return found

    def without_a_turn(self) -> list[Pod]:
        """Pods that no turn can serve: they wait for the scheduler alone."""
        now = self._clock.monotonic()
        late = [uid for uid, since in self._infeasible.items() if now - since >= INFEASIBLE_FOR]
        return [*self._wishes.odd(), *(self._in_line[uid][0].pod for uid in late)]

    # --- inside --------------------------------------------------------------------------------------
    def _update(self, wishes: Mapping[str, Wish], snapshot: Snapshot, candidates: NodeCandidates) -> None:
        """Keep the lines: only what has changed is touched."""
        for uid in self._in_line.keys() - wishes.keys():
            self._leave(uid)
        now, infeasible = self._clock.monotonic(), {}
        for uid, wish in wishes.items():
            models = self._feasible.models(wish, snapshot, candidates)
            if not models:
                infeasible[uid] = self._infeasible.get(uid, now)
            known = self._in_line.get(uid)
            if known and known[0].unit is wish.unit and known[1] == models:
                self._in_line[uid] = (wish, models)
                continue
            self._leave(uid)
            self._in_line[uid] = (wish, models)
            for model in models:
                self.lines.setdefault(model, Line()).add(wish.unit)
        self._infeasible = infeasible

    def _leave(self, uid: str) -> None:
        _, models = self._in_line.pop(uid, (None, ()))
        for model in models:
            self.lines[model].remove(uid)

    def _account(self, pools: Mapping[str, Pool], snapshot: Snapshot, settings: FairShares) -> None:
        """What everybody holds and deserves now, and was owed until now."""
        now, terms = microseconds(snapshot.now), settings_of(settings)
        for model in sorted(pools.keys() | self.shares.keys()):
            pool, before = pools.get(model, Pool()), self.shares.get(model)
            books = self.books.get(model, Books(at=now))
            if before is not None:
                books = advance(books, before, now, terms)
            wanted = self.lines[model].wanted if model in self.lines else {}
            shares = deserve(tree_of(settings, model), pool.capacity, pool.held, wanted)
            self.shares[model], self.books[model] = shares, observe(books, shares)

    def _grant(
        self, wishes: Mapping[str, Wish], snapshot: Snapshot, candidates: NodeCandidates
    ) -> list[Plan]:
        queued = {wish.request.key: wish.request for wish in wishes.values() if is_queued(wish.pod)}
        if not queued:
            return []
        one_round = Round(snapshot, candidates, Search(candidates))
        for pod in sorted(waiting_for_bookings(snapshot), key=first_in_time):
            one_round.serve(pod)
        made: list[Plan] = []
        for model in sorted(self.lines):
            made += self._of_model(model, one_round, queued.values(), most=MOST - len(made))
        return made

    def _of_model(
        self, model: str, one_round: Round, queued: Iterable[GpuRequest], *, most: int
    ) -> list[Plan]:
        line, queued = self.lines[model], tuple(queued)

        def place(unit: Unit) -> Plan | None:
            wish = self._in_line[unit.uid][0]
            return one_round.start(wish.pod, need_in(wish, model))

        found = list(islice(grants(line, self.shares[model], self.books[model], place), max(0, most)))
        if not found:
            return []
        changes = {unit.tenant: 0 for unit, _ in found}
        for unit, _ in found:
            changes[unit.tenant] += round(unit.gpus)
            self._leave(unit.uid)
        self.shares[model] = self.shares[model].after(changes)
        # Who waits without a gate for what nobody in line could use is placed by kube-scheduler.
        return [
            plan
            for unit, plan in found
            if is_queued(plan.pod) or any(gpu_request_of(plan.pod).competes_with(one) for one in queued)
        ]
