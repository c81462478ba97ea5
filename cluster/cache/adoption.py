"""Finds the running pods in the cache that a booking does not cover on their node, by ``decide.adoption``.

And those whose shares it does not cover on their GPUs, by ``decide.share_places``. Owned and guarded by
``ClusterCache``. While a booking needs one node, a node has maintenance or a pod has shares, it costs a check
of the covered pods; otherwise next to nothing.
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
from cluster.decide.share_places import SharePlaces, misplaced_shares
from cluster.objects.bookings import Booking
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod, first_created

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
        if not whole and not blocks and not self._ledger.has_shares:
            return NO_PAIRS
        covered = self._cover.all(now)
        new = tuple(
            (uid, pods[uid].metadata.resource_version, booking.name)
            for uid, booking in covered.items()
            if uid in pods
            and (blocks or booking.spec.model in whole or self._has_shares(uid))
            and is_new(pods[uid], booking)
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
            more = (misplaced(inputs) | self._misplaced_shares(instant, holds)) - barred
            if not more:
                return barred
            barred |= more
            instant = replace(instant, cover=self._cover.all(instant.now, barred))

    def _has_shares(self, uid: str) -> bool:
        holding = self._ledger.holding(uid)
        return holding is not None and holding.share is not None

    def _misplaced_shares(self, instant: SupplySnapshot, holds: Mapping[str, Hold]) -> frozenset[Pair]:
        there = {each.uid: each for view in instant.views.values() for each in view.holdings if each.share}
        new = [
            (pod, booking)
            for uid, booking in instant.cover.items()
            if uid in there and (pod := instant.pods.get(uid)) and is_new(pod, booking)
        ]
        if not new:
            return NO_PAIRS
        uids = {pod.metadata.uid for pod, _ in new}
        places = SharePlaces(
            views=instant.views,
            cover={uid: booking for uid, booking in instant.cover.items() if uid not in uids},
            holds=holds,
            pods=instant.pods,
            namespaces=instant.namespaces,
            home=instant.home,
        )
        ordered = sorted(
            new, key=lambda one: (one[1].spec.start, one[1].name, first_created(one[0]), one[0].key)
        )
        return misplaced_shares(places, ((there[pod.metadata.uid], booking) for pod, booking in ordered))
