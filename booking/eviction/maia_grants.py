"""What MAIA's webhook has granted a pod, as far as the administrator's settings let it count (law L2)."""

from datetime import datetime

from booking.eviction_settings import EvictionSettings
from cluster.decide import protection
from cluster.objects.pods import Pod


def granted_until(pod: Pod, terms: EvictionSettings) -> datetime | None:
    """Until when MAIA has granted the pod its GPUs; None where it has not, or that means nothing."""
    return protection.granted_until(pod, maia=terms.maia)
