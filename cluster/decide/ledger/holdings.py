"""The devices that one pod holds, read from the pod and corrected by what its node reports."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from sys import intern
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec.structs import replace

from cluster import names
from cluster.decide.ledger.amounts import Holding
from cluster.objects.assignment import Assignment, devices_of, readable_assignment_of
from cluster.objects.claims import ClaimedDevice
from cluster.objects.demand import demanded
from cluster.objects.inventory import Device, possible_resources, resource_of
from cluster.objects.pods import Pod, container_needs, is_terminal
from cluster.objects.quantity import QuantityError
from cluster.objects.reservation_pods import Reservation, reservation_of
from cluster.objects.share_request import DEFAULT_MODE, ShareRequest, Slot, share_request_of, slots_of

NOTHING: Final[Mapping[str, int]] = MappingProxyType({})
NO_SLOTS: Final[Mapping[str, tuple[Slot, ...]]] = MappingProxyType({})


class PodHoldings(msgspec.Struct, frozen=True, gc=False):
    """Everything that a pod holds on a node."""

    uid: str
    node: str
    devices: Mapping[str, Holding]
    """UUID -> what it has of that device."""
    requested: Mapping[str, int] = NOTHING
    """Resource -> number of requested devices; empty if an agent or an assumed bind names the devices."""
    unknown: Mapping[str, int] = NOTHING
    """Resource -> number of devices that the pod holds and whose UUIDs are unknown."""
    share: ShareRequest | None = None
    """The shares that it asks for; None if it asks for whole devices only."""
    slots: Mapping[str, tuple[Slot, ...]] = NO_SLOTS
    """UUID -> its slots there: how large they are depends on the device, too (``sized``)."""
    reservation: Reservation | None = None
    """What it reserves, if it is a reservation pod: it has no part of the GPU that others could miss."""
    known_as: str = ""
    """The uid by which the kubelet and the node's agent know it: a static pod's differs from its mirror's."""
    claimed: tuple[ClaimedDevice, ...] = ()
    """What it has by claims: names, which the node's inventory resolves."""
    users: tuple[str, ...] | None = None
    """For a claim that no known pod has: uids of the pods that it is reserved for. None for a pod."""

    @property
    def has_shares(self) -> bool:
        """Whether it has shares of devices: it asks for some, or has them by claims."""
        return self.share is not None or any(one.memory for one in self.claimed)


def holdings(pod: Pod, sources: Iterable["Source"]) -> PodHoldings | None:
    """What a pod holds by all sources together; None for a pod that holds nothing.

    Args:
        pod: any pod.
        sources: where a pod's devices are written; two of them never name the same device.
    """
    found: PodHoldings | None = None
    for source in sources:
        more = source(pod)
        if found is None or more is None:
            found = more or found
        else:
            found = replace(
                found,
                devices={**found.devices, **more.devices},
                share=found.share or more.share,
                slots={**found.slots, **more.slots},
                requested=Counter(found.requested) + Counter(more.requested),
                unknown=Counter(found.unknown) + Counter(more.unknown),
                claimed=(*found.claimed, *more.claimed),
            )
    return found


def assigned_devices(pod: Pod) -> PodHoldings | None:
    """What a bound, living pod holds by its annotation; None for a pod that holds nothing.

    A terminating pod still holds its devices. A pod that was bound without an assignment, or with one that
    cannot be read or names no device for its requests, holds as many unknown devices as it requests.
    """
    node = pod.spec.node_name
    if not node or is_terminal(pod):
        return None
    requested = _requested(pod)
    if not requested:
        return None
    uid, share = pod.metadata.uid, requested_shares(pod) if names.SHARED_RESOURCE in requested else None
    if assignment := readable_assignment_of(pod):
        return as_reservation(holding_with(uid, node, assignment, share, requested=requested), pod)
    known_as = pod.metadata.annotation(names.STATIC_POD) or uid
    return PodHoldings(
        uid=uid,
        node=node,
        devices={},
        requested=requested,
        unknown=requested,
        share=share,
        known_as=known_as,
    )


def claimed_devices(pod: Pod) -> PodHoldings | None:
    """What a bound, living pod has by its claims; None for a pod that has nothing by claims."""
    node = pod.spec.node_name
    if not node or is_terminal(pod) or pod.claims is None:
        return None
    there = tuple(one for one in pod.claims.held if one.node == node)
    return PodHoldings(pod.metadata.uid, node, devices={}, claimed=there) if there else None


Source = Callable[[Pod], PodHoldings | None]
"""Reads from a pod what it holds; None if it holds nothing by this source."""
SOURCES: Final[tuple[Source, ...]] = (assigned_devices, claimed_devices)


