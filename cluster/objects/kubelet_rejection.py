"""Pods that failed before they ran, by their status: a kubelet rejected them, or could not start them.

They stay failed.
"""

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


def start_error(pod: Pod) -> str | None:
    """Why no container of a failed pod could be started, in the runtime's words; None for any other pod.

    A runtime that is restarted, or a kubelet that is killed, at that moment leaves such a pod, if its
    restartPolicy is Never. Of its init containers this does not know (``FailedStatus.has_begun``).
    """
    if pod.status.phase != "Failed" or pod.status.reason:
        return None
    states = [status.state for status in pod.status.container_statuses or () if status.state]
    ended = [state.terminated for state in states if state.terminated]
    if not ended or any(state.running for state in states) or any(one.has_begun for one in ended):
        return None
    return next((one.message for one in ended if one.message), "")


def blames_node(pod: Pod) -> bool:
    """Whether a kubelet has rejected the pod for a lack of the node, which may affect the next pod, too."""
    return is_rejected_by_kubelet(pod) and pod.status.reason not in OF_THE_POD
