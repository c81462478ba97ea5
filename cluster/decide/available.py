"""Which devices of a node a pod may be given now: free devices, or the devices of its hold and nothing else.

``predicates`` and ``placement`` build on it, so that filter accepts a node for the devices that are chosen
there.
"""

from collections.abc import Iterable, Iterator

from cluster.decide.ledger import NodeView
from cluster.decide.ledger.view import ByModel
from cluster.decide.request import GpuRequest
from cluster.objects.device_selector import DeviceSelector
from cluster.objects.inventory import Device
from cluster.objects.share_request import ShareRequest


def available(request: GpuRequest, view: NodeView, resource: str) -> ByModel:
    """Model -> devices of a resource that the pod may be given, whatever it requests of them.

    A reservation pod may also be given a GPU of which pods have shares whose reservation pod is gone.
    A pod with a hold is offered the devices of its hold: all of them, or none while one is unhealthy, held by
    another pod, or kept for an older hold.
    """
    hold = request.hold
    if request.reserves:
        free = view.free_by_model.get(resource, {})
        return {model: (*free.get(model, ()), *view.orphaned.get(model, ())) for model in free}
    if hold is None:
        free = view.free_by_model.get(resource, {})
        return _without(free, reserved(request, view, resource)) if view.nominated else free
    if hold.node != view.name:
        return {}
    ours = {uuid for uuid in hold.devices if view.on_hold.get(uuid, request.uid) == request.uid}
    found = {
        model: tuple(device for device in devices if device.uuid in ours)
        for model, devices in view.unheld_by_model.get(resource, {}).items()
    }
    return found if sum(map(len, found.values())) == len(set(hold.devices)) else {}


def shares_on(request: GpuRequest, view: NodeView) -> ShareRequest | None:
    """The shares that the pod would have on the node; None if it would have whole devices there, if any.

    What it asks for by a claim is a share only where claims give devices in shares.

    Replicas of another device plugin may have the name of our slots. Without an amount one of them is all
    that the pod asks for, and it is given like a GPU; with an amount none will do: nobody would count it.
    """
    share = request.share
    if share is None or (view.is_numbered and not share.has_amount):
        return None
    return share if request.is_by_claims is view.shares_by_claims else None


def matching(groups: ByModel, selector: DeviceSelector) -> ByModel:
    """Model -> the devices that the pod accepts; models without any are left out."""
    if selector.is_by_model:
        return {model: found for model, found in groups.items() if found and selector.takes(found[0])}
    kept = ((model, tuple(filter(selector.takes, found))) for model, found in groups.items())
    return {model: found for model, found in kept if found}


def matching_count(groups: ByModel, request: GpuRequest) -> int:
    """The number of devices that the pod accepts."""
    return sum(_wanted(groups, request))


def largest_set(groups: ByModel, request: GpuRequest) -> int:
    """How many of the devices the pod could have at one time: of one model, unless it mixes models."""
    found = _wanted(groups, request)
    return sum(found) if request.mixes else max(found, default=0)


def _wanted(groups: ByModel, request: GpuRequest) -> Iterator[int]:
    """For each model, the number of devices that the pod accepts."""
    selector = request.selector
    is_by_model = selector.is_by_model
    for found in groups.values():
        if not is_by_model:
            yield sum(map(selector.takes, found))
        elif found and selector.takes(found[0]):
            yield len(found)


def reserved(request: GpuRequest, view: NodeView, resource: str) -> frozenset[str]:
    """Free devices that are meant for pods of the same or higher priority, which the scheduler has nominated.

    As many as these pods can have of the free devices; if there is a choice, those that leave the most for
    this pod. This is a matching that grows by augmenting paths: a pod that has a device may change it, but
    never loses it.
    """
    ahead = [one for one in view.nominated if one.uid != request.uid and one.priority >= request.priority]
    if not ahead:
        return frozenset()
    free = [device for found in view.free_by_model.get(resource, {}).values() for device in found]
    takers = [one.selector for one in ahead for _ in range(min(one.demand.get(resource, 0), len(free)))]
    theirs = len(takers)
    takers += [request.selector] * min(request.demand.get(resource, 0), len(free))
    matching = _Matching(free, takers)
    for taker in range(len(takers)):
        matching.serve(taker)
    return frozenset(uuid for uuid, taker in matching.served.items() if taker < theirs)


class _Matching:
    """Which taker has which device."""

    def __init__(self, free: list[Device], takers: list[DeviceSelector]) -> None:
        self._free = free
        self._takers = takers
        self.served: dict[str, int] = {}
        """UUID -> number of its taker."""

    def serve(self, taker: int, tried: set[str] | None = None) -> bool:
        """Find a device for the taker, moving others to another device if necessary; False without one."""
        tried = set() if tried is None else tried
        for device in self._free:
            if device.uuid in tried or not self._takers[taker].takes(device):
                continue
            tried.add(device.uuid)
            holder = self.served.get(device.uuid)
            if holder is None or self.serve(holder, tried):
                self.served[device.uuid] = taker
                return True
        return False


def _without(groups: ByModel, gone: Iterable[str]) -> ByModel:
    away = frozenset(gone)
    return {model: tuple(d for d in found if d.uuid not in away) for model, found in groups.items()}
