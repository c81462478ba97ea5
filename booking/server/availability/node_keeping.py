"""Which nodes a cluster autoscaler must not remove, and the annotation that says so. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from booking.server.records import Record
from cluster import names

_TRUE: Final = "true"


@dataclass(frozen=True, slots=True)
class NodeMarks:
    """What a Node says to autoscalers now."""

    value: str | None
    """The autoscaler's annotation; None: there is none."""
    is_ours: bool
    """Whether we have set it."""
    version: str | None
    """resourceVersion of the Node."""


def needed(records: Iterable[Record], now: datetime, ahead: timedelta) -> frozenset[str]:
    """The nodes that the booking plan uses from now until ``ahead``."""
    return frozenset(
        place.node
        for record in records
        if record.cancelled is None and record.end > now and record.start <= now + ahead
        for place in record.places
    )


def change_of(marks: NodeMarks, *, is_needed: bool) -> dict[str, Any] | None:
    """The patch for a Node, None where nothing is to be written: what others have set is left alone."""
    if is_needed:
        if marks.value is not None:
            return None
        annotations: Mapping[str, str | None] = {names.SCALE_DOWN_DISABLED: _TRUE, names.NODE_KEPT: _TRUE}
    elif not marks.is_ours:
        return None
    else:
        # Somebody has set another value since: it is theirs now.
        ours = {names.SCALE_DOWN_DISABLED: None} if marks.value == _TRUE else {}
        annotations = {**ours, names.NODE_KEPT: None}
    return {"metadata": {"resourceVersion": marks.version, "annotations": annotations}}
