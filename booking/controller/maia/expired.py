"""Which pods MAIA's tools consider expired. Pure."""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from cluster.objects.cover_annotations import terminate_at
from cluster.objects.pods import Pod, is_live


def expired(pods: Iterable[Pod], covered: Collection[str], now: datetime) -> Iterator[Pod]:
    """Live GPU pods past their ``terminate-at`` that no running booking covers.

    Args:
        pods: pods that request GPUs.
        covered: uids of those that a booking covers.
        now: the instant.
    """
    for pod in pods:
        until = terminate_at(pod)
        if until is not None and until <= now and is_live(pod) and pod.metadata.uid not in covered:
            yield pod
