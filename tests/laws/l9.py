"""L9: the state after a restart equals the state before it, and a mirror knows whose bookings are there.

On every cluster, at every write: no Booking vanishes before its time, none goes over to another database, and
the mirror neither says that they are true nor writes one while there is one of another database, or
changes that its own has forgotten. ``fingerprint_of`` is compared around a restart; tests/scenarios does so
at the end of every world.

A Booking that has not begun may be cancelled at any time, and no object says who has deleted it. Where the
cluster is played in memory and names the writer (``changes.Maker``), that is in every scenario, no part of
ours may delete one but the server whose database it is of. On a real cluster what follows is seen
(``Unvouched``): the mirror's Lease goes over to another database, and planned Bookings of the former have
vanished since it was last said that they are true.

A person may give a database up (docs/operations/alerts.md, "The booking database is lost") and delete its
Bookings. On a real cluster that cannot be distinguished from a mirror that deletes them. So a person who does
that while the laws are watched deletes the mirror's Lease first: they are no mirror's Bookings then, and the
new Lease goes over from nobody.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from cluster import names
from cluster.objects.nodes import Lease, Node
from cluster.objects.pods import Pod
from tests.laws.broken import LawBrokenError
from tests.laws.changes import Change
from tests.laws.state import State

LAW: Final = "L9"
KEPT: Final = timedelta(days=7)
"""So long an ended booking stays as an object (ADR 12)."""

Fingerprint = Mapping[str, Any]
_STATE: Final = (names.USER, names.ASSIGNED, names.BOOKING, names.TERMINATE_AT, names.HOLD, names.BARRED)
_LINEAGE: Final = (names.RECREATED_FROM, names.FIRST_CREATED)


def forgotten(change: Change, state: State, now: datetime) -> Iterator[str]:
    """A Booking that has begun vanishes before its time, and it is of the database that is mirrored."""
    before, after = change.bookings or (None, None)
    if before is None or after is not None or not before.spec.start <= now < before.spec.end + KEPT:
        return
    mirrored = mirrored_store(state)
    if mirrored is not None and mirrored == before.spec.store_id:
        yield f"The Booking {before.name} is deleted, which must stay until {before.spec.end + KEPT}."


def deleted_by_another_database(change: Change, _state: State, _now: datetime) -> Iterator[str]:
    """A Booking is deleted by a part of ours whose database is another, or that has none."""
    before, after = change.bookings or (None, None)
    maker = change.maker
    if before is None or after is not None or maker is None or not maker.is_ours:
        return
    if maker.store != before.spec.store_id:
        whose = f"The Booking {before.name} of the database {before.spec.store_id}"
        has = f"whose database is {maker.store}" if maker.store else "who has none"
        yield f"{whose} is deleted by {maker.name}, {has}."


def of_another_database(change: Change, _state: State, _now: datetime) -> Iterator[str]:
    """A Booking goes over to another database, by any writer."""
    before, after = change.bookings or (None, None)
    was, now = (one.spec.store_id if one else "" for one in (before, after))
    if before and after and was and was != now:
        yield f"The Booking {before.name} was of the database {was}, and is made one of {now or 'none'}."


def older_than_reported(change: Change, _state: State, _now: datetime) -> Iterator[str]:
    """The mirror says that it has written less than it has said before, of the same database."""
    before, after = _mirrors(change)
    was, now = _changes(before), _changes(after)
    is_same = (
        before and after and before.metadata.uid == after.metadata.uid and _store(before) == _store(after)
    )
    if is_same and was is not None and now is not None and now < was:
        yield f"The mirror has said that change {was} is written, and now says that {now} is the newest."


def goes_on_with_anothers_bookings(change: Change, state: State, _now: datetime) -> Iterator[str]:
    """The mirror goes on though there are Bookings of another database, of which its own knows nothing."""
    before, after = _mirrors(change)
    old, new = change.bookings or (None, None)
    what, mine = "", None
    if after and _is_renewed(before, after):
        what, mine = "The mirror says that the Bookings are true", _store(after)
    elif new and old is None:
        what, mine = f"The Booking {new.name} is written", new.spec.store_id
    others = {b.spec.store_id: b.name for b in state.bookings.values() if b.spec.store_id not in ("", mine)}
    for store, name in sorted(others.items()) if mine else ():
        yield f"{what} of the database {mine}, and {name} is of {store}."


class Unvouched:
    """Planned Bookings that have vanished since the mirror last said that its database's are true."""

    def __init__(self) -> None:
        self._gone: dict[str, list[str]] = {}
        """Database -> their names."""

    def see(self, change: Change) -> Iterator[str]:
        """The mirror goes over to another database after that, and it is not known who has deleted them."""
        old, new = change.bookings or (None, None)
        if old and new is None and change.instant < old.spec.start:
            self._gone.setdefault(old.spec.store_id, []).append(old.name)
        before, after = _mirrors(change)
        was, now = _store(before), _store(after)
        if (before is None) != (after is None):
            self._gone.clear()
        elif was and was == now and _is_renewed(before, after):
            self._gone.pop(was, None)
        elif was and was != now:
            gone = ", ".join(self._gone.pop(was, []))
            if gone and change.maker is None:
                yield (
                    f"The mirror goes over from the database {was} to {now or 'none'}, and {gone} of {was},"
                    f" planned, vanished after {was} was last said to be true."
                )


def mirrored_store(state: State) -> str | None:
    """The database that the Bookings are true to, as the mirror says; None where it has never said."""
    observed = state.leases.get(names.MIRROR_LEASE)
    return _store(observed.lease) if observed else None


def fingerprint_of(state: State) -> Fingerprint:
    """All that a restart must leave as it is; nothing that changes by itself in a quiet cluster."""
    return {
        "the mirror's database": mirrored_store(state),
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


def _mirrors(change: Change) -> tuple[Lease | None, Lease | None]:
    """The mirror's Lease before and after; nothing for a change of something else."""
    if not isinstance(change.object, Lease) or change.object.metadata.name != names.MIRROR_LEASE:
        return None, None
    before, after = change.before, change.after
    return (
        before if isinstance(before, Lease) else None,
        after if isinstance(after, Lease) else None,
    )


def _is_renewed(before: Lease | None, after: Lease | None) -> bool:
    return after is not None and (before is None or before.spec.renew_time != after.spec.renew_time)


def _store(lease: Lease | None) -> str | None:
    return lease.metadata.annotation(names.STORE) if lease else None


def _changes(lease: Lease | None) -> int | None:
    text = lease.metadata.annotation(names.CHANGE) if lease else None
    return int(text) if text and text.isdecimal() else None


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
