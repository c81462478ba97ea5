"""L2: a pod that is booked is not taken away before its booking ends.

Judged at the write that begins its termination, by our own reckoning of who is booked (``cover``). A pod that
is evicted by an administrator's order is not taken away by us.

A part of ours that deletes a booked pod as its user would, without a reason, is seen where the cluster is
played in memory and names the writer (``changes.Maker``), that is in every scenario. No object says who has
deleted it: on a real cluster it counts as its user's deletion. tests/scenarios/test_watched.py plays it.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from tests.laws.changes import Change
from tests.laws.cover import cover
from tests.laws.departures import deleted_by_us, departure, is_end_requested, is_ordered
from tests.laws.groups import user_of
from tests.laws.state import State

LAW: Final = "L2"


def taken_while_booked(change: Change, state: State, now: datetime) -> Iterator[str]:
    """A booked pod is evicted or ended."""
    leaves = departure(change)
    if leaves is None or (leaves.reason == "evicted" and is_ordered(change)):
        return
    booking = cover(state, now, {user_of(leaves.pod)}).get(leaves.pod.metadata.uid)
    if booking:
        until = f"until {booking.spec.end:%Y-%m-%d %H:%M:%S} UTC"
        yield f"{leaves.pod.key} is {leaves.reason}, though {booking.name} covers it {until}."


def deleted_while_booked(change: Change, state: State, now: datetime) -> Iterator[str]:
    """A booked pod is deleted by a part of ours, which does not say why."""
    pod, maker = deleted_by_us(change), change.maker
    booking = cover(state, now, {user_of(pod)}).get(pod.metadata.uid) if pod else None
    if pod and maker and booking:
        until = f"until {booking.spec.end:%Y-%m-%d %H:%M:%S} UTC"
        yield f"{pod.key} is deleted by {maker.name}, though {booking.name} covers it {until}."


def ended_without_end(change: Change, state: State, now: datetime) -> Iterator[str]:
    """A pod is ended with a booking, though no booking of which it was decided is over (ADR 12).

    Or at the request of MAIA's tools, though it is not past what MAIA has granted it.
    """
    leaves = departure(change)
    if leaves is None or leaves.reason != "ended":
        return
    uid = leaves.pod.metadata.uid
    decided = [b for b in state.bookings.values() if uid in (b.status.ending or ())]
    if not any(booking.spec.end <= now for booking in decided) and not is_end_requested(change, now):
        reasons = ", ".join(f"{b.name} ends at {b.spec.end}" for b in decided) or "no booking names it"
        yield f"{leaves.pod.key} is ended, though no booking that it ends with is over: {reasons}."
