"""What the eviction of one pod destroys, counted alone."""

from datetime import datetime

from cluster.decide.eviction.costs import SECOND, microseconds, work_of
from cluster.objects.pods import Pod


def lost_work(pod: Pod, gpus: int, now: datetime, restart_seconds: float = 0) -> int:
    """GPU-microseconds that the eviction of a pod destroys.

    Args:
        pod: a bound pod.
        gpus: how many devices it holds, of whichever model.
        now: the instant of the decision.
        restart_seconds: what starting again costs each of its devices.
    """
    return work_of(pod).lost(gpus, microseconds(now), round(restart_seconds * SECOND))
