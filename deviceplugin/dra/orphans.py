"""Claims whose end was lost: without a device for the API server, and unknown to the kubelet.

Only then is their device free.
"""

from pathlib import Path
from typing import Final

from cluster.kube.errors import ApiError, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import RESOURCE_CLAIMS
from cluster.objects.claims import ResourceClaim
from deviceplugin.dra.prepared import PreparedClaim, PreparedFile
from deviceplugin.kubelet.claim_users import NAME

PATIENCE: Final = 5.0
"""Seconds for the API server."""


def orphans(
    file: PreparedFile, kubelet_state: Path, kube: Kube, *, driver: str, node: str
) -> list[PreparedClaim]:
    """Those among the prepared claims; one that the API server is silent about is none.

    A claim that a user has made outlives its pods. It has no device here once it is allocated nowhere, or
    with devices of other drivers or nodes.

    Raises:
        OSError: the kubelet's own record of claims cannot be read.
        PreparedError: ours cannot.
    """
    claims = tuple(file.read().values())
    # After our own record: the kubelet writes a claim down before it calls.
    known = known_to_kubelet(kubelet_state)
    pool = (driver, node)
    return [claim for claim in claims if claim.uid not in known and _is_gone(claim, kube, pool)]


def known_to_kubelet(kubelet_state: Path) -> str:
    """The kubelet's own record, in which the uid of each claim is that it has or is about to prepare.

    Raises:
        OSError: it cannot be read.
    """
    return (kubelet_state / NAME).read_text()


def claim_of(kube: Kube, namespace: str, name: str) -> ResourceClaim | None:
    """The claim as the API server has it; None if it has none of that name.

    Raises:
        ApiError: it does not say.
    """
    try:
        claim: ResourceClaim = kube.get(RESOURCE_CLAIMS, name, namespace=namespace, within=PATIENCE)
    except NotFound:
        return None
    return claim


def has_devices(claim: ResourceClaim, pool: tuple[str, str]) -> bool:
    """Whether a claim is allocated devices of a driver and pool, more than to look at them."""
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation else ()
    return any((one.driver, one.pool) == pool and not one.admin_access for one in results)


def _is_gone(claim: PreparedClaim, kube: Kube, pool: tuple[str, str]) -> bool:
    try:
        there = claim_of(kube, claim.namespace, claim.name)
    except ApiError:
        return False
    return there is None or there.metadata.uid != claim.uid or not has_devices(there, pool)