def on_known_devices(holding: PodHoldings, devices: Mapping[str, Device]) -> PodHoldings:
    """The holding, without assigned devices that the pod cannot have got for its request.

    Each requested device for which none of the node's devices is assigned counts as unknown.

    Args:
        holding: from the pod's own annotations.
        devices: UUID -> device, of the node.
    """
    if not holding.requested:
        return holding
    rest = dict(holding.requested)
    counted = {uuid for uuid in holding.devices if uuid not in devices}
    known = [devices[uuid] for uuid in holding.devices if uuid in devices]
    # Whole GPUs first: they can be requested under one name only, MIG devices under two.
    for device in sorted(known, key=lambda device: device.profile is not None):
        slots = len(holding.slots.get(device.uuid, ()))
        possible = (names.SHARED_RESOURCE,) if slots else possible_resources(device)
        resource = next((name for name in possible if rest.get(name)), None)
        if resource and not (slots and device.profile is not None):
            rest[resource] -= slots or 1
            counted.add(device.uuid)
    unknown = {resource: number for resource, number in rest.items() if number > 0}
    if len(counted) == len(holding.devices) and not unknown:
        return holding
    held = {uuid: part for uuid, part in holding.devices.items() if uuid in counted}
    slots_there = {uuid: slots for uuid, slots in holding.slots.items() if uuid in counted}
    return replace(holding, devices=held, slots=slots_there, unknown=unknown)


def as_reported(
    holding: PodHoldings, drift: Mapping[str, Assignment], devices: Mapping[str, Device]
) -> PodHoldings:
    """The holding as the node's agent reports it, if it reports anything about the pod.

    If the pod has no assignment, the devices that the agent has not reported by UUID yet stay unknown: the
    kubelet allocates for one container after the other.

    Args:
        holding: from the pod's own annotations.
        drift: the kubelet's uid of a pod -> what the agent reports.
        devices: UUID -> device, of the node.
    """
    report = drift.get(holding.known_as or holding.uid)
    if report is None:
        return holding
    known = holding_with(holding.uid, holding.node, report, holding.share)
    rest = Counter(holding.unknown)
    rest.subtract(
        resource_of(devices[uuid]) if uuid in devices else names.GPU_RESOURCE
        for uuid in known.devices
        if uuid not in known.slots
    )
    rest.subtract({names.SHARED_RESOURCE: sum(map(len, known.slots.values()))})
    return replace(known, unknown=dict(+rest), known_as=holding.known_as)


def holding_with(
    uid: str,
    node: str,
    assignment: Assignment,
    share: ShareRequest | None = None,
    *,
    requested: Mapping[str, int] = NOTHING,
) -> PodHoldings:
    """The holding of a pod that has these devices.

    Args:
        uid: the pod's.
        node: where it is.
        assignment: its devices.
        share: the shares that it asks for: its other containers have their devices whole.
        requested: resource -> number of devices that it requests.
    """
    if share is None:
        # Interned, as in the inventory: each UUID is kept once.
        devices = {uuid: Holding(uuid) for uuid in map(intern, sorted(devices_of(assignment)))}
        return PodHoldings(uid=uid, node=node, devices=devices, requested=requested)
    sharing = {need.name for need in share.needs}
    whole = devices_of({name: uuids for name, uuids in assignment.items() if name not in sharing})
    slots = {uuid: of for uuid, of in slots_of(share.needs, assignment).items() if uuid not in whole}
    held = {uuid: Holding(uuid) for uuid in whole} | {
        uuid: shared(uuid, of, share) for uuid, of in slots.items()
    }
    return PodHoldings(
        uid=uid,
        node=node,
        devices=dict(sorted(held.items())),
        requested=requested,
        share=share,
        slots=slots,
    )


def shared(uuid: str, slots: tuple[Slot, ...], share: ShareRequest, device: Device | None = None) -> Holding:
    """What slots on one device hold of it.

    Args:
        uuid: the device's.
        slots: the pod's slots there.
        share: what the pod asks for.
        device: the device; None if it is not known: then percentages of its memory count as nothing.
    """
    return Holding(
        uuid,
        memory=sum(slot.memory_on(device or Device(uuid)) for slot in slots),
        compute=sum(slot.cores for slot in slots),
        mode=share.mode or DEFAULT_MODE,
        slots=len(slots),
    )


def sized(holding: PodHoldings, devices: Mapping[str, Device]) -> PodHoldings:
    """The holding with its shares in MiB of the node's devices; a numbered one without amount is a turn."""
    if holding.share is None or not holding.slots:
        return holding
    share = holding.share
    parts: dict[str, Holding] = {}
    for uuid, slots in holding.slots.items():
        device = devices.get(uuid)
        is_whole = device is not None and device.numbered and not share.has_amount
        parts[uuid] = Holding(uuid) if is_whole else shared(uuid, slots, share, device)
    return replace(holding, devices={**holding.devices, **parts})


def as_reservation(holding: PodHoldings, pod: Pod) -> PodHoldings:
    """The holding of a pod; if that is a reservation pod, with a share of nothing in place of its GPU.

    So nobody can have the GPU whole, and others may have shares of all of it.
    """
    reservation = reservation_of(pod)
    if reservation is None:
        return holding
    parts = {uuid: Holding(uuid, mode=DEFAULT_MODE, slots=0) for uuid in holding.devices}
    return replace(holding, devices=parts, reservation=reservation)


def requested_shares(pod: Pod) -> ShareRequest | None:
    """The shares that a pod asks for; None if it asks for none, or they cannot be read."""
    try:
        return share_request_of(pod)
    except QuantityError:
        return None


def _requested(pod: Pod) -> Mapping[str, int]:
    try:
        needs = container_needs(pod)
        if pod.claims:
            needs = tuple(need for need in needs if need.resource != names.CLAIM_RESOURCE)
        return demanded(needs)
    except QuantityError:
        # The API server refuses such pods; if one exists anyway, it must not stop the ledger.
        return {}
