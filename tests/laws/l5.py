"""L5: every accepted booking can be honoured: never are more devices of a model booked than there are.

Nor is more memory of a device booked in shares than it offers. And those that must lie on one node each have
one for as long as they last, together with everybody else's devices: there is a place for every booking that
is free at all its instants. The search tries everything; where that takes too long, nothing is said.

Judged when a Booking is written or grows, at every instant from then on at which its load rises. A device
that becomes unhealthy later breaks no guarantee that was given before, nor does one that goes to a pod that
nobody may evict; a guarantee that is given then counts on neither.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import lru_cache
from typing import Final

from cluster import names
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod
from tests.laws.changes import Change
from tests.laws.devices import advertised_devices, held
from tests.laws.groups import user_of
from tests.laws.state import State

LAW: Final = "L5"
_PATIENCE: Final = 5_000
"""Places that are tried for one change."""
_MOST: Final = 300
"""Devices and bookings on one node that are judged together."""
_SPARED: Final = frozenset({"kube-system", "kube-public", names.KUBELET_LEASES, names.NAMESPACE})


def overbooked(change: Change, state: State, now: datetime) -> Iterator[str]:
    """A Booking is written for which there are too few devices."""
    before, after = change.bookings or (None, None)
    if after is None:
        return
    model = after.spec.model
    others = [b for b in state.bookings.values() if b.spec.model == model and b.name != after.name]
    gone = _gone(state, {b.spec.user for b in (after, *others)})
    nodes = [
        sum(d.is_healthy and d.model == model and d.uuid not in gone for d in advertised_devices(node))
        for node in state.nodes.values()
    ]
    offered = min(
        (
            d.share.memory
            for node in state.nodes.values()
            for d in advertised_devices(node)
            if d.model == model and d.share
        ),
        default=0,
    )
    for instant in sorted({now, *(b.spec.start for b in (after, *others) if b.spec.start > now)}):
        if _load(after, instant) <= (_load(before, instant) if before else 0):
            continue
        shared = _shared((after, *others), instant)
        if full := {number: used for number, used in shared.items() if used > offered}:
            yield f"With {after.name} shares of {full} MiB of one {model} are booked, which offers {offered}."
            return
        whole_ones = (one for one in (after, *others) if one.spec.memory is None)
        loads = [*[1] * len(shared), *(load for one in whole_ones if (load := _load(one, instant)))]
        at = f"at {instant:%Y-%m-%d %H:%M:%S} UTC"
        if sum(loads) > sum(nodes):
            yield f"With {after.name} {sum(loads)} x {model} are booked {at}, and there are {sum(nodes)}."
            return
        bound = [b for b in (after, *others) if b.spec.topology == "single-node" and b.spec.memory is None]
        whole = sorted((load for b in bound if (load := _load(b, instant))), reverse=True)
        if not _fit(tuple(whole), tuple(sorted(nodes))):
            yield f"With {after.name} {whole} x {model} are to lie on one node each {at}, of {nodes}."
            return
    if _has_grown(before, after) and not _has_plan(now, (after, *others), tuple(sorted(nodes))):
        yield f"With {after.name} there is no place for every booking of {model} on nodes with {nodes}."


def _gone(state: State, bookers: AbstractSet[str]) -> set[str]:
    """UUIDs of devices of pods that nobody may evict, and that no booking can cover."""
    return {
        uuid
        for pod in state.pods.values()
        if _stays(pod) and user_of(pod) not in bookers
        for uuid in held(pod, state)
    }


def _stays(pod: Pod) -> bool:
    if pod.metadata.annotation(names.RESERVES):
        return False  # it goes with those that share its GPU
    owners = {owner.kind for owner in pod.metadata.owner_references or ()}
    return pod.metadata.namespace in _SPARED or not owners.isdisjoint({"DaemonSet", "Node"})


@lru_cache(maxsize=4096)
def _fit(whole: tuple[int, ...], nodes: tuple[int, ...]) -> bool:
    """Whether each of these, the largest first, finds room on one node; the rest can lie anywhere."""
    return not whole or any(
        _fit(whole[1:], tuple(sorted((*nodes[:i], room - whole[0], *nodes[i + 1 :]))))
        for i, room in enumerate(nodes)
        if room >= whole[0]
    )


def _has_grown(before: Booking | None, after: Booking) -> bool:
    """Whether it wants something that it did not want before; another plan is nothing of the kind."""
    if before is None:
        return True
    was, now = before.spec, after.spec
    return now.start < was.start or now.end > was.end or now.count > was.count


def _has_plan(now: datetime, bookings: tuple[Booking, ...], nodes: tuple[int, ...]) -> bool:
    """Whether every booking has its place for all its time; True where that cannot be found out in time."""
    live = [b for b in bookings if b.spec.end > now]
    if not any(b.spec.topology == "single-node" and b.spec.count > 1 for b in live):
        return True  # single devices find one wherever the sum fits
    items = [
        (max(now, b.spec.start), b.spec.end, size)
        for b in live
        if b.spec.memory is None
        for size in ([b.spec.count] if b.spec.topology == "single-node" else [1] * b.spec.count)
    ]
    items += [(max(now, start), end, 1) for start, end in _lanes(live)]
    items.sort(key=lambda item: (item[0], -item[2]))
    placed: list[list[tuple[datetime, int]]] = [[] for _ in nodes]
    left = _PATIENCE

    def search(index: int) -> bool:
        nonlocal left
        if index == len(items):
            return True
        start, end, size = items[index]
        tried: set[tuple[int, tuple[tuple[datetime, int], ...]]] = set()
        for devices, there in zip(nodes, placed, strict=True):
            # By their starts: whatever is there and lasts, is there at the start.
            lasting = tuple(sorted(each for each in there if each[0] > start))
            if sum(each for _, each in lasting) + size > devices or (devices, lasting) in tried:
                continue
            tried.add((devices, lasting))
            left -= 1
            if left < 0:
                return True
            there.append((end, size))
            if search(index + 1):
                return True
            there.remove((end, size))
        return False

    return len(items) > _MOST or search(0)


def _shared(bookings: Iterable[Booking], instant: datetime) -> dict[object, int]:
    """Number of each device of shares at an instant -> MiB; a share without a number has its own."""
    found: dict[object, int] = {}
    for booking in bookings:
        for serial, number in enumerate(_numbers(booking) if _load(booking, instant) else ()):
            key = number or (booking.name, serial)
            found[key] = found.get(key, 0) + (booking.spec.memory or 0)
    return found


def _lanes(bookings: Iterable[Booking]) -> Iterator[tuple[datetime, datetime]]:
    """From when to when each device has shares without a break."""
    spans: dict[object, list[tuple[datetime, datetime]]] = {}
    for booking in sorted(bookings, key=lambda one: one.spec.start):
        for serial, number in enumerate(_numbers(booking)):
            there = spans.setdefault(number or (booking.name, serial), [])
            start, end = booking.spec.start, booking.spec.end
            if there and start < there[-1][1]:
                start, before = there.pop()
                end = max(end, before)
            there.append((start, end))
    return (span for there in spans.values() for span in there)


def _numbers(booking: Booking) -> list[int]:
    """The numbers of a booking's devices of which it has shares; 0 for those without one."""
    if booking.spec.memory is None:
        return []
    known = [number for place in booking.spec.places for number in place.lanes]
    return [*known, *[0] * booking.spec.count][: booking.spec.count]


def _load(booking: Booking, instant: datetime) -> int:
    return booking.spec.count if booking.spec.start <= instant < booking.spec.end else 0
