"""Nodes on which devices were kept for a waiting pod in vain."""

from cluster import names
from cluster.objects.pods import Pod


def barred(pod: Pod) -> frozenset[str]:
    """Nodes on which a hold did not help the pod."""
    text = pod.metadata.annotation(names.BARRED) or ""
    return frozenset(part.strip() for part in text.split(",") if part.strip())
