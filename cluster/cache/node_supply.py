"""What each node has for bookings, kept from instant to instant: most nodes are as they were."""

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.decide.booking_plan.supply import NodeSupply, SupplySnapshot, node_supply
from cluster.decide.ledger import NodeView
from cluster.objects.bookings import Booking
from cluster.objects.namespaces import Namespace
from cluster.objects.pods import Pod, is_terminating

Holders = tuple[tuple[Pod | None, Booking | None], ...]
"""Who holds something of a node, and what covers them."""


@dataclass(frozen=True, slots=True)
class _Made:
    """A share, and all that it was made of."""

    view: NodeView
    holders: Holders
    is_gone: bool
    share: NodeSupply


class NodeSupplies:
    """The shares of the last instant. For one who asks."""

    def __init__(self) -> None:
        self._made: dict[str, _Made] = {}
        self._namespaces: Mapping[str, Namespace] = {}

    def of(self, instant: SupplySnapshot) -> dict[str, NodeSupply]:
        """Node -> what it has now."""
        before = self._made if instant.namespaces is self._namespaces else {}
        self._namespaces = instant.namespaces
        self._made = {name: _newest(before.get(name), view, instant) for name, view in instant.views.items()}
        return {name: made.share for name, made in self._made.items()}


def _newest(known: _Made | None, view: NodeView, instant: SupplySnapshot) -> _Made:
    pods, cover = instant.pods, instant.cover
    holders = tuple([(pods.get(holding.uid), cover.get(holding.uid)) for holding in view.holdings])
    is_gone = view.name in instant.gone
    # Whoever was told to go hangs one day, without anything happening.
    stands = not any(pod and is_terminating(pod) for pod, _ in holders)
    if stands and known and known.view is view and known.is_gone == is_gone and known.holders == holders:
        return known
    return _Made(view, holders, is_gone, node_supply(view, instant))
