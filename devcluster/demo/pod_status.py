"""What has happened to a pod, from the pod object itself. Pure."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from cluster import names
from cluster.objects.assignment import AssignmentError, assignment_of, devices_of
from cluster.objects.hold import HoldError, hold_of
from cluster.objects.pods import Pod, has_condition, is_terminal, is_terminating


def node_of(pod: Pod) -> str | None:
    """The node that the pod is bound to."""
    return pod.spec.node_name


def devices(pod: Pod) -> frozenset[str]:
    """The devices that the Binding carries; none if there is no assignment, or it cannot be read."""
    try:
        return devices_of(assignment_of(pod) or {})
    except AssignmentError:
        return frozenset()


def held(pod: Pod) -> frozenset[str]:
    """The devices that are kept for the pod; none if there is no hold, or it cannot be read."""
    try:
        hold = hold_of(pod)
    except HoldError:
        return frozenset()
    return frozenset(hold.devices) if hold else frozenset()


def notice(pod: Pod) -> str | None:
    """The notice on a victim; None if there is none."""
    return pod.metadata.annotation(names.NOTICE)


def is_evicted(pod: Pod) -> bool:
    """Whether it was evicted for another pod."""
    return is_terminating(pod) and has_condition(pod, names.DISRUPTION_TARGET)


def came_back_from(pod: Pod) -> str | None:
    """UID of the pod from which it was recreated; None if it was not."""
    return pod.metadata.annotation(names.RECREATED_FROM)


def is_running(pod: Pod) -> bool:
    """Whether the kubelet reports that it runs."""
    return pod.status.phase == "Running"


def has_started(pod: Pod) -> bool:
    """Whether its containers have run at least once."""
    return is_running(pod) or has_ended(pod)


def worked_before(pod: Pod, now: datetime) -> bool:
    """Whether it has running containers, and all of them started before the current second."""
    states = [status.state for status in pod.status.container_statuses or ()]
    began = [state.running.started_at for state in states if state and state.running]
    this_second = now.replace(microsecond=0)
    return bool(began) and all(instant is not None and instant < this_second for instant in began)


def has_ended(pod: Pod) -> bool:
    """Whether it has succeeded or failed."""
    return is_terminal(pod)


def waiting_because(pod: Pod) -> str | None:
    """The scheduler's message about a pod that it cannot place; None when it has none."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False" and condition.message:
            return condition.message
    return None


def describe(pod: Pod | None) -> str:
    """The pod's state on one line, for the message of a step that did not happen."""
    if pod is None:
        return "there is no such pod"
    facts = [f"phase {pod.status.phase}", f"node {pod.spec.node_name or 'none'}"]
    facts += [f"reason {pod.status.reason}"] if pod.status.reason else []
    facts += [f"message {pod.status.message!r}"] if pod.status.message else []
    because = waiting_because(pod)
    facts += [f"waiting because {because!r}"] if because else []
    return ", ".join(facts)


TRANSITIONS: Final[dict[str, Callable[[Pod], bool]]] = {
    "returned": lambda pod: came_back_from(pod) is not None,
    "held": lambda pod: bool(held(pod)),
    "scheduled": lambda pod: node_of(pod) is not None,
    "bound": lambda pod: bool(devices(pod)),
    "running": is_running,
    "notified": lambda pod: notice(pod) is not None,
    "leaving": is_evicted,
    "ended": has_ended,
}
"""The transitions that are reported of every pod, in the order in which they happen."""
