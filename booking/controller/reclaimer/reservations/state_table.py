"""What becomes of a reservation pod next. Pure: everything follows from the pod and from who needs its GPU.

==========  ==============================  ===========================  ================================
state       how it is recognized            somebody needs its GPU       nobody does
==========  ==============================  ===========================  ================================
asked       its GPU is not known            wait                         close
given       its kubelet has given it one    open                         close
open        ``names.OPENED``                wait                         close
closing     ``names.CLOSING``               reopen                       after ``CLOSES_WITHIN``: delete
leaving     it is being deleted             wait                         wait
ended       it has failed                   delete                       delete
==========  ==============================  ===========================  ================================

Each step is one write that carries the version it was decided on. A step that was not taken, or whose answer
got lost, is decided again from what the API server holds; so whoever decides may die at any moment. Who needs
the GPU: a pod that has a share of it, or a waiting one that would be placed there.

Deletion takes two steps, so that no pod gets a share of a GPU whose reservation pod goes: from the first step
on, the extender gives none; what it decided before is bound, or void, when ``CLOSES_WITHIN`` has passed; and
right before the second step the API server is asked for the pods of the node.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from cluster import names
from cluster.objects.device_usage import UseError, decode_use
from cluster.objects.given_devices import given_devices
from cluster.objects.pods import Pod, is_terminal, is_terminating

CLOSES_WITHIN: Final = 5.0
"""Seconds between the two steps of a deletion: a Binding is posted within 2 s of its decision."""

SETTLES_WITHIN: Final = timedelta(seconds=5)
"""After its kubelet has begun with a pod: earlier reports may be about who had the number before."""

State = Literal["asked", "given", "open", "closing", "leaving", "ended"]
Step = Literal["wait", "open", "close", "reopen", "delete"]
_STEPS: Final[Mapping[State, tuple[Step, Step]]] = {
    "asked": ("wait", "close"),
    "given": ("open", "close"),
    "open": ("wait", "close"),
    "closing": ("reopen", "delete"),
    "leaving": ("wait", "wait"),
    "ended": ("delete", "delete"),
}
"""State -> the step if somebody needs its GPU, and the step if nobody does."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """A reservation pod, and who needs its GPU."""

    state: State
    is_needed: bool
    closing_for: float = 0.0
    """Seconds since it has been closing."""

    @property
    def is_due(self) -> bool:
        """Whether the second step of its deletion may be taken."""
        return self.closing_for >= CLOSES_WITHIN


def state_of(pod: Pod, gpu: str | None = None) -> State:
    """The state of a reservation pod. Args: gpu: the UUID of its GPU, if anybody has told it."""
    if is_terminating(pod):
        return "leaving"
    if is_terminal(pod):
        return "ended"
    if pod.metadata.annotation(names.CLOSING):
        return "closing"
    if pod.metadata.annotation(names.OPENED):
        return "open"
    return "given" if gpu else "asked"


def given_gpu(pod: Pod) -> str | None:
    """UUID of the GPU that the kubelet says it gave to a reservation pod; None if it says none or several."""
    found = list(given_devices(pod))
    return found[0] if len(found) == 1 else None


def reported_gpu(pod: Pod, number: str, report: str | None) -> str | None:
    """UUID of the GPU that the agent of its node says a reservation pod has; None if it says none.

    For kubelets before 1.36, which do not tell it themselves.

    Args:
        pod: the reservation pod.
        number: the numbered GPU that it reserves.
        report: of the agent (``cluster.objects.device_usage``).
    """
    began = pod.status.start_time
    try:
        use = decode_use(report) if report and began else None
    except UseError:
        return None
    if use is None or began is None or use.at < began + SETTLES_WITHIN:
        return None
    return next((one.real for one in use.devices if one.uuid == number), None)


def step(reserved: Reserved) -> Step:
    """The next step."""
    state, found = reserved.state, _STEPS[reserved.state][not reserved.is_needed]
    return "wait" if (state, found) == ("closing", "delete") and not reserved.is_due else found
