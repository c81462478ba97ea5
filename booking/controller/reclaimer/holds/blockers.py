"""What keeps pods from being evicted: learnt from refusals, asked about again, told to booked pods.

In memory: another process learns the same from its first attempts. Since when budgets alone keep a pod
waiting is on the pod (``disruption_budgets``).
"""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.evictions.refusals import Blocker, blocker_of, is_overload, protected_by
from booking.controller.reclaimer.evictor import ProtectedError
from booking.controller.reclaimer.holds.blocked_pods import Blocked, BlockedPods
from booking.controller.reclaimer.holds.disruption_budgets import (
    also_protected,
    blocked_message,
    ends,
    since,
)
from booking.controller.reclaimer.holds.unevictable import UnevictablePods
from booking.controller.reclaimer.planning.plan import Plan
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.eviction.settings import EvictionSettings
from booking.wording import instant
from cluster.kube.errors import ApiError, StatusError
from cluster.objects.disruption_budgets import DisruptionBudget
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod, is_live

MOST_ASKED: Final = 4
"""Pods about which the API server is asked again in one pass."""


class Blockers:
    """The pods that cannot be evicted now, and for how long budgets count. Not thread-safe."""

    def __init__(self, context: ReclaimerContext, terms: EvictionSettings) -> None:
        self._context = context
        seconds = terms.budget_override_seconds
        self.limit: Final = None if seconds is None else timedelta(seconds=seconds)
        """How long budgets count against a booked pod; None: indefinitely."""
        self._unevictable = UnevictablePods(context.clock)
        self._blocked_pods = BlockedPods(context)

    # --- for the planner -----------------------------------------------------------------------------
    @property
    def uids(self) -> frozenset[str]:
        """Uids of pods that cannot be evicted, so far as is known."""
        return self._unevictable.uids

    @property
    def passing(self) -> frozenset[str]:
        """Those of them whom only budgets protect that will be overridden; none if budgets always count."""
        return frozenset() if self.limit is None else self._unevictable.protected

    # --- learning ------------------------------------------------------------------------------------
    def add(
        self,
        victim: Pod,
        blocker: Blocker,
        budgets: tuple[DisruptionBudget, ...],
        snapshot: ReclaimerSnapshot,
    ) -> None:
        """Record that a pod could not be evicted; pods of the same budget are not tried one by one."""
        for uid in {victim.metadata.uid, *also_protected(budgets, snapshot)}:
            self._unevictable.add(uid, blocker)

    def ask_again(self, snapshot: ReclaimerSnapshot) -> None:
        """Ask the API server again about pods that could not be evicted, if others wait for devices."""
        self._unevictable.forget_all_but(frozenset(snapshot.pods))
        if not snapshot.gives_turns and all(snapshot.pods[uid].spec.node_name for uid in snapshot.needs):
            return
        for uid in self._unevictable.due[:MOST_ASKED]:
            pod = snapshot.pods[uid]
            if not is_live(pod):
                continue
            try:
                self._ask(pod, snapshot)
            except ApiError as error:
                self._context.failures.note("asking about an eviction", pod.key, error)
                return

    def _ask(self, pod: Pod, snapshot: ReclaimerSnapshot) -> None:
        if pod.metadata.uid not in self._unevictable.due:
            return  # it has the same budget as one asked about a moment ago
        try:
            self._context.evictor.ask(pod)
        except ProtectedError as error:
            self.add(pod, protected_by(error.budgets, pod.metadata.namespace), error.budgets, snapshot)
        except StatusError as error:
            if is_overload(error):
                raise
            self._unevictable.add(pod.metadata.uid, blocker_of(error))
        else:
            self._unevictable.lift(pod.metadata.uid)

    # --- telling -------------------------------------------------------------------------------------
    def of(self, hold: Hold, snapshot: ReclaimerSnapshot) -> dict[str, Blocker]:
        """Uid of a victim that has not left -> what keeps it."""
        found = ((uid, self._unevictable.get(uid)) for uid in hold.victims)
        return {uid: why for uid, why in found if why and (pod := snapshot.pods.get(uid)) and is_live(pod)}

    def why(self, uid: str) -> str | None:
        """The clause that says what keeps a pod; None if nothing does."""
        blocker = self._unevictable.get(uid)
        return blocker.why if blocker else None

    def until(self, pod: Pod) -> datetime | None:
        """When budgets stop counting for a booked pod; None: never, or its wait is not written on it yet."""
        return ends(since(pod), self.limit)

    def tell(
        self,
        snapshot: ReclaimerSnapshot,
        in_vain: Iterable[Plan],
        *,
        unsettled: Container[str],
        is_whole: Callable[[Hold, ReclaimerSnapshot], bool],
    ) -> None:
        """Write on the booked pods what keeps others from leaving for them, or that nothing does any more.

        Args:
            snapshot: this instant, with the holds that were written.
            in_vain: for pods without a hold: what would be planned if everybody could be evicted.
            unsettled: uids of pods for which other victims are looked for in the next pass.
            is_whole: whether no victim of a hold has left.
        """
        reports: dict[str, Blocked | None] = {
            one.pod.metadata.uid: self._without_hold(self.of(one.hold, snapshot)) for one in in_vain
        }
        for uid, hold in snapshot.holds.items():
            found = self._with_hold(
                snapshot.pods[uid], self.of(hold, snapshot), snapshot.now, is_whole=is_whole(hold, snapshot)
            )
            reports[uid] = replace(found, message=None) if found and uid in unsettled else found
        self._blocked_pods.tell(snapshot, {uid: blocked for uid, blocked in reports.items() if blocked})

    def _without_hold(self, blockers: Mapping[str, Blocker]) -> Blocked | None:
        if not blockers:
            return None
        counts = (
            " here without an end" if self.limit is None else " as long as something else is in the way, too"
        )
        return Blocked(blocked_message(blockers.values(), counts=counts), None)

    def _with_hold(
        self, pod: Pod, blockers: Mapping[str, Blocker], now: datetime, *, is_whole: bool
    ) -> Blocked | None:
        begun = since(pod)
        if not blockers:
            # Still the same wait: an owner who takes a budget away and writes it again gains no time.
            return Blocked(None, begun) if begun and is_whole else None
        begun = begun or now
        until = ends(begun, self.limit)
        if until is None:
            return None  # the hold is about to be dropped
        counts = f" until {instant(until)}; then they leave all the same"
        return Blocked(blocked_message(blockers.values(), counts=counts), begun)
