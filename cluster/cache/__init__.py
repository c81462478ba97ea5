"""The cluster as one process sees it: newest objects and ledger behind one lock, fed by reflectors.

The extender and the controller (admission and reclaimer) build on it.
"""

from cluster.cache.booked_nodes import EVERYWHERE, BookedNodes, BookingPlans
from cluster.cache.cache import ClusterCache
from cluster.cache.claims import CLAIM_KINDS, ClaimOptions, with_expressions
from cluster.cache.informers import ALWAYS, SCHEDULING, UNSUCCESSFUL, Informers, read_bookings
from cluster.cache.node_snapshots import NodeSnapshot, NodeSnapshots

__all__ = [
    "ALWAYS",
    "CLAIM_KINDS",
    "EVERYWHERE",
    "SCHEDULING",
    "UNSUCCESSFUL",
    "BookedNodes",
    "BookingPlans",
    "ClaimOptions",
    "ClusterCache",
    "Informers",
    "NodeSnapshot",
    "NodeSnapshots",
    "read_bookings",
    "with_expressions",
]
