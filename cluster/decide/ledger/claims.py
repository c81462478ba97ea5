"""Devices that are held by claims: named as in ResourceSlices, and by one holder for all pods of a claim."""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from cluster import names
from cluster.decide.claims.kept import KeptClaim
from cluster.decide.claims.requested import held_by
from cluster.decide.ledger.amounts import Holding
from cluster.decide.ledger.holdings import PodHoldings
from cluster.objects.inventory import Device


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
    parts = {
        devices[one.device].uuid: Holding(devices[one.device].uuid, claim=one.claim)
        for one in holding.claimed
        if one.device in devices
    }
    missing = sum(one.device not in devices for one in holding.claimed)
    unknown = Counter(holding.unknown) + Counter({names.CLAIM_RESOURCE: missing})
    return replace(holding, devices={**holding.devices, **parts}, unknown=dict(unknown))
