"""Whose turn it is: free GPUs for waiting pods without a booking, in the order of fair shares.

The turn of a pod is a hold, written together with the removal of its queue gate; a gang's pods keep the gate
until all of them have their devices. Booked pods come first: free devices that they are about to take are
left to them. Nothing is done while no pod waits behind the gate: then kube-scheduler places every pod that
comes.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

import msgspec

from booking.controller.reclaimer.fair_shares.accounts import Accounts
from booking.controller.reclaimer.fair_shares.failed_searches import Failures
from booking.controller.reclaimer.fair_shares.feasible import need_in
from booking.controller.reclaimer.fair_shares.last_check import OFF, allows_taking, is_half_way, share_problem
from booking.controller.reclaimer.fair_shares.lines import Lines
from booking.controller.reclaimer.fair_shares.record import RecordStore
from booking.controller.reclaimer.fair_shares.taking import TakingPlaces, running_in
from booking.controller.reclaimer.planning.node_candidates import NodeCandidates, PlanningInputs
from booking.controller.reclaimer.planning.plan import Plan, Round, waiting_for_bookings
from booking.controller.reclaimer.planning.search import Search
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.durations import Duration
from booking.eviction.holder_cache import HolderCache
from booking.fair_shares.applicants import Applicant, Applicants
from booking.fair_shares.pools import Pool, pools_of
from booking.fair_shares.standing import settings_of
from booking.policy.fair_shares import FairShares
from cluster.decide.fairshare import Pass, Unit, grants, reclaim
from cluster.objects.gangs import gang_of
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod
from cluster.objects.scheduling_gates import is_queued
from cluster.process.clock import Clock

MOST: Final = 20
"""Turns that are given in one pass."""
IDLE_AFTER: Final = 60.0
"""Seconds after the last pod has waited until what everybody is owed is not followed any more."""
PLACED_WITHIN: Final = 5.0
"""Seconds after its creation for which a pod without a gate does not count as one that waits: while GPUs are
free kube-scheduler places it, and nothing of that is to be remembered."""
RESTS: Final = 4
"""The next pass waits this many times the duration of the last: the thread has more urgent work."""
TURN: Final = 2
"""The class of what is given beyond a share."""


class Turns:
    """Gives turns. Not thread-safe; what it remembers are past shares, and what is cheap to compute again."""

    def __init__(self, clock: Clock, shares: Callable[[], FairShares], store: RecordStore) -> None:
        """Args: shares: the settings that are in force; store: of what is remembered."""
        self._clock = clock
        self._settings = shares
        self._applicants = Applicants()
        self.lines = Lines(clock)
        self.accounts = Accounts(clock, store)
        self._failures = Failures(clock)
        self._busy: float | None = None
        """When a pod waited last, monotonic."""
        self._lines_by: FairShares | None = None
        """The settings by which the lines were read; None before the first pass as the leader."""
        self._next = 0.0
        self.joining: list[Pod] = []
        """Pods that could not be given a gate, and wait in line from now on."""
        self.due: float | None = None
        """When to ask again, monotonic, because the last time was too soon; None if it was not."""

    def forget(self) -> None:
        """Nobody gets turns here: another process does, or fair shares are off."""
        self._applicants = Applicants()
        self.lines.clear()
        self.accounts.forget()
        self._lines_by, self._busy, self.due, self.joining = None, None, None, []

    def rest(self, snapshot: ReclaimerSnapshot) -> bool:
        """Whether there is nothing to do: no pod waits or has a hold, and for a while none has.

        A look at each pod, where ``plans`` would read many: this is asked whenever anything changes.
        """
        if self.lines or snapshot.holds or not self._was_idle() or _anybody_may_wait(snapshot):
            return False
        self._applicants, self.due, self.joining = Applicants(), None, []
        self.accounts.rest()
        self._lines_by = self._settings()
        return True

    def is_due(self) -> bool:
        """Whether ``plans`` may be asked again; if not, ``due`` says when."""
        self.due = self._next if self._clock.monotonic() < self._next else None
        return self.due is None

    def plans(
        self, snapshot: ReclaimerSnapshot, inputs: PlanningInputs, holder_cache: HolderCache
    ) -> list[Plan]:
        """The holds that are to be written now, in this order."""
        begun, settings = self._clock.monotonic(), self._settings()
        applicants = self._applicants.at(snapshot, settings)
        if self._is_idle(applicants, snapshot):
            self.accounts.rest()
            self._lines_by, self.joining = settings, []
            return []
        candidates = NodeCandidates(snapshot, inputs, holder_cache)
        self.lines.update(applicants, snapshot, candidates)
        self._lines_by = settings
        pools = pools_of(snapshot, holder_cache, settings)
        self.accounts.advance(pools, self.lines, snapshot, holder_cache=holder_cache, settings=settings)
        one_round = Round(snapshot, candidates, Search(candidates))
        for pod in waiting_for_bookings(snapshot):
            one_round.serve(pod)
        found = self._grant(snapshot, one_round)
        self.joining = self._joining(one_round)
        if settings.mode == "reclaim" and self.accounts.is_informed:
            found += self._take(pools, snapshot, one_round, candidates)
        now = self._clock.monotonic()
        self._next = now + RESTS * (now - begun)
        return found

    def foreseen(self) -> Mapping[str, tuple[Pod, int]]:
        """Uid of a unit that waits -> its pod, of a gang the first, and when GPUs are taken back for it."""
        waiting = self.lines.applicants()
        books = (self.accounts.books(model) for model in self.lines.of_model)
        return {uid: (waiting[uid].pod, at) for one in books for uid, at in one.due.items() if uid in waiting}

    def without_a_turn(self) -> list[Pod]:
        """Pods that no turn can serve: they wait for the scheduler alone."""
        return [*self._applicants.odd(), *self.lines.infeasible()]

    def problem(
        self, pod: Pod, hold: Hold, snapshot: ReclaimerSnapshot, holder_cache: HolderCache
    ) -> str | None:
        """Why devices of others are not taken for the pod any more; None if they are.

        Asked before each step towards an eviction, on the shares of that instant.

        Raises:
            ApiError: what is owed is not known yet, and the API server did not answer.
        """
        settings, need = self._settings(), snapshot.needs.get(pod.metadata.uid)
        if need is None or need.booking or not hold.victims:
            return None
        if not allows_taking(hold, settings):
            return OFF
        if is_half_way(pod, hold, snapshot):
            return None
        if hold.turn:
            self.accounts.inform()
        if self._lines_by != settings:
            self._read_lines(snapshot, holder_cache, settings)
        return share_problem(
            pod, need, snapshot, holder_cache, lines=self.lines, accounts=self.accounts, settings=settings
        )

    # --- inside --------------------------------------------------------------------------------------
    def _is_idle(self, applicants: Mapping[str, Applicant], snapshot: ReclaimerSnapshot) -> bool:
        """Whether nobody waits, for a while: a pod that leaves for another one comes back within seconds."""
        if self.lines or snapshot.turns or any(_waits(one.pod, snapshot) for one in applicants.values()):
            self._busy = self._clock.monotonic()
        return self._was_idle()

    def _was_idle(self) -> bool:
        return self._busy is None or self._clock.monotonic() - self._busy >= IDLE_AFTER

    def _read_lines(
        self, snapshot: ReclaimerSnapshot, holder_cache: HolderCache, settings: FairShares
    ) -> None:
        """Who waits, where no pass has found out: another process has led, or the policy is another now."""
        candidates = NodeCandidates(snapshot, PlanningInputs(), holder_cache)
        self.lines.update(self._applicants.at(snapshot, settings), snapshot, candidates)
        self._lines_by = settings

    def _grant(self, snapshot: ReclaimerSnapshot, one_round: Round) -> list[Plan]:
        """Free devices, in order."""
        if not snapshot.queued:
            return []
        made: list[Plan] = []
        for model in sorted(self.lines.of_model):
            made += self._of_model(model, one_round, snapshot, most=MOST - len(made))
        return made

    def _joining(self, one_round: Round) -> list[Pod]:
        """Late pods that cannot have a gate, where nothing is free: from now on they wait for their turn."""
        late = [pod for pod in self._applicants.late() if not is_queued(pod)]
        models = self.lines.of_model if late else ()
        full = {model for model in models if not one_round.may_have_free(model, 1)}
        return [pod for pod in late if self.lines.is_confined(_unit_of(pod), full)]

    def _of_model(
        self, model: str, one_round: Round, snapshot: ReclaimerSnapshot, *, most: int
    ) -> list[Plan]:
        line, accounts = self.lines.of_model[model], self.accounts

        def place(unit: Unit) -> list[Plan] | None:
            if not one_round.may_have_free(model, round(unit.parts[0])):
                return None  # most often; to look at a node's labels and resources takes far longer
            applicant = self.lines.applicant(unit.uid)
            if applicant.members:
                needs = [(one.pod, need_in(one, model)) for one in applicant.members]
                return one_round.start_all(needs, unit.uid)
            plan = one_round.start(applicant.pod, need_in(applicant, model))
            return None if plan is None else [plan]

        found = list(islice(grants(line, accounts.shares[model], accounts.books(model), place), max(0, most)))
        if not found:
            return []
        accounts.granted(model, ((unit.tenant, unit.gpus) for unit, _ in found))
        made = [(self.lines.applicant(unit.uid).request, plan) for unit, plans in found for plan in plans]
        for unit, _ in found:
            self.lines.leave(unit.uid)
        # Who waits without a gate for what nobody in line could use is placed by kube-scheduler.
        if all(is_queued(plan.pod) for _, plan in made):
            return [plan for _, plan in made]
        queued = self._applicants.queued(snapshot).values()
        return [
            plan
            for request, plan in made
            if plan.gang or is_queued(plan.pod) or any(map(request.competes_with, queued))
        ]

    def _take(
        self,
        pools: Mapping[str, Pool],
        snapshot: ReclaimerSnapshot,
        one_round: Round,
        candidates: NodeCandidates,
    ) -> list[Plan]:
        """Devices of those who hold too much, for those who have held too little for long enough."""
        settings, accounts, made = self._settings(), self.accounts, list[Plan]()
        applicants = self.lines.applicants()
        for model in sorted(self.lines.of_model.keys() & pools.keys()):
            shares, pool, line = accounts.shares[model], pools[model], self.lines.of_model[model]
            if not any(map(shares.is_starved, line.tenants)):
                accounts.begin_no_loan(model)
                continue
            places = TakingPlaces(model, snapshot, one_round, candidates, applicants)
            outcome = reclaim(
                Pass(
                    line=line,
                    shares=shares,
                    books=accounts.books(model),
                    running=running_in(pool.holders, snapshot, settings, accounts.record),
                    places=places,
                    settings=settings_of(settings),
                    node_gpus=pool.largest_node,
                    is_known_to_fail=self._failures.known(model, pool, shares),
                )
            )
            self._failures.note(model, line, outcome.verdicts)
            accounts.shares[model], accounts.record.books[model] = outcome.shares, outcome.books
            for one in outcome.reclaims:
                self.lines.leave(one.unit.uid)
                turn = settings.turn if one.kind == TURN else None
                plans = places.plans[one.unit.uid]
                made += plans if turn is None else [in_a_turn(plan, turn) for plan in plans]
        return made


def _anybody_may_wait(snapshot: ReclaimerSnapshot) -> bool:
    """Whether there is a pod without a node that kube-scheduler is not just placing, or one of a gang."""
    unplaced = (pod for pod in snapshot.pods.values() if not pod.spec.node_name)
    return any(_waits(pod, snapshot) or gang_of(pod) for pod in unplaced)


def _waits(pod: Pod, snapshot: ReclaimerSnapshot) -> bool:
    created = pod.metadata.creation_timestamp
    is_new = created is not None and (snapshot.now - created).total_seconds() < PLACED_WITHIN
    return is_queued(pod) or not is_new


def _unit_of(pod: Pod) -> str:
    """Uid of the unit as which a pod waits."""
    gang = gang_of(pod)
    return gang.key if gang else pod.metadata.uid


def in_a_turn(plan: Plan, turn: Duration) -> Plan:
    """The plan for a pod that is not taken for shares while its turn lasts."""
    hold = msgspec.structs.replace(plan.hold, turn=round(turn.nominal.total_seconds()))
    return replace(plan, hold=hold)
