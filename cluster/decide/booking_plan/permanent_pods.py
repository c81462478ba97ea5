"""Where a pod that is never evicted may be placed, so that every booking keeps its place (law L5).

A pod that may be evicted is no danger to a booking. A pod that stays indefinitely, such as one of a namespace
that an administrator protects, or a DaemonSet's, is like a lost device. Used by the extender, and for the
explanation why such a pod waits.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from cluster.decide.booking_plan.inputs import PlanInputs, check_of, model_inputs
from cluster.decide.booking_plan.placement_check import PlacementCheck
from cluster.decide.booking_plan.supply import NodeSupply, node_supply
from cluster.objects.inventory import spellings_of


class PermanentPods:
    """Which nodes can take a pod that is never evicted, at one instant. Caches the plans that it makes."""

    def __init__(self, inputs: PlanInputs, supplies: Mapping[str, NodeSupply] | None = None) -> None:
        """Take the instant.

        Args:
            inputs: the instant.
            supplies: what each node has then, where that is known.
        """
        self._inputs = inputs
        self._supplies = supplies
        self._checks: dict[str, PlacementCheck | None] = {}

    def allows_permanent(self, node: str, demand: Mapping[str, int], models: AbstractSet[str]) -> bool:
        """Whether every booking keeps its place when so many devices of a node are taken for good.

        Args:
            node: the node's name.
            demand: resource -> number of devices.
            models: the models that they may be of, in label form; empty for any model of the node.
        """
        theirs = self._known().get(node)
        return theirs is None or all(
            self._allows_permanent(model, node, demand.get(theirs.resource(model), 0))
            for model in theirs.devices
            if not models or not models.isdisjoint(spellings_of(model))
        )

    def _allows_permanent(self, model: str, node: str, devices: int) -> bool:
        if model not in self._checks:
            (setting,) = model_inputs(self._inputs, [model], self._known())
            self._checks[model] = check_of(setting, self._inputs.instant.now, is_all=True)
        known = self._checks[model]
        return known is None or not devices or known.allows_permanent(node, devices)

    def _known(self) -> Mapping[str, NodeSupply]:
        if self._supplies is None:
            instant = self._inputs.instant
            self._supplies = {name: node_supply(view, instant) for name, view in instant.views.items()}
        return self._supplies
