"""Where booked pods may be placed so that every booking keeps a place: booking plans over the cache.

Plans whose inputs have not changed since the last call are reused. No plan is made for a model without
bookings of several devices on one node and without maintenance on its nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from cluster.cache.cache import ClusterCache
from cluster.cache.node_supply import NodeSupplies
from cluster.decide.booking_plan import PlacementCheck
from cluster.decide.booking_plan.inputs import ModelInputs, PlanInputs, check_of, model_inputs
from cluster.decide.booking_plan.permanent_pods import PermanentPods
from cluster.decide.booking_plan.supply import SupplySnapshot, bookable_devices
from cluster.objects.bookings import Booking


@dataclass(frozen=True, slots=True)
class BookedNodes:
    """The nodes that suit a booked pod at one instant."""

    checks: Mapping[str, PlacementCheck]

    def allow(self, booking: Booking, node: str, need: int, *, hold_node: str | None = None) -> bool:
        """Whether a pod of the booking that needs this many devices may be placed on a node.

        ``hold_node``: the node on which devices are kept for it, which was approved when the hold was made.
        """
        known = self.checks.get(booking.spec.model)
        return known is None or node == hold_node or known.allows(booking.name, node, need)

    def planned(self, booking: Booking, node: str) -> int:
        """Number of devices of the booking that are planned there and that its pods do not have yet."""
        known = self.checks.get(booking.spec.model)
        return 0 if known is None else known.has(booking.name, node)


EVERYWHERE = BookedNodes({})
"""Every node suits."""


class BookingPlans:
    """Builds ``BookedNodes`` from a cache. Use it under the cache's lock, or from one thread."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._known: tuple[object, ...] = ()
        self._places = EVERYWHERE
        self._permanent_known: tuple[object, ...] = ()
        self._permanent_pods: PermanentPods | None = None
        self._supplies = NodeSupplies()
        self._checks: dict[str, tuple[ModelInputs, datetime, PlacementCheck | None]] = {}

    def places(self, now: datetime) -> BookedNodes:
        """The nodes that suit now."""
        with self._cache.locked() as ledger:
            needs = self._cache.placement_needs()
            models, blocks = needs.whole(now), needs.blocks
            if not models and not blocks:
                return EVERYWHERE
            cover = self._cache.cover(now)
            instant = self._cache.supply_snapshot(now, cover)
            known = (ledger.generation, *self._known_of(instant))
            if known != self._known:
                inputs = self._inputs(instant)
                self._places, self._known = self._made(inputs, _models(inputs, models)), known
            return self._places

    def permanent_pods(self, now: datetime) -> PermanentPods:
        """Which nodes can take, now, a pod that is never evicted."""
        with self._cache.locked() as ledger:
            instant = self._cache.supply_snapshot(now, self._cache.cover(now))
            known = (ledger.generation, instant.namespaces, instant.quiet, *self._known_of(instant))
            if self._permanent_pods is None or known != self._permanent_known:
                self._permanent_pods = PermanentPods(self._inputs(instant), self._supplies.of(instant))
                self._permanent_known = known
            return self._permanent_pods

    def _known_of(self, instant: SupplySnapshot) -> tuple[object, ...]:
        """What distinguishes two instants besides the ledger's generation."""
        return (
            self._cache.bookings,
            self._cache.placement_needs().blocks,
            tuple((uid, booking.name) for uid, booking in sorted(instant.cover.items())),
            instant.gone,
            _minute(instant.now),
        )

    def _inputs(self, instant: SupplySnapshot) -> PlanInputs:
        with self._cache.locked() as ledger:
            return PlanInputs(
                instant=instant,
                bookings=self._cache.bookings,
                blocks=self._cache.placement_needs().blocks,
                holds=dict(ledger.holds),
            )

    def _made(self, inputs: PlanInputs, models: frozenset[str]) -> BookedNodes:
        """Most changes affect no plan: the previous one already has the answers."""
        minute = _minute(inputs.instant.now)
        before, self._checks = self._checks, {}
        for setting in model_inputs(inputs, models, self._supplies.of(inputs.instant)):
            known = before.get(setting.model)
            if known is None or known[:2] != (setting, minute):
                known = (setting, minute, check_of(setting, inputs.instant.now))
            self._checks[setting.model] = known
        found = {model: one for model, (_, _, one) in self._checks.items() if one is not None}
        return self._places if found == self._places.checks else BookedNodes(found)


def _minute(now: datetime) -> datetime:
    """Plans also change with time alone; they are checked this often."""
    return now.replace(second=0, microsecond=0)


def _models(inputs: PlanInputs, whole: frozenset[str]) -> frozenset[str]:
    """Maintenance concerns every model on the nodes."""
    if not inputs.blocks:
        return whole
    return frozenset(
        model for view in inputs.instant.views.values() for model, _ in bookable_devices(view.devices)
    )
