"""Whose turn it is: free GPUs for waiting pods without a booking, in the order of fair shares.

The turn of a pod is a hold, written together with the removal of its queue gate. Booked pods come first: free
devices that they are about to take are left to them. Nothing is done while no pod waits behind the gate: then
kube-scheduler places every pod that comes.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from typing import Final

import msgspec

from booking.durations import Duration
from booking.eviction.holder_cache import HolderCache
from booking.fair_shares.applicants import Applicant, Applicants, applicant_of
from booking.fair_shares.pools import Pool, pools_of
from booking.fair_shares.standing import settings_of, tenant_of, tree_of
from booking.policy.fair_shares import FairShares
from booking.reclaimer.fair_shares.feasible import Feasible, need_in
from booking.reclaimer.fair_shares.record import Record, RecordStore
from booking.reclaimer.fair_shares.taking import TakingPlaces, running_in
from booking.reclaimer.planning.node_candidates import NodeCandidates, PlanningInputs
from booking.reclaimer.planning.plan import Plan, Round, first_in_time, waiting_for_bookings
from booking.reclaimer.planning.search import Search
from booking.reclaimer.snapshot import Snapshot
from cluster.decide.eviction.costs import microseconds
from cluster.decide.fairshare import (
    EQUAL,
    Books,
    Case,
    Line,
    Pass,
    Shares,
    Tenant,
    Unit,
    advance,
    deserve,
    grants,
    is_legal,
    observe,
    reclaim,
)
from cluster.decide.fairshare.settings import SECOND, Amount
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod, is_live
from cluster.objects.scheduling_gates import is_queued
from cluster.process.clock import Clock

MOST: Final = 20
"""Turns that are given in one pass."""
INFEASIBLE_FOR: Final = 60.0
"""Seconds after which the gate of a pod is removed that no node could take: it does not wait for a turn."""
SAVED_EVERY: Final = 60.0
"""Seconds after which the record is written again, if it says anything new."""
TRIED_EVERY: Final = 5.0
"""Seconds after which the record is read or written again when that has failed."""
IDLE_AFTER: Final = 60.0
"""Seconds after the last pod has waited until what everybody is owed is not followed any more."""
RESTS: Final = 4
"""The next pass waits this many times the duration of the last: the thread has more urgent work."""

TURN: Final = 2
"""The class of what is given beyond a share."""
UNKNOWN: Final = deserve(EQUAL, 0, {}, {})
"""The shares of a time in which nobody waited: what was held then counts for nobody."""


class Turns:
    """Gives turns. Not thread-safe; what it remembers are past shares, and what is cheap to compute again."""

    def __init__(self, clock: Clock, shares: Callable[[], FairShares], store: RecordStore) -> None:
        """Args: shares: the settings that are in force; store: of what is remembered."""
        self._clock = clock
        self._store = store
        self._is_informed = False
        """Whether the record has been read."""
        self._tried, self._every = 0.0, 0.0
        """When the record was read or written last, monotonic, and seconds until the next time."""
        self._settings = shares
        self._applicants, self._feasible = Applicants(), Feasible()
        self._in_line: dict[str, tuple[Applicant, tuple[str, ...]]] = {}
        """Uid -> the pod that waits, and the models in whose lines it does."""
        self.lines: dict[str, Line] = {}
        """Model -> the units that wait for it."""
        self.record = Record()
        """What is remembered."""
        self.shares: dict[str, Shares] = {}
        """Model -> who holds and deserves what, after the last pass."""
        self._owed: dict[str, tuple[Shares, Mapping[Tenant, Amount]]] = {}
        """Model -> by what is owed since the last pass, and everybody's largest unit that waits. Whose others
        have still to leave waits."""
        self._busy: float | None = None
        """When a pod waited last, monotonic."""
        self._infeasible: dict[str, float] = {}
        """Uid -> since when no node could take it, monotonic."""
        self._lines_by: FairShares | None = None
        """The settings by which the lines were read; None before the first pass as the leader."""
        self._next = 0.0

    def forget(self) -> None:
        """Nobody gets turns here: another process does, or fair shares are off."""
        self._in_line, self.lines, self.shares, self._infeasible = {}, {}, {}, {}
        self._owed, self._busy = {}, None
        self._applicants = Applicants()
        self.record, self._is_informed, self._every = Record(), False, 0.0
        self._lines_by = None

    def remember(self) -> None:
        """Read the record where that has not been done, and write it now and then.

        Raises:
            ApiError: the API server did not answer, or refused.
        """
        now, monotonic = microseconds(self._clock.now()), self._clock.monotonic()
        if monotonic - self._tried < self._every:
            return
        self._tried, self._every = monotonic, TRIED_EVERY
        if self._is_informed:
            self._store.save(self.record, now)
        else:
            self._read_record(now)
        self._every = SAVED_EVERY

    def _read_record(self, now: int) -> None:
        self.record = self._store.load(now).with_taken(self.record.taken)
        self._is_informed = True

    def note_taken(self, victim: Pod) -> None:
        """A pod was evicted for the share of another user; it is recorded within seconds."""
        self.record.note_taken(victim, microseconds(self._clock.now()))
        self._every = min(self._every, TRIED_EVERY)

    def plans(self, snapshot: Snapshot, inputs: PlanningInputs, holder_cache: HolderCache) -> list[Plan]:
        """The holds that are to be written now, in this order."""
        begun = self._clock.monotonic()
        if begun < self._next:
            return []
        settings = self._settings()
        applicants = self._applicants.at(snapshot, settings)
        if self._is_idle(applicants, snapshot):
            self.shares, self._owed, self._lines_by = {}, {}, settings
            return []
        candidates = NodeCandidates(snapshot, inputs, holder_cache)
        self._update(applicants, snapshot, candidates)
        self._lines_by = settings
        pools = pools_of(snapshot, holder_cache, settings)
        self._account(pools, snapshot, holder_cache, settings)
        one_round = Round(snapshot, candidates, Search(candidates))
        for pod in sorted(waiting_for_bookings(snapshot), key=first_in_time):
            one_round.serve(pod)
        found = self._grant(applicants, one_round)
        if settings.mode == "reclaim" and self._is_informed:
            found += self._take(pools, snapshot, one_round, candidates)
        now = self._clock.monotonic()
        self._next = now + RESTS * (now - begun)
        return found

    def without_a_turn(self) -> list[Pod]:
        """Pods that no turn can serve: they wait for the scheduler alone."""
        now = self._clock.monotonic()
        late = [uid for uid, since in self._infeasible.items() if now - since >= INFEASIBLE_FOR]
        return [*self._applicants.odd(), *(self._in_line[uid][0].pod for uid in late)]

    # --- inside --------------------------------------------------------------------------------------
    def _is_idle(self, applicants: Mapping[str, Applicant], snapshot: Snapshot) -> bool:
        """Whether nobody waits, for a while: a pod that leaves for another one comes back within seconds."""
        now = self._clock.monotonic()
        if applicants or self._in_line or snapshot.turns:
            self._busy = now
        return self._busy is None or now - self._busy >= IDLE_AFTER

    def _read_lines(self, snapshot: Snapshot, holder_cache: HolderCache, settings: FairShares) -> None:
        """Who waits, where no pass has found out: another process has led, or the policy is another now."""
        candidates = NodeCandidates(snapshot, PlanningInputs(), holder_cache)
        self._update(self._applicants.at(snapshot, settings), snapshot, candidates)
        self._lines_by = settings

    def _update(
        self, applicants: Mapping[str, Applicant], snapshot: Snapshot, candidates: NodeCandidates
    ) -> None:
        """Keep the lines: only what has changed is touched."""
        for uid in self._in_line.keys() - applicants.keys():
            self._leave(uid)
        now, infeasible = self._clock.monotonic(), {}
        are_same = not self._feasible.refresh(snapshot)
        for uid, applicant in applicants.items():
            known = self._in_line.get(uid)
            if known and known[0] is applicant and are_same:
                models = known[1]
            else:
                models = self._feasible.models(applicant, snapshot, candidates)
            if not models:
                infeasible[uid] = self._infeasible.get(uid, now)
            if known and known[0].unit is applicant.unit and known[1] == models:
                self._in_line[uid] = (applicant, models)
                continue
            self._leave(uid)
            self._in_line[uid] = (applicant, models)
            for model in models:
                self.lines.setdefault(model, Line()).add(applicant.unit)
        self._infeasible = infeasible

    def _leave(self, uid: str) -> None:
        _, models = self._in_line.pop(uid, (None, ()))
        for model in models:
            self.lines[model].remove(uid)

    def _account(
        self,
        pools: Mapping[str, Pool],
        snapshot: Snapshot,
        holder_cache: HolderCache,
        settings: FairShares,
    ) -> None:
        """What everybody holds and deserves now, and was owed until now."""
        now, terms = microseconds(snapshot.now), settings_of(settings)
        waiting = about_to_start(snapshot)
        before_them = (
            pools_of(snapshot.without_holds(frozenset(waiting)), holder_cache, settings) if waiting else {}
        )
        for model in sorted(pools.keys() | self.shares.keys()):
            pool, line = pools.get(model, Pool()), self.lines.get(model, Line())
            before, largest = self._owed.get(model, (UNKNOWN, {}))
            books = advance(self.record.books.get(model, Books(at=now)), before, now, terms, largest=largest)
            tree = tree_of(settings, model)
            owed = shares = deserve(tree, pool.capacity, pool.held, line.wanted)
            theirs = self._wanted_by(waiting, model, snapshot, settings)
            if theirs:
                wanted = _sum(line.wanted, theirs)
                owed = deserve(tree, pool.capacity, before_them.get(model, pool).held, wanted)
            self.shares[model], self._owed[model] = shares, (owed, line.largest)
            self.record.books[model] = observe(books, owed)

    def _wanted_by(
        self, waiting: Mapping[str, Hold], model: str, snapshot: Snapshot, settings: FairShares
    ) -> dict[Tenant, Amount]:
        """What those of these pods want that are to have devices of a model."""
        found: dict[Tenant, Amount] = {}
        for uid, hold in waiting.items():
            need = snapshot.needs.get(uid)
            if need is not None and need.model == model:
                tenant = tenant_of(snapshot.pods[uid], settings)
                found[tenant] = found.get(tenant, 0) + len(hold.devices)
        return found

    def _grant(self, applicants: Mapping[str, Applicant], one_round: Round) -> list[Plan]:
        """Free devices, in order."""
        if not any(is_queued(applicant.pod) for applicant in applicants.values()):
            return []
        made: list[Plan] = []
        for model in sorted(self.lines):
            made += self._of_model(model, one_round, applicants, most=MOST - len(made))
        return made

    def _of_model(
        self, model: str, one_round: Round, applicants: Mapping[str, Applicant], *, most: int
    ) -> list[Plan]:
        line = self.lines[model]

        def place(unit: Unit) -> Plan | None:
            if not one_round.may_have_free(model, round(unit.gpus)):
                return None  # most often; to look at a node's labels and resources takes far longer
            applicant = self._in_line[unit.uid][0]
            return one_round.start(applicant.pod, need_in(applicant, model))

        found = list(islice(grants(line, self.shares[model], self.record.books[model], place), max(0, most)))
        if not found:
            return []
        changes = {unit.tenant: 0 for unit, _ in found}
        for unit, _ in found:
            changes[unit.tenant] += round(unit.gpus)
            self._leave(unit.uid)
        self.shares[model] = self.shares[model].after(changes)
        # Who waits without a gate for what nobody in line could use is placed by kube-scheduler.
        if all(is_queued(plan.pod) for _, plan in found):
            return [plan for _, plan in found]
        queued = {one.request.key: one.request for one in applicants.values() if is_queued(one.pod)}
        return [
            plan
            for unit, plan in found
            if is_queued(plan.pod)
            or any(applicants[unit.uid].request.competes_with(one) for one in queued.values())
        ]

    def _take(
        self,
        pools: Mapping[str, Pool],
        snapshot: Snapshot,
        one_round: Round,
        candidates: NodeCandidates,
    ) -> list[Plan]:
        """Devices of those who hold too much, for those who have held too little for long enough."""
        settings, made = self._settings(), list[Plan]()
        applicants = {uid: applicant for uid, (applicant, _) in self._in_line.items()}
        for model in sorted(self.lines.keys() & pools.keys()):
            shares, pool = self.shares[model], pools[model]
            if not any(map(shares.is_starved, self.lines[model].tenants)):
                self.record.books[model] = replace(self.record.books[model], loan_since=None)
                continue
            places = TakingPlaces(model, one_round, candidates, applicants)
            outcome = reclaim(
                Pass(
                    line=self.lines[model],
                    shares=shares,
                    books=self.record.books[model],
                    running=running_in(pool.holders, snapshot, settings, self.record),
                    places=places,
                    settings=settings_of(settings),
                    node_gpus=pool.largest_node,
                )
            )
            self.shares[model], self.record.books[model] = outcome.shares, outcome.books
            for one in outcome.reclaims:
                self._leave(one.unit.uid)
                turn = settings.turn if one.kind == TURN else None
                plans = places.plans[one.unit.uid]
                made += plans if turn is None else [in_a_turn(plan, turn) for plan in plans]
        return made

    # --- the last check ------------------------------------------------------------------------------
    def problem(self, pod: Pod, hold: Hold, snapshot: Snapshot, holder_cache: HolderCache) -> str | None:
        """Why devices of others are not taken for the pod any more; None if they are.

        Asked before each step towards an eviction, on the shares of that instant, as if the pod still waited
        and none of its victims had been asked to leave.
        """
        uid, settings = pod.metadata.uid, self._settings()
        need = snapshot.needs.get(uid)
        if need is None or need.booking or not hold.victims:
            return None
        if settings.mode != "reclaim" or (hold.turn and settings.turn is None):
            return "the policy does not say any more that GPUs are taken back for fair shares"
        if hold.turn and not all(victim in snapshot.pods for victim in hold.victims):
            return None  # it has been paid for, and some have left: the others' leaving makes that of use
        if hold.turn and not self._is_informed:
            self._read_record(microseconds(snapshot.now))
        applicant = applicant_of(pod, settings)
        if self._lines_by != settings:
            self._read_lines(snapshot, holder_cache, settings)
        without = snapshot.without_holds(frozenset({uid}))
        pool = pools_of(without, holder_cache, settings).get(need.model)
        if applicant is None or pool is None:
            return "its user has no share any more"
        wanted = dict(self.lines[need.model].wanted) if need.model in self.lines else {}
        wanted[applicant.unit.tenant] = wanted.get(applicant.unit.tenant, 0) + applicant.unit.gpus
        shares = deserve(tree_of(settings, need.model), pool.capacity, pool.held, wanted)
        books = self.record.books.get(need.model, Books())
        # What was withheld has been paid with when the devices were taken.
        terms = replace(settings_of(settings), worth=Fraction(0))
        if hold.turn:
            books = _with_leeway(books, shares, applicant.unit.tenant)
        else:
            terms = replace(terms, turn=None)
        case = Case(applicant.unit, shares, books, terms, pool.largest_node)
        there = {victim: pool.holders[victim] for victim in hold.victims if victim in pool.holders}
        victims = running_in(there, without, settings, self.record)
        if victims and is_legal(case, victims, 0).kind == 0:
            return "who holds and wants GPUs has changed: taking these back would not be fair any more"
        return None


def about_to_start(snapshot: Snapshot) -> Mapping[str, Hold]:
    """The holds of pods for which others have still to leave: until then these hold the devices."""
    return {
        uid: hold
        for uid, hold in snapshot.turns.items()
        if hold.turn and any((one := snapshot.pods.get(victim)) and is_live(one) for victim in hold.victims)
    }


def in_a_turn(plan: Plan, turn: Duration) -> Plan:
    """The plan for a pod that is not taken for shares while its turn lasts."""
    hold = msgspec.structs.replace(plan.hold, turn=round(turn.nominal.total_seconds()))
    return replace(plan, hold=hold)


def _sum(one: Mapping[Tenant, Amount], other: Mapping[Tenant, Amount]) -> dict[Tenant, Amount]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in {*one, *other}}


def _with_leeway(books: Books, shares: Shares, tenant: Tenant) -> Books:
    """The books as if what a controller that crashes may lose of the record had been owed to the tenant."""
    span, accounts = round(2 * SAVED_EVERY * SECOND), dict(books.accounts)
    for node in shares.tree.path(tenant):
        account = books.of(node)
        accounts[node] = replace(account, lag=account.lag + int(shares.lacks(node) * span))
    return replace(books, accounts=accounts)
