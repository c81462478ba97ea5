"""Who may be evicted for a booked pod at this instant (laws L2 and L6)."""

from booking.evicting.grants import granted_until
from booking.evicting.instant import Instant
from cluster.decide.ledger.claims import Claim
from cluster.decide.protection import hangs, hangs_from, lasting_protection, present_protection
from cluster.objects.pods import Pod

__all__ = ["granted_until", "hangs", "hangs_from", "protection"]


def protection(pod: Pod, claim: Claim | None, instant: Instant) -> str | None:
    """Why the pod may not be evicted, None when it may.

    Args:
        pod: a bound pod.
        claim: what it holds.
        instant: what is known.
    """
    return present_protection(
        pod,
        is_booked=pod.metadata.uid in instant.cover,
        granted=granted_until(pod, instant.terms),
        now=instant.now,
    ) or lasting_protection(pod, claim, namespaces=instant.namespaces, home=instant.terms.namespace)
