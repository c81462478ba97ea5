"""Whether a node's agent is alive, told from its Lease (law L6: an agent silent for 75 s).

A renewal counts from the moment at which the reader sees it, on the reader's own monotonic clock; only at
first sight the age is taken from the Lease's text against the wall clock. So a clock that is wrong on some
node does not matter once two renewals were seen. Pure: instants are passed in.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from cluster import names
from cluster.decide.ledger.versions import is_older
from cluster.objects.meta import Meta
from cluster.objects.nodes import Lease

SILENT_AFTER: Final = 75.0
"""Seconds without a renewal after which an agent counts as silent (law L6)."""

State = Literal["alive", "silent", "stopping", "unseen"]


@dataclass(frozen=True, slots=True)
class _Renewal:
    meta: Meta
    renewed: datetime
    seen: float
    stopping: bool


class Liveness:
    """The newest sign of life of every node's agent."""

    def __init__(self) -> None:
        self._renewals: dict[str, _Renewal] = {}

    def apply_lease(self, lease: Lease, *, monotonic: float, now: datetime) -> None:
        """A Lease as it is now; Leases that are not an agent's are ignored.

        Args:
            lease: any Lease of the product's namespace.
            monotonic: the reader's monotonic clock, seconds.
            now: the reader's wall clock, aware.
        """
        node = names.node_of_lease(lease.metadata.name)
        renewed = lease.spec.renew_time
        if node is None or renewed is None:
            return
        known = self._renewals.get(node)
        if known and is_older(lease.metadata, known.meta):
            return
        if known is None or known.meta.uid != lease.metadata.uid:
            seen = monotonic - max(0.0, (now - renewed).total_seconds())
        else:
            seen = known.seen if renewed == known.renewed else monotonic
        self._renewals[node] = _Renewal(
            meta=Meta(uid=lease.metadata.uid, resource_version=lease.metadata.resource_version),
            renewed=renewed,
            seen=seen,
            stopping=bool(lease.metadata.annotation(names.STOPPING)),
        )

    def forget_lease(self, name: str) -> None:
        """A Lease is gone."""
        node = names.node_of_lease(name)
        if node is not None:
            self._renewals.pop(node, None)

    def nodes(self) -> tuple[str, ...]:
        """Nodes whose agents have a Lease, sorted."""
        return tuple(sorted(self._renewals))

    def state(self, node: str, *, monotonic: float) -> State:
        """How the node's agent is doing at this instant."""
        known = self._renewals.get(node)
        if known is None:
            return "unseen"
        if known.stopping:
            return "stopping"
        return "alive" if monotonic - known.seen < SILENT_AFTER else "silent"
