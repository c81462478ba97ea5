"""L6: when state is unknown nothing is evicted, ended or bound.

Silence is measured as the watcher itself hears renewals of Leases; a Lease that does not exist was never
heard. The leeway of the watcher is what a decision and its write may take after the last look.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from cluster import names
from cluster.objects.pods import Pod, is_live
from tests.laws.changes import Change
from tests.laws.departures import departure
from tests.laws.devices import needed
from tests.laws.places import SILENT_AFTER
from tests.laws.state import State

LAW: Final = "L6"
MIRROR_SILENT_AFTER: Final = timedelta(seconds=60)


def bound_in_silence(change: Change, state: State, now: datetime) -> Iterator[str]:
    """A GPU pod is bound to a node whose agent is silent."""
    before, after = change.pods or (None, None)
    if before is None or after is None or before.spec.node_name or not after.spec.node_name:
        return
    if needed(after) and (why := _silent(after, state, now)):
        yield f"{after.key} is bound to {after.spec.node_name}, {why}."


def evicted_in_silence(change: Change, state: State, now: datetime) -> Iterator[str]:
    """A pod is evicted on a node whose agent is silent."""
    leaves = departure(change)
    if leaves and leaves.reason == "evicted" and (why := _silent(leaves.pod, state, now)):
        yield f"{leaves.pod.key} is evicted on {leaves.pod.spec.node_name}, {why}."


def ended_in_silence(change: Change, state: State, now: datetime) -> Iterator[str]:
    """A pod is ended, or it is decided who ends, while nobody says that the Booking objects are true."""
    leaves = departure(change)
    before, after = change.bookings or (None, None)
    decided = bool(before and after and before.status.ending is None and after.status.ending is not None)
    what = leaves.pod.key if leaves and leaves.reason == "ended" else f"{change.object.metadata.name}'s pods"
    if not decided and not (leaves and leaves.reason == "ended"):
        return
    silence = state.silence(names.MIRROR_LEASE, now)
    if silence is None:
        yield f"{what} are to end, and no mirror has ever said that the bookings are true."
    elif silence >= MIRROR_SILENT_AFTER:
        yield f"{what} are to end, and the mirror has been silent for {silence.total_seconds():.1f} s."


def demoted_in_doubt(change: Change, state: State, now: datetime) -> Iterator[str]:
    """A pod is said to be booked no longer, though nobody has decided yet who ends with its booking."""
    before, after = change.pods or (None, None)
    if before is None or after is None or not is_live(after) or after.metadata.annotation(names.BOOKING):
        return
    booking = state.bookings.get(before.metadata.annotation(names.BOOKING) or "")
    if booking and booking.spec.end <= now and booking.status.ending is None:
        yield f"{after.key} is not booked any more, and it is not decided who ends with {booking.name}."


def _silent(pod: Pod, state: State, now: datetime) -> str | None:
    silence = state.silence(names.node_lease(pod.spec.node_name or ""), now)
    if silence is None:
        return "whose agent has never been heard"
    if silence >= SILENT_AFTER:
        return f"whose agent has been silent for {silence.total_seconds():.1f} s"
    return None
