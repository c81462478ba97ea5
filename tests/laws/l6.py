"""L6: when state is unknown nothing is evicted, ended or bound.

Silence is measured as the watcher itself sees renewals of Leases; a Lease that does not exist was never
seen. The leeway of the watcher is what a decision and its write may take after the last read. Judged
on every cluster:

- an agent that is unresponsive for 75 s, a mirror that is not heard of for 60 s: by their Leases;
- a cache without an event for 150 s: by the versions that a hold says to have been planned on. There were
  later writes, and the watches had delivered none of them for so long;
- a clock that is wrong by more than 30 s: by the renewals in the Lease of the part that acts, whose text
  is of that clock. kube-scheduler's are those of the extender next to it, on the same machine;
- a database that is another: law L9.

What no object says is judged where the cluster is played in memory and names the writer and what it knows
(``changes.Maker``), that is in every scenario:

- how stale the caches were by which a pod was bound, evicted or ended. A Binding names one resourceVersion,
  that of its pod, and the API server stores none; an Eviction or a deletion names none at all. A part's
  metric of its staleness is its own word, and of another moment. On a real cluster such a decision is seen
  where it was wrong: by laws L1 to L5, whose leeway is seconds;
- the clock of an extender next to no kube-scheduler that has just renewed;
- a database that cannot be used: nothing shows that but the mirror's silence a minute later. In that
  minute the server may neither say that the Bookings are true nor write one.

tests/scenarios/test_doubt.py plays each of these cases.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cluster import names
from cluster.objects.nodes import Lease
from cluster.objects.pods import Pod, is_live
from tests.laws.changes import Change
from tests.laws.departures import departure
from tests.laws.devices import hold_on, needed
from tests.laws.places import UNRESPONSIVE_AFTER
from tests.laws.state import State
from tests.laws.versions import versions_of
from tests.laws.watch_events import WatchEvents

LAW: Final = "L6"
MIRROR_STALE_AFTER: Final = timedelta(seconds=60)
STALE_AFTER: Final = timedelta(seconds=150)
LARGEST_SKEW: Final = timedelta(seconds=30)
ELECTED_FOR: Final = timedelta(seconds=15)
"""After so long without a renewal a Lease says nothing about who acts."""
RECLAIMS: Final = (names.CONTROLLER_LEASE,)
BINDS: Final = (names.SCHEDULER_LEASE, names.EXTENDER_LEASE)


@dataclass(frozen=True, slots=True)
class Act:
    """An act that nobody performs who knows too little.

    what: the beginning of a sentence. leases: those of its author, where there are any.
    """

    what: str
    leases: tuple[str, ...]


def bound_in_silence(change: Change, state: State, now: datetime) -> Iterator[str]:
    """A GPU pod is bound to a node whose agent is unresponsive."""
    after = _bound(change)
    if after and (why := _unresponsive(after, state, now)):
        yield f"{after.key} is bound to {after.spec.node_name}, {why}."


def evicted_in_silence(change: Change, state: State, now: datetime) -> Iterator[str]:
    """A pod is evicted on a node whose agent is unresponsive."""
    leaves = departure(change)
    if leaves and leaves.reason == "evicted" and (why := _unresponsive(leaves.pod, state, now)):
        yield f"{leaves.pod.key} is evicted on {leaves.pod.spec.node_name}, {why}."


def ended_in_silence(change: Change, state: State, now: datetime) -> Iterator[str]:
    """A pod is ended, or it is decided who ends, while nobody says that the Booking objects are true."""
    leaves = departure(change)
    decided = _is_decided(change)
    what = leaves.pod.key if leaves and leaves.reason == "ended" else f"{change.object.metadata.name}'s pods"
    if not decided and not (leaves and leaves.reason == "ended"):
        return
    silence = state.silence(names.MIRROR_LEASE, now)
    if silence is None:
        yield f"{what} are to end, and no mirror has ever said that the bookings are true."
    elif silence >= MIRROR_STALE_AFTER:
        yield f"{what} are to end, and the mirror was not renewed for {silence.total_seconds():.1f} s."


def demoted_in_doubt(change: Change, state: State, now: datetime) -> Iterator[str]:
    """A pod loses its cover annotation before it is decided which pods end with its booking."""
    before, after = change.pods or (None, None)
    if before is None or after is None or not is_live(after) or after.metadata.annotation(names.BOOKING):
        return
    booking = state.bookings.get(before.metadata.annotation(names.BOOKING) or "")
    if booking and booking.spec.end <= now and booking.status.ending is None:
        yield f"{after.key} is not booked any more, and it is not decided who ends with {booking.name}."


def acted_by_a_wrong_clock(change: Change, state: State, now: datetime) -> Iterator[str]:
    """The part that acts has a Lease, and renews it by a clock that is wrong."""
    act = _act(change)
    for name in act.leases if act else ():
        lease, silence = state.leases.get(name), state.silence(name, now)
        skew = lease.skew if lease else None
        if act and skew is not None and silence is not None and silence < ELECTED_FOR:
            yield from _wrong_clock(act, f"the holder of the Lease {name}", skew)


def acted_in_doubt(change: Change, _state: State, _now: datetime) -> Iterator[str]:
    """The part that acts is known to know too little: its caches are stale, or its clock is wrong."""
    act, maker = _act(change), change.maker
    if act is None or maker is None:
        return
    if maker.staleness > STALE_AFTER.total_seconds():
        yield f"{act.what} by {maker.name}, who has had no events for {maker.staleness:.1f} s."
    yield from _wrong_clock(act, maker.name, timedelta(seconds=maker.skew))


def vouched_in_doubt(change: Change, _state: State, _now: datetime) -> Iterator[str]:
    """The Bookings are said to be true, or one is written, by a server whose database cannot be used."""
    maker = change.maker
    if maker is None or maker.problem is None:
        return
    before, after = change.bookings or (None, None)
    if before or after:
        if before is None or after is None or before.spec != after.spec:
            name = change.object.metadata.name
            yield f"The Booking {name} is written by {maker.name}, whose database says: {maker.problem}"
    elif _is_renewed(change, names.MIRROR_LEASE):
        yield f"The Bookings are said to be true by {maker.name}, whose database says: {maker.problem}"


def planned_on_stale_state(change: Change, events: WatchEvents, decided: datetime) -> Iterator[str]:
    """Devices are kept for a pod by a part that had had no event of some kind for too long.

    Args:
        change: perhaps a hold that is written.
        events: what the watches have delivered.
        decided: the earliest instant at which it may have been decided.
    """
    before, after = change.pods or (None, None)
    hold = hold_on(after) if after else None
    if after is None or hold is None or (before is not None and hold_on(before) == hold):
        return
    for kind, version in sorted(versions_of(hold).items()):
        delivered = events.newest_at(kind, decided - STALE_AFTER)
        if delivered > version:
            yield (
                f"Devices are kept for {after.key} by one who knows {kind} as of version {version}, and"
                f" version {delivered} had come {STALE_AFTER.total_seconds():.0f} s before."
            )


def _act(change: Change) -> Act | None:
    before, after = change.pods or (None, None)
    if bound := _bound(change):
        return Act(f"{bound.key} is bound to {bound.spec.node_name}", BINDS)
    if leaves := departure(change):
        return Act(f"{leaves.pod.key} is {leaves.reason}", RECLAIMS)
    if _is_decided(change):
        return Act(f"It is decided who ends with {change.object.metadata.name}", RECLAIMS)
    hold = hold_on(after) if after else None
    if after and hold and (before is None or hold_on(before) != hold):
        return Act(f"Devices are kept for {after.key}", RECLAIMS)
    return None


def _bound(change: Change) -> Pod | None:
    """The GPU pod that is bound by a change."""
    before, after = change.pods or (None, None)
    if before is None or after is None or before.spec.node_name or not after.spec.node_name:
        return None
    return after if needed(after) else None


def _is_decided(change: Change) -> bool:
    """Whether it is decided who ends with a booking."""
    before, after = change.bookings or (None, None)
    return bool(before and after and before.status.ending is None and after.status.ending is not None)


def _is_renewed(change: Change, name: str) -> bool:
    before, after = change.before, change.after
    if not isinstance(after, Lease) or after.metadata.name != name:
        return False
    return not isinstance(before, Lease) or before.spec.renew_time != after.spec.renew_time


def _wrong_clock(act: Act, who: str, skew: timedelta) -> Iterator[str]:
    if abs(skew) > LARGEST_SKEW:
        yield f"{act.what} by {who}, whose clock is wrong by {skew.total_seconds():+.1f} s."


def _unresponsive(pod: Pod, state: State, now: datetime) -> str | None:
    node = state.nodes.get(pod.spec.node_name or "")
    if node is not None and node.metadata.annotation(names.COUNTED):
        # No agent runs there: its kubelet's Lease counts, by which Kubernetes says whether it is Ready.
        is_ready = any(one.type == "Ready" and one.status == "True" for one in node.status.conditions or ())
        return None if is_ready else "whose Node is not Ready, and no agent runs there"
    silence = state.silence(names.node_lease(pod.spec.node_name or ""), now)
    if silence is None:
        return "whose agent has never renewed its Lease"
    if silence >= UNRESPONSIVE_AFTER:
        return f"whose agent has been unresponsive for {silence.total_seconds():.1f} s"
    return None
