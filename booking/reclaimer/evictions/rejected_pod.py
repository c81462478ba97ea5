"""Pods that a kubelet rejected at admission: which of them come back, and when. Pure (law L4).

Such a pod has failed for good, whatever its restartPolicy: a node agent was not back yet after a reboot, or
two schedulers filled one node. It never held what it asked for, so it comes back as it was and keeps its
place in the order.
"""

from typing import Final, Literal

from booking.reclaimer.evictions.replacement_pod import refusals_after
from cluster.decide.exponential_backoff import exponential_backoff
from cluster.objects.failed_pods import FailedPod
from cluster.objects.kubelet_rejection import is_rejected_by_kubelet
from cluster.objects.pods import Pod, asks_for_gpus

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds until a rejected pod comes back at most."""

Verdict = Literal["comes back", "has run", "not ours"]
"""``has run``: it may have had its one run (restartPolicy Never), so it is not run a second time."""


def verdict(pod: FailedPod) -> Verdict:
    """What becomes of a pod that has failed; one with a controller is left to it."""
    owned = any(owner.controller for owner in pod.metadata.owner_references or ())
    if owned or not is_rejected_by_kubelet(pod) or not asks_for_gpus(pod):
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
    """The rejection for the owner, in the kubelet's words."""
    words = (pod.status.message or pod.status.reason or "").strip().rstrip(".")
    return f"The kubelet of node {pod.spec.node_name} rejected this pod: {words}."


def no_comeback_message(pod: Pod) -> str:
    """Why it does not come back."""
    why = "It had begun before, and its restartPolicy is Never: it is not run a second time."
    return f"{rejection_message(pod)} {why}"


def comeback_message(pod: FailedPod) -> str:
    """A message: why the pod was rejected, and when it comes back."""
    return f"{rejection_message(pod)} It comes back with its place in the order, in {pause(pod):.0f} s."
