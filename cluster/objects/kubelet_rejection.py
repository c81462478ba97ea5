"""Pods that a kubelet rejected at admission, recognised by their status. They stay failed."""

from typing import Final

from cluster.objects.pods import Pod

REASONS: Final = frozenset(
    {"UnexpectedAdmissionError", "TopologyAffinityError", "NodeAffinity", "NodeShutdown"}
)
"""``status.reason`` of pods that another node, or this one a moment later, would take. Others (a forbidden
sysctl, another operating system) mean that the pod itself is wrong: a comeback would only hide that."""
OUT_OF: Final = "OutOf"
"""Prefix of ``status.reason`` if a resource was used up: ``OutOfcpu``, ``OutOfnvidia.com/gpu``."""
OF_THE_POD: Final = frozenset({"TopologyAffinityError", "NodeAffinity"})
"""The reasons that do not predict what happens to the next pod."""


def is_rejected_by_kubelet(pod: Pod) -> bool:
    """Whether a kubelet has rejected the pod, even if its containers had run before."""
    reason = pod.status.reason or ""
    return pod.status.phase == "Failed" and (reason in REASONS or reason.startswith(OUT_OF))


def blames_node(pod: Pod) -> bool:
    """Whether a kubelet has rejected the pod for a lack of the node, which may affect the next pod, too."""
    return is_rejected_by_kubelet(pod) and pod.status.reason not in OF_THE_POD
