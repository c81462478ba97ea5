"""The grants of MAIA's webhook, as far as the administrator's settings honour them (law L2)."""

from datetime import datetime

from booking.eviction.settings import EvictionSettings
from cluster.decide import protection
from cluster.objects.pods import Pod


def granted_until(pod: Pod, terms: EvictionSettings) -> datetime | None:
    """Until when MAIA has granted the pod its GPUs; None without a grant, or if grants do not count."""
    return protection.granted_until(pod, maia=terms.maia)
