"""What has happened to a pod, read off the pod itself. Pure."""

from collections.abc import Callable
from typing import Final

from cluster.objects.assignment import AssignmentError, assignment_of, devices_of
from cluster.objects.pods import Pod, is_terminal


def node_of(pod: Pod) -> str | None:
    """The node that the pod is bound to."""
    return pod.spec.node_name


def devices(pod: Pod) -> frozenset[str]:
    """The devices that the Binding carries; none where there is none or it cannot be read."""
    try:
        return devices_of(assignment_of(pod) or {})
    except AssignmentError:
        return frozenset()


def is_running(pod: Pod) -> bool:
    """Whether the kubelet says that it runs."""
    return pod.status.phase == "Running"


def has_started(pod: Pod) -> bool:
    """Whether its containers have run at least once."""
    return is_running(pod) or has_ended(pod)


def has_ended(pod: Pod) -> bool:
    """Whether it has run to its end."""
    return is_terminal(pod)


def waiting_because(pod: Pod) -> str | None:
    """The scheduler's sentence about a pod that it cannot place; None when it has none."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False" and condition.message:
            return condition.message
    return None


def describe(pod: Pod | None) -> str:
    """One line about where a pod stands, for the message of a step that did not happen."""
    if pod is None:
        return "there is no such pod"
    facts = [f"phase {pod.status.phase}", f"node {pod.spec.node_name or 'none'}"]
    facts += [f"reason {pod.status.reason}"] if pod.status.reason else []
    facts += [f"message {pod.status.message!r}"] if pod.status.message else []
    because = waiting_because(pod)
    facts += [f"waiting because {because!r}"] if because else []
    return ", ".join(facts)


MILESTONES: Final[dict[str, Callable[[Pod], bool]]] = {
    "scheduled": lambda pod: node_of(pod) is not None,
    "bound": lambda pod: bool(devices(pod)),
    "running": is_running,
    "ended": has_ended,
}
"""What is told of every pod, in the order in which it happens."""
