"""Each node's supply for bookings, kept from instant to instant: most nodes do not change."""

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.decide.booking_plan.supply import NodeSupply, SupplySnapshot, node_supply
from cluster.decide.ledger import NodeView
from cluster.objects.bookings import Booking
from cluster.objects.namespaces import Namespace
from cluster.objects.pods import Pod, is_terminating

Holders = tuple[tuple[Pod | None, Booking | None], ...]
"""The pods that hold devices of a node, and the bookings that cover them."""


@dataclass(frozen=True, slots=True)
class _Made:
    """A supply, and everything that it was computed from."""

    view: NodeView
    holders: Holders
    is_gone: bool
    supply: NodeSupply


class NodeSupplies:
    """Caches the supplies of the last instant, for one caller."""

    def __init__(self) -> None:
        self._made: dict[str, _Made] = {}
        self._namespaces: Mapping[str, Namespace] = {}

    def of(self, instant: SupplySnapshot) -> dict[str, NodeSupply]:
        """Node -> its supply now."""
        before = self._made if instant.namespaces is self._namespaces else {}
        self._namespaces = instant.namespaces
        self._made = {name: _newest(before.get(name), view, instant) for name, view in instant.views.items()}
        return {name: made.supply for name, made in self._made.items()}


def _newest(known: _Made | None, view: NodeView, instant: SupplySnapshot) -> _Made:
    pods, cover = instant.pods, instant.cover
    holders = tuple([(pods.get(holding.uid), cover.get(holding.uid)) for holding in view.holdings])
    is_gone = view.name in instant.gone
    # A terminating pod counts as hanging from some instant on, without any event.
    is_lasting = not any(pod and is_terminating(pod) for pod, _ in holders)
    if is_lasting and known and known.view is view and known.is_gone == is_gone and known.holders == holders:
        return known
    return _Made(view, holders, is_gone, node_supply(view, instant))
