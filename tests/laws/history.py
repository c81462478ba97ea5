"""The newest events, a line each: they are shown in the message of a law that is broken."""

from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from cluster import names
from cluster.kube.resources import PodTemplate
from cluster.objects.bookings import Booking
from cluster.objects.nodes import Lease, Node
from cluster.objects.pods import Pod, has_condition
from tests.laws.changes import Change
from tests.laws.departures import taken_for

LONGEST: Final = 60
_WIDEST: Final = 160


class History:
    """The newest lines."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LONGEST)

    def add(self, change: Change) -> None:
        """One change; one that says nothing to the laws (a renewal, a heartbeat) is left out."""
        words = list(_differences(change))
        if words:
            meta = change.object.metadata
            name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
            self._line(change.instant, f"{change.version:>7}", f"{change.plural} {name}: {', '.join(words)}")

    def note(self, instant: datetime, message: str) -> None:
        """Something that is no change of an object."""
        self._line(instant, "      -", message)

    @property
    def lines(self) -> tuple[str, ...]:
        """Oldest first."""
        return tuple(self._lines)

    def clear(self) -> None:
        """A new beginning."""
        self._lines.clear()

    def _line(self, instant: datetime, version: str, text: str) -> None:
        self._lines.append(f"{instant:%H:%M:%S.%f}"[:-3] + f" {version} {text}")


def _differences(change: Change) -> Iterator[str]:
    if change.before is None:
        yield "created"
    before, after = _facts(change.before), _facts(change.after)
    if change.after is None:
        yield "gone"
        return
    for key in after | before:
        if before.get(key) != after.get(key):
            yield f"{key} {_short(after.get(key))}"


def _facts(obj: object) -> dict[str, Any]:
    if isinstance(obj, Pod):
        return _of_pod(obj)
    if isinstance(obj, Node):
        ready = next((c.status for c in obj.status.conditions or () if c.type == "Ready"), None)
        state = {key: obj.metadata.annotation(key) for key in (names.INVENTORY, names.DRIFT)}
        return {**_named(state), "ready": ready, "taints": obj.spec.taints, "cordon": obj.spec.unschedulable}
    if isinstance(obj, Booking):
        spec = {field: getattr(obj.spec, field) for field in obj.spec.__struct_fields__}
        return {**{k: str(v) for k, v in spec.items()}, "ending": obj.status.ending}
    if isinstance(obj, Lease):
        annotations = {
            key: obj.metadata.annotation(key) for key in (names.STOPPING, names.STORE, names.CHANGE)
        }
        return {"holder": obj.spec.holder_identity, **_named(annotations)}
    if isinstance(obj, PodTemplate):
        return {"due": obj.metadata.annotation(names.COMEBACK_DUE)}
    return {}


def _of_pod(pod: Pod) -> dict[str, Any]:
    meta = pod.metadata
    is_disrupted = has_condition(pod, names.DISRUPTION_TARGET)
    return {
        "uid": meta.uid,
        "node": pod.spec.node_name,
        "phase": pod.status.phase,
        "disrupted": (taken_for(pod) or "by others") if is_disrupted else None,
        "leaving": meta.deletion_timestamp and f"with {meta.deletion_grace_period_seconds} s",
        "finalizers": meta.finalizers or None,
        **_named({key: meta.annotation(key) for key in (meta.annotations or {}) if names.is_ours(key)}),
    }


def _named(annotations: dict[str, str | None]) -> dict[str, str | None]:
    return {key.rpartition("/")[2]: text for key, text in annotations.items()}


def _short(value: object) -> str:
    text = "-" if value is None else str(value)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}..."
