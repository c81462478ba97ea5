"""The state that a hold says to have been planned on, rebuilt kind by kind.

Each kind has a watch of its own, so a plan knows pods as of one version and nodes as of another. Nothing of
what was known then hangs on how long ago it was: only versions within the leeway of the write are
taken at their word.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from cluster import names
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod
from tests.laws.changes import Change
from tests.laws.devices import hold_on
from tests.laws.state import ObservedLease, State

MOST: Final = 4000
PLANNED_ON: Final = (PODS.plural, NODES.plural, BOOKINGS.plural)
"""Kinds of which a plan says what it knew. Leases pass: of them the newest count as well."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A state, from the write that made it on."""

    version: int
    since: datetime
    state: State

    def kind(self, plural: str) -> Mapping[str, Any]:
        """All objects of a kind in it."""
        found: Mapping[str, Any] = getattr(self.state, plural)
        return found


class Versions:
    """The newest states by the versions of the writes that made them."""

    def __init__(self) -> None:
        self._snapshots: deque[_Snapshot] = deque(maxlen=MOST)

    def begin(self, state: State, instant: datetime) -> None:
        """It was listed: the writes that led to it and its version are unknown."""
        self._snapshots.clear()
        self.put(0, instant, state)

    def put(self, version: int, instant: datetime, state: State) -> None:
        """One write has made this state."""
        self._snapshots.append(_Snapshot(version, instant, state))

    def planned_on(self, pod: Pod, hold: Hold, *, begin: datetime) -> Iterator[State]:
        """The states that a hold may have been planned on as it says itself; none where that is unknown.

        A planner knows the holds that it has itself written before its watch has delivered them.

        Args:
            pod: on which it was written.
            hold: what was written.
            begin: of the leeway: what somebody else had written before it must have been known.
        """
        versions = versions_of(hold)
        if not self._snapshots or any(kind not in versions for kind in PLANNED_ON):
            return
        newest = self._snapshots[-1].state
        found = {kind: self._at(kind, versions[kind], begin) for kind in PLANNED_ON}
        pods, nodes, bookings = (found[kind] for kind in PLANNED_ON)
        if pods is None or nodes is None or bookings is None:
            return
        leases = self._at(LEASES.plural, versions.get(LEASES.plural, 0), begin)
        known = pods.with_others(nodes=nodes.nodes, bookings=bookings.bookings, leases=newest.leases)
        for state in (known, _with_holds_of(newest, known, but=pod, now=self._snapshots[-1].since)):
            yield state
            if leases is not None and leases.leases is not newest.leases:
                yield state.with_others(leases=leases.leases)

    def _at(self, kind: str, version: int, begin: datetime) -> State | None:
        """A state with all objects of a kind as of a version.

        None where that is unknown, or where they have changed before the leeway began.
        """
        newer: _Snapshot | None = None
        superseded: datetime | None = None
        for snapshot in reversed(self._snapshots):
            if newer is not None and newer.kind(kind) is not snapshot.kind(kind):
                superseded = newer.since
            is_first = snapshot is self._snapshots[0]
            if _is_as_of(snapshot.kind(kind), version) if is_first else snapshot.version <= version:
                return snapshot.state if superseded is None or superseded >= begin else None
            newer = snapshot
        return None


def versions_of(hold: Hold) -> Mapping[str, int]:
    """Kind -> version of the state that it was planned on; nothing where that cannot be read."""
    pairs = (part.partition("=") for part in (hold.state or "").split(","))
    return {kind: int(version) for kind, _, version in pairs if kind and version.isdecimal()}


def _is_as_of(objects: Mapping[str, Any], version: int) -> bool:
    """Whether all of them had been written by then; which others were deleted is unknown."""
    found = (one.lease if isinstance(one, ObservedLease) else one for one in objects.values())
    return all(int(one.metadata.resource_version) <= version for one in found)


def _with_holds_of(newest: State, known: State, *, but: Pod, now: datetime) -> State:
    """What was known, with the holds that are by now on other pods."""
    state = known
    for uid, pod in known.pods.items():
        later = newest.pods.get(uid)
        if later is pod or later is None or uid == but.metadata.uid or hold_on(later) == hold_on(pod):
            continue
        changed = _with_hold(pod, later.metadata.annotation(names.HOLD))
        state = state.after(Change(plural=PODS.plural, before=pod, after=changed, version=0, instant=now))
    return state


def _with_hold(pod: Pod, text: str | None) -> Pod:
    others = {key: value for key, value in (pod.metadata.annotations or {}).items() if key != names.HOLD}
    annotations = others if text is None else {**others, names.HOLD: text}
    return msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations)
    )
