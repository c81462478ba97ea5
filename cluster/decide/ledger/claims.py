"""What one pod holds, read from the pod alone."""

from dataclasses import dataclass, field

from cluster.decide.ledger.amounts import WHOLE, Amounts
from cluster.decide.reuse import demand
from cluster.objects.assignment import Assignment, AssignmentError, assignment_of, devices_of
from cluster.objects.pods import Pod, container_needs, is_terminal
from cluster.objects.quantity import QuantityError


@dataclass(frozen=True, slots=True)
class Claim:
    """Devices that a pod holds on a node."""

    uid: str
    node: str
    devices: Amounts
    unknown: dict[str, int] = field(default_factory=dict)
    """Resource -> how many devices the pod holds of which nobody has said which they are."""


def claim_of(pod: Pod) -> Claim | None:
    """What a bound, living pod holds by its own words; None for a pod that holds nothing.

    A terminating pod still holds. A pod that was bound without an assignment, or with one that cannot be
    read, holds as many unknown devices as it asks for.
    """
    node = pod.spec.node_name
    if not node or is_terminal(pod):
        return None
    asked = _asked(pod)
    try:
        assignment = assignment_of(pod)
    except AssignmentError:
        assignment = None
    if assignment is not None:
        return given(pod.metadata.uid, node, assignment)
    return Claim(uid=pod.metadata.uid, node=node, devices={}, unknown=asked) if asked else None


def given(uid: str, node: str, assignment: Assignment) -> Claim:
    """The claim of a pod that has these devices."""
    return Claim(uid=uid, node=node, devices=dict.fromkeys(sorted(devices_of(assignment)), WHOLE))


def _asked(pod: Pod) -> dict[str, int]:
    try:
        return demand(container_needs(pod))
    except QuantityError:
        # The API server refuses such pods; one that exists all the same must not stop the ledger.
        return {}
