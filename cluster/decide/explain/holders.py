"""Messages about the pods that hold GPUs which would fit a waiting pod, and until when they do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cluster.decide.available import matching
from cluster.decide.explain.snapshot import ExplanationSnapshot, at, counted, listed
from cluster.decide.ledger import NodeView
from cluster.decide.node_fit import node_rejection
from cluster.decide.request import GpuRequest
from cluster.objects.cover_annotations import terminate_at
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod, is_terminating

_NAMED: Final = 3
"""Number of holders that are named; the others are counted."""

_NEVER: Final = datetime.max.replace(tzinfo=UTC)

MayName = Callable[[Pod], bool]
"""Whether the reader of the explanation may learn the pod's name."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """A GPU that would fit, and its holder."""

    holder: Pod | None
    """None if no pod has it yet: it is kept for a waiting pod."""
    booked: bool
    until: datetime | None
    """When its holder's time is over; None if that is unknown."""


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
        "booked pods": [one for one in taken if one.holder and one.booked],
        "pods without a booking": [one for one in taken if one.holder and not one.booked],
    }
    parts = [f"{kind} use {len(found)}{_first(found)}" for kind, found in kinds.items() if found]
    held = sum(one.holder is None for one in taken)
    if parts:
        yield f"Of the GPUs that would fit, {listed(parts)}."
    if held:
        yield f"{counted(held, 'GPU')} that would fit {'is' if held == 1 else 'are'} kept for booked pods."
    yield from _named(taken, may_name)


def _first(found: list[_Taken]) -> str:
    until = min((one.until for one in found if one.until), default=None)
    if until is None:
        return ""
    return f" (until {at(until)})" if len(found) == 1 else f" (the first until {at(until)})"


def _named(taken: list[_Taken], may_name: MayName) -> Iterator[str]:
    seen: dict[str, _Taken] = {}
    for one in taken:
        if one.holder and may_name(one.holder):
            seen.setdefault(one.holder.key, one)
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
        by_device = {uuid: holding.uid for holding in view.holdings for uuid in holding.devices}
        for device in _fitting(view, request):
            holder = snapshot.pods.get(by_device.get(device.uuid, ""))
            if holder is not None:
                yield _of(holder, snapshot)
            elif device.uuid in view.on_hold and view.is_unheld(device.uuid):
                yield _Taken(None, booked=True, until=None)


def _fitting(view: NodeView, request: GpuRequest) -> Iterator[Device]:
    for resource in request.demand:
        for devices in matching(view.healthy_by_model.get(resource, {}), request.selector).values():
            yield from devices


def _of(holder: Pod, snapshot: ExplanationSnapshot) -> _Taken:
    booking = snapshot.cover.get(holder.metadata.uid)
    if booking is not None:
        return _Taken(holder, booked=True, until=booking.spec.end)
    until = holder.metadata.deletion_timestamp if is_terminating(holder) else terminate_at(holder)
    return _Taken(holder, booked=False, until=until if until and until > snapshot.now else None)
