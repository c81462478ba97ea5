"""Whether a pod with shares fits on a node that takes pods, and if not, why. ``predicates`` asks it."""

from collections.abc import Iterator
from dataclasses import replace

from cluster import names
from cluster.decide import reasons
from cluster.decide.available import largest_set, matching_count
from cluster.decide.ledger import NodeView
from cluster.decide.reasons import Reason
from cluster.decide.request import GpuRequest
from cluster.decide.share_fit import fits
from cluster.decide.shares import lacks_slots, place, rooms, with_opened
from cluster.objects.hold import Hold
from cluster.objects.share_request import ShareRequest


def share_rejection(request: GpuRequest, view: NodeView, share: ShareRequest) -> Reason | None:
    """Why a pod with shares does not fit on an open node; None if it does."""
    if len(request.demand) > 1:
        return reasons.SHARE_BESIDE_WHOLE.reason()
    if not view.opens and lacks_slots(request, view.empty_offer.rooms):
        return reasons.NO_SLOTS.reason()
    # An unknown share may be of any GPU: until the node's agent says of which, no room is known.
    if not view.unknown.get(names.SHARED_RESOURCE) and _has_room(request, view):
        return None
    if view.opens and (why := _not_open(request, view, share)):
        return why
    return next(_share_shortages(request, view, share))


def _not_open(request: GpuRequest, view: NodeView, share: ShareRequest) -> Reason | None:
    """Why GPUs that can be opened do not do; None where that is not the point."""
    if request.hold is None and place(request, with_opened(rooms(request, view), view.openable.rooms)):
        return reasons.SHARE_UNOPENED.reason(f"{share.text}{request.selector.text}")
    if fits(request, view.emptied) and not fits(request, view.healthy_offer):
        return share_in_use(request)
    return None


def _has_room(request: GpuRequest, view: NodeView) -> bool:
    unknown = view.unknown.get(request.resource, 0)
    if request.is_by_claims and request.is_confined and not request.hold and _may_go_astray(request, view):
        return False
    if request.hold or view.nominated or unknown or request.is_confined:
        return place(request, rooms(request, view), spare=unknown) is not None
    return fits(request, view.unreserved_offer)


def _may_go_astray(request: GpuRequest, view: NodeView) -> bool:
    """Whether kube-scheduler may give its claim a device that bookings do not allow: a hold comes first."""
    return any(
        not request.may_share(device.uuid) and place(alone, {device.model: ((device, room),)}) is not None
        for alone in (replace(request, only=None, never=frozenset()),)
        for found in view.unreserved_offer.rooms.values()
        for device, room in found
        if request.selector.takes(device)
    )


def _share_shortages(request: GpuRequest, view: NodeView, share: ShareRequest) -> Iterator[Reason]:
    """All reasons why there is too little room, the most lasting first."""
    if not fits(request, view.healthy_offer):
        yield from _unsuitable(request, view, share)
    if request.hold:
        yield _withheld_share(request.hold, request, view)
    if not fits(request, view.offer):
        if fits(request, view.offer, any_mode=True):
            yield reasons.SHARE_MODE.reason()
        yield (
            reasons.NO_SLOTS.reason() if fits(request, view.offer, any_slots=True) else share_in_use(request)
        )
    if view.on_hold and not fits(request, view.unreserved_offer):
        yield reasons.ON_HOLD.reason()
    if view.nominated and not place(request, rooms(request, view)):
        yield reasons.NOMINATED.reason()
    if request.is_confined and (request.is_by_claims or not place(request, rooms(request, view))):
        yield reasons.SHARED_BY_BOOKINGS.reason()
    yield reasons.UNACCOUNTED.reason()


def _unsuitable(request: GpuRequest, view: NodeView, share: ShareRequest) -> Iterator[Reason]:
    """Why the node's healthy GPUs do not do, even if nobody had any of them."""
    everything, selector = view.all_by_model.get(request.resource, {}), request.selector.text
    matching_gpus = matching_count(everything, request)
    late = view.withheld and largest_set(everything, request) >= share.width
    if late and (view.closed or fits(request, view.empty_offer)):
        yield reasons.OWNER_WAITS.reason()
    if sum(map(len, everything.values())) < share.width:
        yield reasons.TOO_MANY.reason()
    if not matching_gpus:
        yield reasons.NO_SUCH.reason(selector)
    if matching_gpus < share.width:
        yield reasons.TOO_MANY_SUCH.reason(selector)
    if largest_set(everything, request) < share.width:
        yield reasons.MIXED_MODELS.reason(selector)
    if largest_set(view.shareable_by_model, request) < share.width:
        yield reasons.NO_SLOTS.reason()
    if not fits(request, view.empty_offer, any_mode=True):
        yield reasons.SHARE_TOO_LARGE.reason(f"{share.text}{selector}")
    if not fits(request, view.empty_offer):
        yield reasons.SHARE_MODE.reason()
    yield reasons.UNHEALTHY.reason(selector)


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
