"""Devices given to a pod, per container: the annotation that the Binding writes.

``names.ASSIGNED`` holds JSON: ``{"main": ["GPU-..."], "setup": ["GPU-..."]}``. Containers that request
nothing are left out. Whoever wrote it, no more devices count for a container than it requests, and no more
different ones for the pod than it can hold (containers reuse devices of regular init containers).
``names.DRIFT`` on a Node holds ``{"<pod uid>": {"main": ["GPU-..."]}}`` for the pods whose devices really
differ.
"""

import msgspec

from cluster import names
from cluster.objects.demand import demanded
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod, container_needs
from cluster.objects.quantity import QuantityError

Assignment = dict[str, tuple[str, ...]]
"""Container name -> UUIDs of its devices, in the order in which they were chosen."""


class AssignmentError(ValueError):
    """An annotation of ours that cannot be read."""


def encode_assignment(assignment: Assignment) -> str:
    """The text of the annotation."""
    return msgspec.json.encode(assignment).decode()


def decode_assignment(text: str) -> Assignment:
    """The assignment in an annotation's text.

    Raises:
        AssignmentError: the text is not an assignment.
    """
    try:
        return msgspec.json.decode(text, type=Assignment)
    except msgspec.MsgspecError as error:
        raise AssignmentError(f"The annotation {names.ASSIGNED} cannot be read: {error}.") from error


def assignment_of(pod: Pod) -> Assignment | None:
    """The devices that the extender assigned to the pod; None if it has assigned none.

    Only as many count as the containers request, and no more different ones than the pod can hold: a pod that
    requests no GPU holds none, whatever its annotation says.

    Raises:
        AssignmentError: the annotation cannot be read.
    """
    text = pod.metadata.annotation(names.ASSIGNED)
    return _as_requested(decode_assignment(text), pod) if text else None


def readable_assignment_of(pod: Pod) -> Assignment:
    """As ``assignment_of``, but empty if the annotation is missing or cannot be read."""
    try:
        return assignment_of(pod) or {}
    except AssignmentError:
        return {}


def _as_requested(assignment: Assignment, pod: Pod) -> Assignment:
    try:
        needs = container_needs(pod)
    except QuantityError:
        return {}  # no such pod can be created
    if len(needs) == 1 and assignment.keys() == {needs[0].name}:  # as the extender writes it, for most pods
        (uuids,) = assignment.values()
        if 0 < len(uuids) == needs[0].count and (len(uuids) == 1 or len(set(uuids)) == len(uuids)):
            return assignment
    requested: dict[str, int] = {}
    for need in needs:
        requested[need.name] = requested.get(need.name, 0) + need.count
    most = sum(demanded(needs).values())
    held: dict[str, None] = {}
    counted: Assignment = {}
    for container, count in requested.items():
        named = tuple(dict.fromkeys(assignment.get(container, ())))[:count]
        new = [uuid for uuid in named if uuid not in held]
        held |= dict.fromkeys(new[: most - len(held)])
        if got := tuple(uuid for uuid in named if uuid in held):
            counted[container] = got
    return counted


def devices_of(assignment: Assignment) -> frozenset[str]:
    """Every device of the pod, whichever container has it."""
    return frozenset(uuid for uuids in assignment.values() for uuid in uuids)


def encode_drift(drift: dict[str, Assignment]) -> str:
    """The text of the Node's drift annotation: pod uid -> assignment."""
    return msgspec.json.encode(drift, order="sorted").decode()


def drift_of(node: Node) -> dict[str, Assignment]:
    """Pod uid -> what the pod really holds, for the pods where it differs.

    Raises:
        AssignmentError: the annotation cannot be read.
    """
    text = node.metadata.annotation(names.DRIFT)
    if not text:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, Assignment])
    except msgspec.MsgspecError as error:
        raise AssignmentError(f"The annotation {names.DRIFT} cannot be read: {error}.") from error
