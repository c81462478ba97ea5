"""Whether a pod fits on a node, and if not, why.

The checks are in the order in which people care about them. ``reasons`` explains what a reason is, and why
its text never changes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from cluster import names
from cluster.decide import reasons
from cluster.decide.available import available, largest_set, matching, matching_count
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.amounts import NO_USE, Room
from cluster.decide.ledger.liveness import AgentState
from cluster.decide.ledger.view import ByModel
from cluster.decide.reasons import Reason
from cluster.decide.request import GpuRequest
from cluster.decide.shares import MODES, Rooms, place, rooms
from cluster.objects.hold import Hold
from cluster.objects.share_request import ShareRequest

CORDONED: Final = reasons.CORDONED.reason()
NOT_PUBLISHED: Final = reasons.NOT_PUBLISHED.reason()
AGENT: Final[Mapping[AgentState, Reason]] = {
    "unseen": reasons.AGENT_UNSEEN.reason(),
    "unresponsive": reasons.AGENT_UNRESPONSIVE.reason(),
    "stopping": reasons.AGENT_STOPPING.reason(),
    "unconfirmed": reasons.AGENT_UNCONFIRMED.reason(),
    "kubelet-rejecting": reasons.KUBELET_REJECTING.reason(),
    "kubelet-short": reasons.KUBELET_SHORT.reason(),
}
TOO_MANY: Final = reasons.TOO_MANY.reason()
ON_HOLD: Final = reasons.ON_HOLD.reason()
NOMINATED: Final = reasons.NOMINATED.reason()
BOOKED_BY_OTHERS: Final = reasons.BOOKED_BY_OTHERS.reason()
UNACCOUNTED: Final = reasons.UNACCOUNTED.reason()
RESERVED: Final = reasons.RESERVED.reason()
HELD_UNHEALTHY: Final = reasons.HELD_UNHEALTHY.reason()
HELD_NOT_FREE: Final = reasons.HELD_NOT_FREE.reason()
HELD_MISMATCH: Final = reasons.HELD_MISMATCH.reason()
SHARE_BESIDE_WHOLE: Final = reasons.SHARE_BESIDE_WHOLE.reason()
SHARE_MODE: Final = reasons.SHARE_MODE.reason()
NO_SLOTS: Final = reasons.NO_SLOTS.reason()
ENDLESS: Final = 2**31
"""Slots."""


def rejection(request: GpuRequest, view: NodeView, agent: AgentState) -> Reason | None:
    """Why the pod does not fit on the node; None if it does.

    Args:
        request: what the pod requests.
        view: the node.
        agent: the state of the node's agent.
    """
    if not request.demand:
        return None
    if request.hold and request.hold.node != view.name:
        return elsewhere(request.hold)
    if closed := _closed(request, view, agent):
        return closed
    if request.share:
        return share_rejection(request, view, request.share)
    for resource, needed in request.demand.items():
        # A held device that has not been identified may be any of the free ones.
        spare = largest_set(available(request, view, resource), request) - view.unknown.get(resource, 0)
        if spare < needed:
            return next(_shortages(request, view, resource, needed))
    return None


def _closed(request: GpuRequest, view: NodeView, agent: AgentState) -> Reason | None:
    """Why the node takes no such pod at all, whatever is free there."""
    if view.is_cordoned and not request.tolerates_cordon:
        return CORDONED
    if view.fault:
        return reasons.UNREADABLE.reason(view.fault)
    if not view.published:
        return NOT_PUBLISHED
    return None if agent == "alive" else AGENT[agent]


def elsewhere(hold: Hold) -> Reason:
    """The pod waits for devices of another node."""
    return reasons.ELSEWHERE.reason(hold.node)


def unhealthy(request: GpuRequest) -> Reason:
    """The node has enough GPUs for the pod, but too many of them are unhealthy."""
    return reasons.UNHEALTHY.reason(request.selector.text)


def in_use(request: GpuRequest) -> Reason:
    """The node has enough healthy GPUs for the pod, but others hold them."""
    return reasons.IN_USE.reason(request.selector.text)


def _shortages(request: GpuRequest, view: NodeView, resource: str, needed: int) -> Iterator[Reason]:
    """All reasons why there are too few devices, the most lasting first."""
    everything = view.all_by_model.get(resource, {})
    matching = matching_count(everything, request)
    of_one_model = largest_set(everything, request)
    if sum(map(len, everything.values())) < needed:
        yield TOO_MANY
    if not matching:
        yield reasons.NO_SUCH.reason(request.selector.text)
    if matching < needed:
        yield reasons.TOO_MANY_SUCH.reason(request.selector.text)
    if of_one_model < needed:
        yield reasons.MIXED_MODELS.reason(request.selector.text)
    if largest_set(view.healthy_by_model.get(resource, {}), request) < needed:
        yield unhealthy(request)
    if request.hold:
        yield _withheld(request.hold, request, view)
    if largest_set(view.unheld_by_model.get(resource, {}), request) < needed:
        yield in_use(request)
    if largest_set(view.free_by_model.get(resource, {}), request) < needed:
        yield ON_HOLD
    if largest_set(available(request, view, resource), request) < needed:
        yield NOMINATED
    yield UNACCOUNTED


def _withheld(hold: Hold, request: GpuRequest, view: NodeView) -> Reason:
    """Why a pod is not given the devices that are kept for it."""
    devices = {device.uuid: device for device in view.devices}
    if not set(hold.devices) <= devices.keys():
        return HELD_MISMATCH
    if not all(devices[uuid].is_healthy for uuid in hold.devices):
        return HELD_UNHEALTHY
    if not all(map(view.is_unheld, hold.devices)):
        return HELD_NOT_FREE
    if any(view.on_hold.get(uuid, request.uid) != request.uid for uuid in hold.devices):
        return ON_HOLD
    enough = all(
        largest_set(available(request, view, name), request) >= needed
        for name, needed in request.demand.items()
    )
    return UNACCOUNTED if enough else HELD_MISMATCH


def share_rejection(request: GpuRequest, view: NodeView, share: ShareRequest) -> Reason | None:
    """Why a pod with shares does not fit on an open node; None if it does."""
    if len(request.demand) > 1:
        return SHARE_BESIDE_WHOLE
    unknown = view.unknown.get(names.GPU_RESOURCE, 0)
    # An unknown share may be of any GPU: until the node's agent says of which, no room is known.
    if not view.unknown.get(names.SHARED_RESOURCE) and place(request, rooms(request, view), spare=unknown):
        return None
    return next(_share_shortages(request, view, share))


def _share_shortages(request: GpuRequest, view: NodeView, share: ShareRequest) -> Iterator[Reason]:
    """All reasons why there is too little room, the most lasting first."""
    shareable = {
        model: tuple(device for device in devices if device.share and device.share.slots)
        for model, devices in view.all_by_model.get(names.GPU_RESOURCE, {}).items()
    }
    shareable = matching(shareable, request.selector)
    yield from _unsuitable(request, view, share, shareable)
    healthy = {model: tuple(one for one in of if one.is_healthy) for model, of in shareable.items()}
    if not place(request, _empty(healthy)):
        yield unhealthy(request)
    if request.hold:
        yield _withheld_share(request.hold, request, view)
    now = {model: tuple((one, view.room(one)) for one in of) for model, of in healthy.items()}
    if not place(request, now):
        if place(request, _of_any_mode(now)):
            yield SHARE_MODE
        yield NO_SLOTS if place(request, _with_slots(now)) else share_in_use(request)
    if view.on_hold and not place(request, rooms(request, replace(view, nominated=()))):
        yield ON_HOLD
    if view.nominated and not place(request, rooms(request, view)):
        yield NOMINATED
    yield UNACCOUNTED


def _unsuitable(
    request: GpuRequest, view: NodeView, share: ShareRequest, shareable: ByModel
) -> Iterator[Reason]:
    """Why the node's GPUs would not do even if nobody had any of them."""
    everything, selector = view.all_by_model.get(names.GPU_RESOURCE, {}), request.selector.text
    matching_gpus = matching_count(everything, request)
    if sum(map(len, everything.values())) < share.width:
        yield TOO_MANY
    if not matching_gpus:
        yield reasons.NO_SUCH.reason(selector)
    if matching_gpus < share.width:
        yield reasons.TOO_MANY_SUCH.reason(selector)
    if largest_set(everything, request) < share.width:
        yield reasons.MIXED_MODELS.reason(selector)
    if largest_set(shareable, request) < share.width:
        yield NO_SLOTS
    if not place(request, _of_any_mode(_empty(shareable))):
        yield reasons.SHARE_TOO_LARGE.reason(f"{share.text}{selector}")
    if not place(request, _empty(shareable)):
        yield SHARE_MODE


