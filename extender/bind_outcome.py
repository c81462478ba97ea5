"""What became of a bind that has no answer, told from the pod as it is now. Pure."""

from typing import Literal

from cluster.objects.pods import Pod, is_terminal

BindOutcome = Literal["bound", "never", "wait"]


def bind_outcome(pod: Pod | None, decided: Pod) -> BindOutcome:
    """What became of a bind.

    No time makes it certain that a Binding does not happen: an API server that stood still for minutes still
    does what had been sent to it. Certain is that it refuses a Binding for another resourceVersion. The
    scheduler changes the pod when it notes that a bind has failed, and repeats the bind, which has an answer.

    Args:
        pod: as the API server has it now, None when there is none.
        decided: the pod as it was when it was decided, whose resourceVersion the Binding carries.
    """
    if pod is None or pod.metadata.uid != decided.metadata.uid or is_terminal(pod):
        return "never"
    if pod.spec.node_name:
        return "bound"
    return "wait" if pod.metadata.resource_version == decided.metadata.resource_version else "never"
