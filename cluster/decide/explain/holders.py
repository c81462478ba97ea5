"""Messages about the pods that hold GPUs which would fit a waiting pod, and until when they do."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cluster.decide.available import matching
from cluster.decide.explain.snapshot import ExplanationSnapshot, at, counted, listed
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.amounts import NO_USE, Holding, Room
from cluster.decide.node_fit import node_rejection
from cluster.decide.request import GpuRequest
from cluster.decide.shares import MODES
from cluster.objects.cover_annotations import terminate_at
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod, is_terminating
from cluster.objects.share_request import ShareRequest, Slot

_NAMED: Final = 3
"""Number of holders that are named; the others are counted."""

_NEVER: Final = datetime.max.replace(tzinfo=UTC)

MayName = Callable[[Pod], bool]
"""Whether the reader of the explanation may learn the pod's name."""


@dataclass(frozen=True, slots=True)
class _Holder:
    """A pod that has a GPU, or a share of it."""

    pod: Pod
    booked: bool
    until: datetime | None
    """When its time is over; None if that is unknown."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """A GPU that would fit, and its holders."""

    holders: tuple[_Holder, ...]
    """Several if they share it; empty if no pod has it yet: it is kept for a waiting pod."""
    until: datetime | None
    """When there may be room: when all have left, or for a share the first; None if that is unknown."""
    node: str
    room: Room
    """What is left of it for shares."""

    @property
    def booked(self) -> bool:
        """Whether one of its holders is booked."""
        return any(one.booked for one in self.holders)


def holders(pod: Pod, request: GpuRequest, snapshot: ExplanationSnapshot, may_name: MayName) -> Iterator[str]:
    """Which of the GPUs that would fit are taken, by which pods, and until when; nothing if none is taken.

    Args:
        pod: the waiting pod.
        request: the pod's request.
        snapshot: the cluster.
        may_name: which pods may be named.
    """
    taken = list(_taken(pod, request, snapshot))
    kinds = {
        "booked pods": [one for one in taken if one.booked],
        "pods without a booking": [one for one in taken if one.holders and not one.booked],
    }
    parts = [f"{kind} use {len(found)}{_first(found)}" for kind, found in kinds.items() if found]
    held = sum(not one.holders for one in taken)
    if parts:
        yield f"Of the GPUs that would fit, {listed(parts)}."
    if request.share:
        yield from _most_room(request.share, taken)
    if held:
        yield f"{counted(held, 'GPU')} that would fit {'is' if held == 1 else 'are'} kept for booked pods."
    yield from _named(taken, may_name)


def _most_room(share: ShareRequest, taken: list[_Taken]) -> Iterator[str]:
    """How near the shared GPU with the most memory left comes to what the pod wants."""
    shared = [one for one in taken if one.holders and one.room.modes]
    best = max(shared, key=lambda one: (one.room.memory, one.room.compute), default=None)
    if best is None:
        return
    left = [f"{best.room.memory} MiB"]
    if any(need.amount.cores for need in share.needs):
        left.append(f"{best.room.compute} % of the compute")
    if not best.room.slots:
        left.append("no slot")
    yield f"Of those that are shared, the one with the most room has {listed(left)} left, on {best.node}."


def _first(found: list[_Taken]) -> str:
    until = min((one.until for one in found if one.until), default=None)
    if until is None:
        return ""
    return f" (until {at(until)})" if len(found) == 1 else f" (the first until {at(until)})"


def _named(taken: list[_Taken], may_name: MayName) -> Iterator[str]:
    seen: dict[str, _Holder] = {}
    for one in (holder for each in taken for holder in each.holders):
        if may_name(one.pod):
            seen.setdefault(one.pod.key, one)
    if not seen:
        return
    known = sorted(seen.items(), key=lambda item: (item[1].until or _NEVER, item[0]))
    named = [f"{key}{f' until {at(one.until)}' if one.until else ''}" for key, one in known[:_NAMED]]
    more = len(known) - _NAMED
    yield f"They are used by {listed([*named, *([f'{more} more'] if more > 0 else [])])}."


def _taken(pod: Pod, request: GpuRequest, snapshot: ExplanationSnapshot) -> Iterator[_Taken]:
    for name, (view, agent) in sorted(snapshot.node_snapshots.items()):
        node = snapshot.nodes.get(name)
        if not view.published or agent != "alive" or (node and node_rejection(pod, node)):
            continue
        by_device = defaultdict[str, list[str]](list)
        for holding in view.holdings:
            for uuid in holding.devices:
                by_device[uuid].append(holding.uid)
        for device in _fitting(view, request):
            known = [snapshot.pods[uid] for uid in by_device[device.uuid] if uid in snapshot.pods]
            if known:
                found = tuple(_of(holder, snapshot) for holder in known)
                until = _room_at(found, is_share=request.share is not None)
                yield _Taken(found, until, name, view.room(device))
            elif device.uuid in view.on_hold and view.is_unheld(device.uuid):
                yield _Taken((), None, name, view.room(device))


def _fitting(view: NodeView, request: GpuRequest) -> Iterator[Device]:
    """The devices that would do for the pod if nobody had them; for a share, those without room for it."""
    share = request.share
    for resource in request.takes:
        for devices in matching(view.healthy_by_model.get(resource, {}), request.selector).values():
            for device in devices:
                if share is None or _has_no_room(share, device, view):
                    yield device


def _has_no_room(share: ShareRequest, device: Device, view: NodeView) -> bool:
    """Whether a device could give the share if nobody had it, and cannot now."""
    if not _fits(share, device, NO_USE.room_on(device)):
        return False
    return device.uuid in view.on_hold or not _fits(share, device, view.room(device))


def _fits(share: ShareRequest, device: Device, room: Room) -> bool:
    """Whether each of a pod's shares, taken by itself, fits into the room of a device."""
    modes = MODES if share.mode is None else (share.mode,)
    slots = [Slot((need.amount,)) for need in share.needs]
    return any(
        all(room.fits(Holding(device.uuid, slot.memory_on(device), slot.cores, mode)) for slot in slots)
        for mode in modes
    )


def _room_at(found: tuple[_Holder, ...], *, is_share: bool) -> datetime | None:
    known = [one.until for one in found if one.until]
    if is_share:
        return min(known, default=None)
    return max(known) if len(known) == len(found) else None


def _of(holder: Pod, snapshot: ExplanationSnapshot) -> _Holder:
    booking = snapshot.cover.get(holder.metadata.uid)
    if booking is not None:
        return _Holder(holder, booked=True, until=booking.spec.end)
    until = holder.metadata.deletion_timestamp if is_terminating(holder) else terminate_at(holder)
    return _Holder(holder, booked=False, until=until if until and until > snapshot.now else None)
