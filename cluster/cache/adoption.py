"""Finds the running pods in the cache that a booking does not cover on their node, by ``decide.adoption``.

Owned and guarded by ``ClusterCache``. While a booking needs one node or a node has maintenance, it costs a
check of the covered pods; otherwise it costs nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from cluster.cache.cover import Cover
from cluster.cache.placement_needs import PlacementNeeds
from cluster.decide.adoption import Pair, is_new, misplaced
from cluster.decide.booking_plan.inputs import PlanInputs
from cluster.decide.booking_plan.supply import SupplySnapshot
from cluster.decide.ledger import Ledger
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod

NO_PAIRS: Final[frozenset[Pair]] = frozenset()


class Adoption:
    """Computes which pods are barred, and keeps the answer until its inputs change."""

    def __init__(self, ledger: Ledger, cover: Cover, needs: PlacementNeeds) -> None:
        self._ledger, self._cover, self._needs = ledger, cover, needs
        self._known: tuple[object, ...] = ()
        self._barred = NO_PAIRS

    def barred(
        self,
        now: datetime,
        pods: Mapping[str, Pod],
        instant: Callable[[Mapping[str, Booking]], SupplySnapshot],
    ) -> frozenset[Pair]:
        """(uid, booking) of the pods that a booking does not cover now.

        Args:
            now: the instant.
            pods: uid -> pod.
            instant: returns the cluster as known then, under a given cover; called only if needed.
        """
        whole, blocks = self._needs.whole(now), self._needs.blocks
        if not whole and not blocks:
            return NO_PAIRS
        covered = self._cover.all(now)
        new = tuple(
            (uid, pods[uid].metadata.resource_version, booking.name)
            for uid, booking in covered.items()
            if (blocks or booking.spec.model in whole) and uid in pods and is_new(pods[uid], booking)
        )
        if not new:
            return NO_PAIRS
        seen = instant(covered)
        known = (
            new,
            self._ledger.generation,
            self._cover.bookings,
            blocks,
            tuple((uid, booking.name) for uid, booking in covered.items()),
            seen.gone,
            seen.namespaces,
            now.replace(second=0, microsecond=0),
        )
        if known != self._known:
            self._barred, self._known = self._found(seen, pods.keys()), known
        return self._barred

    def _found(self, instant: SupplySnapshot, living: Iterable[str]) -> frozenset[Pair]:
        """A pod that is covered instead of another one may itself lose cover because of its place."""
        holds = {uid: hold for uid, hold in self._ledger.holds.items() if uid in living}
        barred = NO_PAIRS
        while True:
            inputs = PlanInputs(
                instant=instant, bookings=self._cover.bookings, blocks=self._needs.blocks, holds=holds
            )
            more = misplaced(inputs) - barred
            if not more:
                return barred
            barred |= more
            instant = replace(instant, cover=self._cover.all(instant.now, barred))
