"""L9: the state after a restart equals the state before it, and no mirror deletes what has not run out."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from cluster import names
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from tests.laws.broken import LawBrokenError
from tests.laws.changes import Change
from tests.laws.state import State

LAW: Final = "L9"
KEPT: Final = timedelta(days=7)
"""So long an ended booking stays as an object (ADR 12)."""

Fingerprint = Mapping[str, Any]
_STATE: Final = (names.USER, names.ASSIGNED, names.BOOKING, names.TERMINATE_AT, names.HOLD, names.BARRED)
_LINEAGE: Final = (names.RECREATED_FROM, names.BORN)


def forgotten(change: Change, state: State, now: datetime) -> Iterator[str]:
    """A Booking that has begun vanishes before its time, and it is of the database that is mirrored.

    One that has not begun may have been cancelled. Objects of another database are a person's to delete.
    """
    before, after = change.bookings or (None, None)
    if before is None or after is not None or not before.spec.start <= now < before.spec.end + KEPT:
        return
    heard = state.leases.get(names.MIRROR_LEASE)
    mirrored = heard.lease.metadata.annotation(names.STORE) if heard else None
    if mirrored is not None and mirrored == before.spec.store_id:
        yield f"The Booking {before.name} is deleted, which must stay until {before.spec.end + KEPT}."


def fingerprint_of(state: State) -> Fingerprint:
    """All that a restart must leave as it is; nothing that changes by itself in a quiet cluster."""
    return {
        **{f"pod {pod.key}": _pod(pod) for pod in state.pods.values()},
        **{f"node {name}": _node(node) for name, node in state.nodes.items()},
        **{f"booking {name}": (b.spec, b.status.ending) for name, b in state.bookings.items()},
        **{
            f"template {t.metadata.namespace}/{t.metadata.name}": (t.metadata.annotations, t.template)
            for t in state.templates.values()
        },
    }


def assert_unchanged(before: Fingerprint, after: Fingerprint) -> None:
    """Compare the fingerprints before and after a restart.

    Raises:
        LawBrokenError: something is another.
    """
    keys = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
    if keys:
        lines = [f"{key}: {before.get(key)} became {after.get(key)}" for key in keys]
        raise LawBrokenError(LAW, f"A restart has changed {', '.join(keys)}.", lines)


def _pod(pod: Pod) -> Mapping[str, Any]:
    meta = pod.metadata
    return {
        "uid": meta.uid,
        "node": pod.spec.node_name,
        "leaving": meta.deletion_timestamp is not None,
        "finalizers": tuple(meta.finalizers or ()),
        **{key: meta.annotation(key) for key in (*_STATE, *_LINEAGE)},
    }


def _node(node: Node) -> Mapping[str, Any]:
    return {key: node.metadata.annotation(key) for key in (names.INVENTORY, names.DRIFT)}
