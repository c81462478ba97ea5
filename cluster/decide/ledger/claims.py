"""Devices that are held by claims: named as in ResourceSlices, and by one holder for all pods of a claim."""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from cluster import names
from cluster.decide.claims.kept import KeptClaim
from cluster.decide.claims.requested import held_by
from cluster.decide.ledger.amounts import Holding
from cluster.decide.ledger.holdings import PodHoldings
from cluster.objects.claims import ClaimedDevice
from cluster.objects.inventory import Device
from cluster.objects.share_request import DEFAULT_MODE


def claim_holding(claim: KeptClaim, driver: str) -> PodHoldings | None:
    """What an allocated claim holds, whether or not a pod has it; None for one that holds nothing of ours."""
    held = held_by(claim.whole, driver)
    if not held:
        return None
    return PodHoldings(claim.uid, held[0].node, devices={}, claimed=held, users=tuple(claim.users.split()))


def once_each(holdings: Iterable[PodHoldings]) -> tuple[PodHoldings, ...]:
    """The holdings, without those of claims that pods among them have."""
    holdings = tuple(holdings)
    had = {one.claim for each in holdings if each.users is None for one in each.claimed}
    return tuple(each for each in holdings if each.users is None or each.uid not in had)


def named(holding: PodHoldings, devices: Mapping[str, Device]) -> PodHoldings:
    """The holding with its claimed devices by UUID; those that the inventory does not name are unknown.

    Args:
        holding: of a pod or a claim.
        devices: name in the ResourceSlices -> device, of the node.
    """
    if not holding.claimed:
        return holding
    parts: dict[str, Holding] = {}
    for one in holding.claimed:
        if device := devices.get(one.device):
            part = _part(device.uuid, one)
            parts[device.uuid] = _both(parts[device.uuid], part) if device.uuid in parts else part
    missing = sum(one.device not in devices for one in holding.claimed)
    unknown = Counter(holding.unknown) + Counter({names.CLAIM_RESOURCE: missing})
    return replace(holding, devices={**holding.devices, **parts}, unknown=dict(unknown))


def _part(uuid: str, one: ClaimedDevice) -> Holding:
    """What a claim has of a device: a share in time slices, if it has a part of the memory."""
    if not one.memory:
        return Holding(uuid, claim=one.claim)
    return Holding(uuid, memory=one.memory, mode=DEFAULT_MODE, claim=one.claim)


def _both(one: Holding, other: Holding) -> Holding:
    """What a pod has of one device by two requests: by two claims, it is counted as its own."""
    if one.mode is None or other.mode is None:
        return other if one.mode else one
    claim = one.claim if one.claim == other.claim else ""
    return replace(one, memory=one.memory + other.memory, slots=one.slots + other.slots, claim=claim)
