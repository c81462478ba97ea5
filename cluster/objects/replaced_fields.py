"""What admission replaced in a GPU pod's ``spec``: restored when the pod comes back without a GPU.

``names.REPLACED`` holds JSON: ``{"schedulerName": "default-scheduler", "priorityClassName": "batch"}``. A pod
with shares has ``"limits": {"main": {"nvidia.com/gpu": "1"}}`` as well. Those are for people: a pod that
comes back without a GPU gets none of them, and one that comes back as it was has shares already.
"""

import msgspec

from cluster import names
from cluster.objects.meta import UNREADABLE, Versioned, ready


@ready
class Replaced(Versioned, frozen=True, kw_only=True):
    """The user's values; None for a field in which the user gave none, or one of ours."""

    scheduler_name: str | None = None
    priority_class_name: str | None = None
    limits: dict[str, dict[str, str]] | None = None
    """Container -> the limits in whose place it has shares; None where all limits are the user's own."""
    priority: int | None = None
    """The value of that class, or of the cluster's default class: it orders its user's waiting pods."""


def encode_replaced(replaced: Replaced) -> str:
    """The text of the annotation."""
    return msgspec.json.encode(replaced).decode()


def replaced_in(annotations: dict[str, str]) -> Replaced:
    """What was replaced; nothing if the annotation is missing or cannot be read."""
    try:
        return msgspec.json.decode(annotations.get(names.REPLACED, "{}"), type=Replaced)
    except UNREADABLE:
        return Replaced()
