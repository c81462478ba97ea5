"""Devices given to a pod, per container: the annotation that the Binding carries.

``names.ASSIGNED`` holds JSON: ``{"main": ["GPU-..."], "setup": ["GPU-..."]}``. Containers that ask for
nothing are left out. ``names.DRIFT`` on a Node holds ``{"<pod uid>": {"main": ["GPU-..."]}}`` for the pods
whose devices really differ.
"""

import msgspec

from cluster import names
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod

Assignment = dict[str, tuple[str, ...]]
"""Container name -> UUIDs of its devices, in the order of the choice."""


class AssignmentError(ValueError):
    """An annotation of ours that cannot be read."""


def encode_assignment(assignment: Assignment) -> str:
    """The text of the annotation."""
    return msgspec.json.encode(assignment).decode()


def decode_assignment(text: str) -> Assignment:
    """The assignment in an annotation's text.

    Raises:
        AssignmentError: not an assignment.
    """
    try:
        return msgspec.json.decode(text, type=Assignment)
    except msgspec.MsgspecError as error:
        raise AssignmentError(f"The annotation {names.ASSIGNED} cannot be read: {error}.") from error


def assignment_of(pod: Pod) -> Assignment | None:
    """The devices that the extender gave to the pod, None when it has not chosen.

    Raises:
        AssignmentError: the annotation cannot be read.
    """
    text = pod.metadata.annotation(names.ASSIGNED)
    return decode_assignment(text) if text else None


def devices_of(assignment: Assignment) -> frozenset[str]:
    """Every device of the pod, whichever container has it."""
    return frozenset(uuid for uuids in assignment.values() for uuid in uuids)


def encode_drift(drift: dict[str, Assignment]) -> str:
    """The text of the Node's drift annotation: pod uid -> assignment."""
    return msgspec.json.encode(drift, order="sorted").decode()


def drift_of(node: Node) -> dict[str, Assignment]:
    """Pod uid -> what the pod really holds, where it differs; empty when nothing does.

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
