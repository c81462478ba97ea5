"""The outcome of a bind that got no answer, derived from the pod as it is now. Pure."""

from typing import Literal

from cluster.objects.pods import Pod, is_terminal

BindOutcome = Literal["bound", "never", "wait"]


def bind_outcome(pod: Pod | None, decided: Pod) -> BindOutcome:
    """Derive the outcome of a bind.

    No time limit makes it certain that a Binding does not happen: an API server that was paused for minutes
    still carries out what was sent to it. But it always refuses a Binding for another resourceVersion. The
    scheduler changes the pod when it records a failed bind, and repeats the bind, which then gets an answer.

    Args:
        pod: the pod as the API server has it now; None if there is none.
        decided: the pod as it was at the decision; the Binding has its resourceVersion.
    """
    if pod is None or pod.metadata.uid != decided.metadata.uid or is_terminal(pod):
        return "never"
    if pod.spec.node_name:
        return "bound"
    return "wait" if pod.metadata.resource_version == decided.metadata.resource_version else "never"
