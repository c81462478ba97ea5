"""Whether a pod with shares fits on a node that takes pods, and if not, why. ``predicates`` asks it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from cluster import names
from cluster.decide import reasons
from cluster.decide.available import largest_set, matching, matching_count
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.amounts import NO_USE, Room
from cluster.decide.ledger.view import ByModel
from cluster.decide.reasons import Reason
from cluster.decide.request import GpuRequest
from cluster.decide.shares import MODES, Rooms, fits_beside_others, place, rooms
from cluster.objects.hold import Hold
from cluster.objects.share_request import ShareRequest

ENDLESS: Final = 2**31
"""Slots."""


def share_rejection(request: GpuRequest, view: NodeView, share: ShareRequest) -> Reason | None:
    """Why a pod with shares does not fit on an open node; None if it does."""
    if len(request.demand) > 1:
        return reasons.SHARE_BESIDE_WHOLE.reason()
    unknown = view.unknown.get(names.GPU_RESOURCE, 0)
    # An unknown share may be of any GPU: until the node's agent says of which, no room is known.
    if not view.unknown.get(names.SHARED_RESOURCE) and (
        fits_beside_others(request, view) or place(request, rooms(request, view), spare=unknown)
    ):
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
        yield reasons.UNHEALTHY.reason(request.selector.text)
    if request.hold:
        yield _withheld_share(request.hold, request, view)
    now = {model: tuple((one, view.room(one)) for one in of) for model, of in healthy.items()}
    if not place(request, now):
        if place(request, _of_any_mode(now)):
            yield reasons.SHARE_MODE.reason()
        yield reasons.NO_SLOTS.reason() if place(request, _with_slots(now)) else share_in_use(request)
    if view.on_hold and not place(request, rooms(request, replace(view, nominated=()))):
        yield reasons.ON_HOLD.reason()
    if view.nominated and not place(request, rooms(request, view)):
        yield reasons.NOMINATED.reason()
    yield reasons.UNACCOUNTED.reason()


def _unsuitable(
    request: GpuRequest, view: NodeView, share: ShareRequest, shareable: ByModel
) -> Iterator[Reason]:
    """Why the node's GPUs would not do even if nobody had any of them."""
    everything, selector = view.all_by_model.get(names.GPU_RESOURCE, {}), request.selector.text
    matching_gpus = matching_count(everything, request)
    if sum(map(len, everything.values())) < share.width:
        yield reasons.TOO_MANY.reason()
    if not matching_gpus:
        yield reasons.NO_SUCH.reason(selector)
    if matching_gpus < share.width:
        yield reasons.TOO_MANY_SUCH.reason(selector)
    if largest_set(everything, request) < share.width:
        yield reasons.MIXED_MODELS.reason(selector)
    if largest_set(shareable, request) < share.width:
        yield reasons.NO_SLOTS.reason()
    if not place(request, _of_any_mode(_empty(shareable))):
        yield reasons.SHARE_TOO_LARGE.reason(f"{share.text}{selector}")
    if not place(request, _empty(shareable)):
        yield reasons.SHARE_MODE.reason()


def _empty(devices: ByModel) -> Rooms:
    return {model: tuple((one, NO_USE.room_on(one)) for one in of) for model, of in devices.items()}


def share_in_use(request: GpuRequest) -> Reason:
    """The node has GPUs that are large enough, but others hold too much of them."""
    text = request.share.text if request.share else ""
    return reasons.SHARE_IN_USE.reason(f"{text}{request.selector.text}")


def _withheld_share(hold: Hold, request: GpuRequest, view: NodeView) -> Reason:
    devices = {device.uuid: device for device in view.devices}
    if not set(hold.devices) <= devices.keys():
        return reasons.HELD_MISMATCH.reason()
    if not all(devices[uuid].is_healthy for uuid in hold.devices):
        return reasons.HELD_UNHEALTHY.reason()
    if any(view.on_hold.get(uuid, request.uid) != request.uid for uuid in hold.devices):
        return reasons.ON_HOLD.reason()
    return reasons.HELD_NOT_FREE.reason()


def _of_any_mode(found: Rooms) -> Rooms:
    return _changed(found, lambda room: replace(room, modes=frozenset(MODES)))


def _with_slots(found: Rooms) -> Rooms:
    return _changed(found, lambda room: replace(room, slots=ENDLESS))


def _changed(found: Rooms, change: Callable[[Room], Room]) -> Rooms:
    return {model: tuple((device, change(room)) for device, room in of) for model, of in found.items()}
