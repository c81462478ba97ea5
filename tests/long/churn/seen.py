"""What people see of their pods. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from cluster.objects.pods import Pod, asks_for_gpus, is_terminal, is_terminating
from devcluster.demo import pod_status

PodState = Literal["missing", "taken", "leaving", "over", "waits", "starts", "runs", "without"]
"""``taken``: deleted, and not by its user; ``without``: it came back without a GPU."""


@dataclass(frozen=True)
class Tally:
    """How many pods are in which state."""

    states: dict[PodState, int]

    def __str__(self) -> str:
        return ", ".join(f"{number} {state}" for state, number in sorted(self.states.items()))


def state_of(pod: Pod) -> PodState:
    """The state of a pod."""
    if is_terminating(pod):
        return "taken" if pod_status.is_evicted(pod) else "leaving"
    if is_terminal(pod):
        return "over"
    if not asks_for_gpus(pod):
        return "without"
    if not pod.spec.node_name:
        return "waits"
    return "runs" if pod_status.is_running(pod) else "starts"


def tally(states: Iterable[PodState]) -> Tally:
    """Count them."""
    return Tally(dict(Counter(states)))
