"""Whether a pod fits on a node, and if not, why.

The checks are in the order in which people care about them. ``reasons`` explains what a reason is, and why
its text never changes.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from cluster import names
from cluster.decide import reasons
from cluster.decide.available import available, largest_set, matching_count, shares_on
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.liveness import AgentState
from cluster.decide.reasons import Reason
from cluster.decide.request import GpuRequest
from cluster.decide.share_rejection import share_rejection
from cluster.objects.hold import Hold
from cluster.objects.inventory import MIG_UUID, Device, as_of_a_plugin, is_mixed, resource_of

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
KUBELET_CHOOSES: Final = reasons.KUBELET_CHOOSES.reason()
TOO_MANY: Final = reasons.TOO_MANY.reason()
ON_HOLD: Final = reasons.ON_HOLD.reason()
GIVEN_TWICE: Final = reasons.GIVEN_TWICE.reason()
WAITS_ITS_TURN: Final = reasons.WAITS_ITS_TURN.reason()
NOMINATED: Final = reasons.NOMINATED.reason()
BOOKED_BY_OTHERS: Final = reasons.BOOKED_BY_OTHERS.reason()
UNACCOUNTED: Final = reasons.UNACCOUNTED.reason()
RESERVED: Final = reasons.RESERVED.reason()
OWNER_WAITS: Final = reasons.OWNER_WAITS.reason()
HELD_UNHEALTHY: Final = reasons.HELD_UNHEALTHY.reason()
HELD_NOT_FREE: Final = reasons.HELD_NOT_FREE.reason()
SHARED_BY_BOOKINGS: Final = reasons.SHARED_BY_BOOKINGS.reason()
HELD_MISMATCH: Final = reasons.HELD_MISMATCH.reason()


def rejection(request: GpuRequest, view: NodeView, agent: AgentState) -> Reason | None:
    """Why the pod does not fit on the node; None if it does.

    Args:
        request: what the pod requests.
        view: the node.
        agent: the state of the node's agent.
    """
    if not request.demand:
        return None
    if request.hold and request.hold.node != view.name and not request.allocated_on:
        return elsewhere(request.hold)
    reason = closed(request, view, agent) or not_given(request, view)
    if reason or request.allocated_on:
        return reason or _refused_allocation(request, view)
    if share := shares_on(request, view):
        return share_rejection(request, view, share)
    for resource, needed in request.demand.items():
        # A held device that has not been identified may be any of the free ones.
        spare = largest_set(available(request, view, resource), request) - view.unknown.get(resource, 0)
        if spare < needed:
            late = waits_for_owner(request, view, resource, needed)
            return OWNER_WAITS if late else next(_shortages(request, view, resource, needed))
    return None


def closed(request: GpuRequest, view: NodeView, agent: AgentState) -> Reason | None:
    """Why the node takes no such pod at all, whatever is free there."""
    if view.is_cordoned and not request.tolerates_cordon:
        return CORDONED
    if view.fault:
        return reasons.UNREADABLE.reason(view.fault)
    if not view.published:
        return NOT_PUBLISHED
    if view.is_numbered and (chosen := _not_ours_to_choose(request, view)):
        return chosen
    return None if agent == "alive" else AGENT[agent]


def not_given(request: GpuRequest, view: NodeView) -> Reason | None:
    """Why the node's driver would refuse the devices, as they are configured; None if it would not.

    Where the node has whole GPUs and MIG devices it is not known which kind kube-scheduler chooses.
    """
    if not request.refused:
        return None
    if request.allocated_on:
        devices = [device for device in view.devices if device.claimed_as in request.allocated]
    else:
        groups = view.all_by_model.get(names.CLAIM_RESOURCE, {}).values()
        devices = [device for group in groups for device in group]
    kinds = {device.uuid.startswith(MIG_UUID) for device in devices}
    for one in request.refused:
        if kinds and all(one[kind] for kind in kinds):
            return reasons.NOT_GIVEN.reason(one[min(kinds)])
    return None


def _refused_allocation(request: GpuRequest, view: NodeView) -> Reason | None:
    """Why the pod may not be bound to the devices that its claims have there already."""
    mine = {device.uuid: device for device in view.devices if device.claimed_as in request.allocated}
    joined = (uuid for uuid, device in mine.items() if device.claimed_as in request.joined)
    if view.on_hold and any(view.on_hold.get(uuid, request.uid) != request.uid for uuid in joined):
        return ON_HOLD  # those with whom it shares the claim leave
    twice = (uuid for uuid in view.conflicts if uuid in mine and mine[uuid].claimed_as in request.spoiled)
    if request.spoiled and any(_has_a_pod_of_others(uuid, request, view) for uuid in twice):
        return GIVEN_TWICE
    is_allowed = request.share is None or not request.is_confined or all(map(request.may_share, mine))
    return None if is_allowed else SHARED_BY_BOOKINGS


def _has_a_pod_of_others(uuid: str, request: GpuRequest, view: NodeView) -> bool:
    """Whether a pod that is bound has the device, or is about to be, and not by a claim of this pod."""
    return any(
        uuid in each.devices and each.devices[uuid].claim not in request.claims
        for each in view.holdings
        if each.users is None and each.uid != request.uid
    )


def _not_ours_to_choose(request: GpuRequest, view: NodeView) -> Reason | None:
    """Why the pod cannot be sure of what it asks for where the kubelet chooses the GPUs itself."""
    if request.selector.names_devices and not request.reserves:
        return KUBELET_CHOOSES
    if view.opens and shares_on(request, view) and not request.sees_by_annotation:
        return reasons.SHARE_UNSEEN.reason()
    wanted = (device for device in view.devices if resource_of(device) in request.demand)
    if request.selector.names_models and any(map(is_mixed, wanted)):
        return reasons.ANY_OF_MIXED.reason(request.selector.text)
    return None


def elsewhere(hold: Hold) -> Reason:
    """The pod waits for devices of another node."""
    return reasons.ELSEWHERE.reason(hold.node)


def unhealthy(request: GpuRequest) -> Reason:
    """The node has enough GPUs for the pod, but too many of them are unhealthy."""
    return reasons.UNHEALTHY.reason(request.selector.text)


def waits_for_owner(request: GpuRequest, view: NodeView, resource: str, needed: int) -> bool:
    """Whether the node would have enough GPUs for the pod if it did not wait to change who gives them out.

    Those that claims give now can be requested of a device plugin then.
    """
    if not view.withheld or largest_set(view.healthy_by_model.get(resource, {}), request) >= needed:
        return False
    found: dict[str, tuple[Device, ...]] = {}
    for device in _given_later(view, resource):
        found[device.model] = (*found.get(device.model, ()), device)
    return largest_set(found, request) >= needed


def _given_later(view: NodeView, resource: str) -> Iterator[Device]:
    for groups in view.all_by_model.values():
        for device in (one for found in groups.values() for one in found):
            if not (device.is_healthy or device.uuid in view.withheld):
                continue
            if resource_of(device) == resource:
                yield device
            elif device.resource == names.CLAIM_RESOURCE:
                plain = as_of_a_plugin(device)
                if resource_of(plain) == resource:
                    yield plain


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
