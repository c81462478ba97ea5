"""The state that a hold says to have been planned on, rebuilt kind by kind.

Each kind has a watch of its own, so a plan knows pods as of one version and nodes as of another. Nothing of
what was known then hangs on how long ago it was: only versions within the leeway of the write are
taken at their word. Where claims can be booked, a pod as of one version is put together with its claims as of
another.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import msgspec

from cluster import names
from cluster.fake.clock import FakeClock
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS, Object
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod
from tests.laws.changes import Change
from tests.laws.claims import KINDS, Stored
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
    stored: Stored | None
    """What its pods are shown from, where claims can be booked."""

    def kind(self, plural: str) -> object:
        """All objects of a kind in it: another value where any has changed."""
        is_stored = self.stored is not None and (plural == PODS.plural or plural in KINDS)
        return getattr(self.stored if is_stored else self.state, plural)

    def objects(self, plural: str) -> Iterable[Object]:
        """The same one by one."""
        if self.stored is not None and plural in KINDS:
            return self.stored.objects(plural)
        found: Mapping[str, Any] = getattr(self.state, plural)
        return (one.lease if isinstance(one, ObservedLease) else one for one in found.values())


class Versions:
    """The newest states by the versions of the writes that made them."""

    def __init__(self) -> None:
        self._snapshots: deque[_Snapshot] = deque(maxlen=MOST)

    def begin(self, state: State, instant: datetime, stored: Stored | None = None) -> None:
        """It was listed: the writes that led to it and its version are unknown."""
        self._snapshots.clear()
        self.put(0, instant, state, stored)

    def put(self, version: int, instant: datetime, state: State, stored: Stored | None = None) -> None:
        """One write has made this state; ``stored``: of pods and their claims, where those can be booked."""
        self._snapshots.append(_Snapshot(version, instant, state, stored))

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
        known = self._known(versions, begin, claims=bool(pod.spec.resource_claims))
        if known is None:
            return
        leases = self._at(LEASES.plural, versions.get(LEASES.plural, 0), begin)
        for state in (known, _with_holds_of(newest, known, but=pod, now=self._snapshots[-1].since)):
            yield state
            if leases is not None and leases.state.leases is not newest.leases:
                yield state.with_others(leases=leases.state.leases)

    def _known(self, versions: Mapping[str, int], begin: datetime, *, claims: bool) -> State | None:
        """What was known as of these versions, with the newest Leases; None where that is unknown."""
        newest = self._snapshots[-1]
        kinds = (*PLANNED_ON, *(KINDS if claims and newest.stored else ()))
        found = {
            kind: at for kind in kinds if (at := self._at(kind, versions.get(kind, -1), begin)) is not None
        }
        if len(found) < len(kinds):
            return None
        pods, nodes, bookings = (found[kind].state for kind in PLANNED_ON)
        others = {"nodes": nodes.nodes, "bookings": bookings.bookings, "leases": newest.state.leases}
        stored = found[PODS.plural].stored
        if stored is None or not claims:
            return pods.with_others(**others)
        of_claims = {kind: getattr(found[kind].stored, kind) for kind in KINDS}
        shown = replace(stored, **of_claims).shown(nodes.nodes.values(), FakeClock(newest.since))
        return replace(pods, pods=shown, **others)

    def _at(self, kind: str, version: int, begin: datetime) -> _Snapshot | None:
        """A state with all objects of a kind as of a version.

        None where that is unknown, or where they have changed before the leeway began.
        """
        newer: _Snapshot | None = None
        superseded: datetime | None = None
        for snapshot in reversed(self._snapshots):
            if newer is not None and newer.kind(kind) is not snapshot.kind(kind):
                superseded = newer.since
            is_first = snapshot is self._snapshots[0]
            if _is_as_of(snapshot.objects(kind), version) if is_first else snapshot.version <= version:
                return snapshot if superseded is None or superseded >= begin else None
            newer = snapshot
        return None


def versions_of(hold: Hold) -> Mapping[str, int]:
    """Kind -> version of the state that it was planned on; nothing where that cannot be read."""
    pairs = (part.partition("=") for part in (hold.state or "").split(","))
    return {kind: int(version) for kind, _, version in pairs if kind and version.isdecimal()}


def _is_as_of(objects: Iterable[Object], version: int) -> bool:
    """Whether all of them had been written by then; which others were deleted is unknown."""
    return all(int(one.metadata.resource_version) <= version for one in objects)


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
