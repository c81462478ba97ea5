"""Scheduling gates of a pod: ours, behind which it waits until a GPU is free, and those of others.

A gate can only be set at a pod's creation. Where it is known too late that a pod asks for GPUs, an annotation
has the place of ours: kube-scheduler tries such a pod, and the extender refuses it until its turn.
"""

from cluster import claim_names, names
from cluster.objects.pods import Pod


def is_queued(pod: Pod) -> bool:
    """Whether the pod waits in line: it has our gate, or the annotation in its place."""
    if is_gated(pod):
        return True
    return not pod.spec.node_name and pod.metadata.annotation(claim_names.IN_LINE) is not None


def is_gated(pod: Pod) -> bool:
    """Whether the pod has our gate."""
    return any(gate.name == names.QUEUE for gate in pod.spec.scheduling_gates or ())


def out_of_line(pod: Pod) -> dict[str, str | None]:
    """The change of annotations by which a pod waits in line no more, if it has no gate; else nothing."""
    return {claim_names.IN_LINE: None} if pod.metadata.annotation(claim_names.IN_LINE) is not None else {}


def is_late(pod: Pod) -> bool:
    """Whether the pod asks for GPUs and admission could not know it: what its claims come from is newer."""
    is_classed = pod.spec.priority_class_name in (names.BOOKED_CLASS, names.OPPORTUNISTIC_CLASS)
    return pod.claims is not None and bool(pod.spec.resource_claims) and not is_classed


def other_gates(pod: Pod) -> tuple[str, ...]:
    """Names of the gates that others have set, and will remove."""
    return tuple(gate.name for gate in pod.spec.scheduling_gates or () if gate.name != names.QUEUE)
