"""Who may be evicted for a booked pod at this instant (laws L2 and L6)."""

from booking.eviction.maia_grants import granted_until
from booking.eviction.snapshot import EvictionSnapshot
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.protection import is_stuck, lasting_protection, present_protection, stuck_from
from cluster.objects.pods import Pod

__all__ = ["granted_until", "is_stuck", "protection", "stuck_from"]


def protection(pod: Pod, holding: PodHoldings | None, instant: EvictionSnapshot) -> str | None:
    """Why the pod may not be evicted, None when it may.

    Args:
        pod: a bound pod.
        holding: what it holds.
        instant: the snapshot.
    """
    return present_protection(
        pod,
        is_booked=pod.metadata.uid in instant.cover,
        granted=granted_until(pod, instant.terms),
        now=instant.now,
    ) or lasting_protection(pod, holding, namespaces=instant.namespaces, home=instant.terms.namespace)