def _empty(devices: ByModel) -> Rooms:
    return {model: tuple((one, NO_USE.room_on(one)) for one in of) for model, of in devices.items()}


def share_in_use(request: GpuRequest) -> Reason:
    """The node has GPUs that are large enough, but others hold too much of them."""
    text = request.share.text if request.share else ""
    return reasons.SHARE_IN_USE.reason(f"{text}{request.selector.text}")


def _withheld_share(hold: Hold, request: GpuRequest, view: NodeView) -> Reason:
    devices = {device.uuid: device for device in view.devices}
    if not set(hold.devices) <= devices.keys():
        return HELD_MISMATCH
    if not all(devices[uuid].is_healthy for uuid in hold.devices):
        return HELD_UNHEALTHY
    if any(view.on_hold.get(uuid, request.uid) != request.uid for uuid in hold.devices):
        return ON_HOLD
    return HELD_NOT_FREE


def _of_any_mode(found: Rooms) -> Rooms:
    return _changed(found, lambda room: replace(room, modes=frozenset(MODES)))


def _with_slots(found: Rooms) -> Rooms:
    return _changed(found, lambda room: replace(room, slots=ENDLESS))


def _changed(found: Rooms, change: Callable[[Room], Room]) -> Rooms:
    return {model: tuple((device, change(room)) for device, room in of) for model, of in found.items()}
