"""Pods that a kubelet rejected at admission, recognised by their status. They have failed for good."""

from typing import Final

from cluster.objects.pods import Pod

REASONS: Final = frozenset(
    {"UnexpectedAdmissionError", "TopologyAffinityError", "NodeAffinity", "NodeShutdown"}
)
"""``status.reason`` of pods that another node, or this one a moment later, would take. Others (a forbidden
sysctl, another operating system) say that the pod itself is wrong: bringing it back would only hide that."""
OUT_OF: Final = "OutOf"
"""How ``status.reason`` begins where something was used up: ``OutOfcpu``, ``OutOfnvidia.com/gpu``."""
OF_THE_POD: Final = frozenset({"TopologyAffinityError", "NodeAffinity"})
"""Those of the reasons that say nothing about what becomes of the next pod."""


def is_rejected_by_kubelet(pod: Pod) -> bool:
    """Whether a kubelet has rejected it, the containers of an earlier life notwithstanding."""
    reason = pod.status.reason or ""
    return pod.status.phase == "Failed" and (reason in REASONS or reason.startswith(OUT_OF))


def blames_node(pod: Pod) -> bool:
    """Whether a kubelet has rejected it for what the node is short of: the next pod may fare alike."""
    return is_rejected_by_kubelet(pod) and pod.status.reason not in OF_THE_POD
