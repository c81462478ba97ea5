"""Pods that failed before they ran: which of them come back, and when. Pure (law L4).

A pod that a kubelet rejected at admission has failed for good, whatever its restartPolicy: a node agent was
not back yet after a reboot, or two schedulers filled one node. So has one with ``restartPolicy: Never`` none
of whose containers could be started, because the container runtime was restarted at that moment. Such a pod
never used what it asked for, so it comes back as it was and keeps its place in the order.
"""

from typing import Final, Literal

from booking.controller.reclaimer.evictions.replacement_pod import refusals_after
from cluster import names
from cluster.decide.exponential_backoff import exponential_backoff
from cluster.objects.failed_pods import FailedPod
from cluster.objects.kubelet_rejection import is_rejected_by_kubelet, start_error
from cluster.objects.pods import Pod, is_for_gpus

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds until a rejected pod comes back at most."""

_OWN_FAULT: Final = ("exec:", "executable file")
"""Parts of the messages of runc and crun about a command that the image lacks, or may not be executed."""
MOST_STARTS: Final = 10
"""Failures in a row after which a failed start is taken as the pod's own fault: after five minutes."""

Verdict = Literal["comes back", "has run", "cannot start", "not ours"]
"""``has run``: it may have had its one run (restartPolicy Never), so it is not run a second time. ``cannot
start``: it has failed like this so often that the cause seems to be the pod itself."""


def verdict(pod: FailedPod) -> Verdict:
    """What becomes of a pod that has failed; one with a controller is left to it."""
    if pod.metadata.controller or not is_for_gpus(pod):
        return "not ours"
    error = start_error(pod)
    if error is not None and not pod.status.has_begun:
        if any(part in error for part in _OWN_FAULT):
            return "not ours"
        return "comes back" if pod.metadata.count(names.KUBELET_REJECTIONS) < MOST_STARTS else "cannot start"
    if not is_rejected_by_kubelet(pod):
        return "not ours"
    if pod.spec.restart_policy == "Never" and pod.has_begun:
        return "has run"
    return "comes back"


def pause(pod: FailedPod) -> float:
    """Seconds from its refusal until it is created again: 1, 2, 4, and so on.

    The count is written on the pod, so each pod tries a node that rejects everything once a minute, whichever
    process leads; pods are not tied to that node, and go at once to others that have room.
    """
    refusals = refusals_after(pod.metadata, has_begun=pod.status.has_begun)
    return exponential_backoff(refusals, first=FIRST_PAUSE, longest=LONGEST_PAUSE)


def rejection_message(pod: Pod) -> str:
    """The rejection for the owner, in the words of the kubelet or the container runtime."""
    error = start_error(pod)
    if error is not None:
        words = f": {error.strip().rstrip('.')}" if error else ""
        return f"No container of this pod could be started on node {pod.spec.node_name}{words}."
    words = (pod.status.message or pod.status.reason or "").strip().rstrip(".")
    return f"The kubelet of node {pod.spec.node_name} rejected this pod: {words}."


def no_comeback_message(pod: FailedPod) -> str:
    """Why it does not come back."""
    why = "It had begun before, and its restartPolicy is Never: it is not run a second time."
    if verdict(pod) == "cannot start":
        why = f"It came back {MOST_STARTS} times for nothing and stays failed: check what it mounts and runs."
    return f"{rejection_message(pod)} {why}"


def comeback_message(pod: FailedPod) -> str:
    """A message: why the pod was rejected, and when it comes back."""
    return f"{rejection_message(pod)} It comes back with its place in the order, in {pause(pod):.0f} s."
