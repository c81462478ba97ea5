"""Scheduling gates of a pod: ours, behind which it waits until a GPU is free, and those of others."""

from cluster import names
from cluster.objects.pods import Pod


def is_queued(pod: Pod) -> bool:
    """Whether the pod has our gate."""
    return any(gate.name == names.QUEUE for gate in pod.spec.scheduling_gates or ())


def other_gates(pod: Pod) -> tuple[str, ...]:
    """Names of the gates that others have set, and will remove."""
    return tuple(gate.name for gate in pod.spec.scheduling_gates or () if gate.name != names.QUEUE)
