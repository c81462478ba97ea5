"""Whether a node's agent is alive, derived from its Lease (law L6: an agent unresponsive for 75 s).

A renewal counts from the moment at which the reader sees it, on the reader's own monotonic clock, unless its
event came late (``observed_renewal``). Only at first sight the age is computed from ``renewTime`` and the
wall clock. So a wrong clock on some node does not matter once two renewals were seen.
Pure: instants are passed in.
"""

from dataclasses import dataclass
from datetime import datetime
from sys import intern
from typing import Final, Literal

from cluster import names
from cluster.decide.ledger.changes import Changes
from cluster.decide.ledger.resource_versions import is_older
from cluster.decide.observed_renewal import renewed_at
from cluster.objects.meta import Meta
from cluster.objects.nodes import Lease

UNRESPONSIVE_AFTER: Final = 75.0
"""Seconds without a renewal after which an agent counts as unresponsive (law L6)."""

AgentState = Literal[
    "alive", "unresponsive", "stopping", "unseen", "unconfirmed", "kubelet-rejecting", "kubelet-short"
]
"""The state of a node's agent. Only the part that binds pods knows the last three (``serving``)."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """A sign of life."""

    meta: Meta
    holder: str | None
    renewed: datetime
    at: float
    """The monotonic instant from which it counts."""
    seen: float
    stopping: bool


class Liveness:
    """The newest sign of life of every node's agent."""

    def __init__(self) -> None:
        self._renewals: dict[str, Renewal] = {}
        self._kubelets: dict[str, Renewal] = {}
        """Node -> the same of its kubelet, which counts where no agent runs."""
        self._without_agent: frozenset[str] = frozenset()
        self._changes = Changes()

    def apply_lease(self, lease: Lease, *, monotonic: float, now: datetime) -> None:
        """Take over a Lease; Leases that are not an agent's are ignored.

        Args:
            lease: any Lease of the product's namespace, or of the kubelets'.
            monotonic: the reader's monotonic clock, seconds.
            now: the reader's wall clock, aware.
        """
        node, of = self._place_of(lease)
        renewed = lease.spec.renew_time
        if node is None or renewed is None:
            return
        known = of.get(node)
        if known and is_older(lease.metadata, known.meta):
            return
        holder, at, seen = lease.spec.holder_identity, monotonic, monotonic
        if known is None or known.meta.uid != lease.metadata.uid:
            at = monotonic - max(0.0, (now - renewed).total_seconds())
        elif renewed == known.renewed:
            at, seen = known.at, known.seen
        elif holder == known.holder:  # another holder's clock is no evidence
            at = renewed_at(
                renewed, known.renewed, seen=monotonic, seen_before=known.seen, at_before=known.at
            )
        stopping = bool(lease.metadata.annotation(names.STOPPING))
        if known is None or known.stopping != stopping or at < known.at or _is_unresponsive(known, monotonic):
            self._changes.note(node, existing=len(self._renewals))
        of[node] = Renewal(
            meta=Meta(uid=lease.metadata.uid, resource_version=lease.metadata.resource_version),
            holder=holder,
            renewed=renewed,
            at=at,
            seen=seen,
            stopping=stopping,
        )

    def expect_list(self, *, monotonic: float, of_kubelet: bool = False) -> None:
        """A list of all Leases, of agents or of kubelets, comes now: earlier ones may have been missed."""

    def forget_lease(self, name: str, *, of_kubelet: bool = False) -> None:
        """A Lease is gone, of an agent or of a kubelet."""
        node = name if of_kubelet else names.node_of_lease(name)
        of = self._kubelets if of_kubelet else self._renewals
        if node is not None and of.pop(node, None) is not None:
            self._changes.note(node, existing=len(self._renewals))

    def count_kubelet(self, node: str, *, counts: bool) -> None:
        """Whether the Lease of a node's kubelet counts, since no agent runs there."""
        if counts != (node in self._without_agent):
            self._without_agent ^= {node}
            self._changes.note(node, existing=len(self._renewals))

    def _place_of(self, lease: Lease) -> tuple[str | None, dict[str, Renewal]]:
        """The node whose sign of life a Lease is, and where it is kept."""
        if lease.metadata.namespace == names.KUBELET_LEASES:
            return lease.metadata.name, self._kubelets
        node = names.node_of_lease(lease.metadata.name)
        return intern(node) if node else None, self._renewals

    def copy(self) -> "Liveness":
        """A copy of these signs of life that does not follow later events."""
        same = Liveness()
        same._renewals, same._kubelets = dict(self._renewals), dict(self._kubelets)
        same._without_agent = self._without_agent
        return same

    def nodes(self) -> tuple[str, ...]:
        """Nodes whose agents, or kubelets where these count, have a Lease, sorted."""
        return tuple(sorted(self._counting))

    @property
    def generation(self) -> int:
        """A number that grows whenever an agent's state changes by what its Lease says, not by time."""
        return self._changes.number

    def changed_since(self, generation: int) -> list[str] | None:
        """Nodes whose agents' state has changed after that, by their Leases; None where it may be any."""
        return self._changes.since(generation)

    def note_change(self, node: str) -> None:
        """The node's state may have changed for reasons other than its Lease."""
        self._changes.note(node, existing=len(self._renewals))

    def renewal(self, node: str) -> Renewal | None:
        """The newest sign of life of a node's agent, or of its kubelet where no agent runs."""
        return (self._kubelets if node in self._without_agent else self._renewals).get(node)

    @property
    def _counting(self) -> dict[str, Renewal]:
        if not self._without_agent:
            return self._renewals
        agents = {node: known for node, known in self._renewals.items() if node not in self._without_agent}
        return agents | {node: self._kubelets[node] for node in self._without_agent & self._kubelets.keys()}

    def due(self, node: str, *, monotonic: float) -> float | None:
        """When its state changes unless its agent gives a sign of life before; None if it does not change."""
        known = self.renewal(node)
        if known is None or known.stopping or _is_unresponsive(known, monotonic):
            return None
        return known.at + UNRESPONSIVE_AFTER

    def quiet(self, seconds: float, *, monotonic: float) -> frozenset[str]:
        """Nodes whose agents gave no sign of life for so many seconds, even if they released their Lease."""
        return frozenset(node for node, known in self._counting.items() if monotonic - known.at >= seconds)

    def state(self, node: str, *, monotonic: float) -> AgentState:
        """The state of the node's agent at this instant."""
        known = self.renewal(node)
        if known is None:
            return "unseen"
        if known.stopping:
            return "stopping"
        return "unresponsive" if _is_unresponsive(known, monotonic) else "alive"


def _is_unresponsive(known: Renewal, monotonic: float) -> bool:
    return monotonic - known.at >= UNRESPONSIVE_AFTER
