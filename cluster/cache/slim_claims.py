"""A ResourceClaim with what the cache reads of it, and no more: there may be tens of thousands.

What many claims have in common is kept once: what they ask for, and the names of nodes and devices.
"""

from functools import lru_cache
from sys import intern

import msgspec
from msgspec.structs import replace

from cluster.decide.claims.requested import tolerated
from cluster.objects.claims import (
    AllocatedDevices,
    Allocation,
    ClaimSpec,
    ClaimStatus,
    Consumer,
    DeviceRequest,
    ExactRequest,
    RequestedDevices,
    ResourceClaim,
)
from cluster.objects.meta import Meta, Owner

NO_STATUS = ClaimStatus()


def slim(claim: ResourceClaim) -> ResourceClaim:
    """The claim with the same answers to all that the cache and decisions ask about it."""
    meta = claim.metadata
    uids = {one.uid: one.uid for one in meta.owner_references or ()}
    owners, mark = tuple(Owner(uid=uid) for uid in uids) or None, tolerated(claim)
    return ResourceClaim(
        metadata=Meta(
            name=meta.name,
            namespace=intern(meta.namespace),
            uid=meta.uid,
            resource_version=meta.resource_version,
            owner_references=owners,
        ),
        spec=_shared(msgspec.json.encode(_unmarked(claim.spec))),
        status=_status(claim.status, uids),
        mark=uids.get(mark, mark),
    )


def _unmarked(spec: ClaimSpec) -> ClaimSpec:
    """What is asked for, without tolerations: ours has another value in each claim."""
    requests = tuple(
        DeviceRequest(
            name=one.name,
            exactly=_bare(one.exactly) if one.exactly else None,
            first_available=tuple(replace(way, tolerations=()) for way in one.first_available),
        )
        for one in spec.devices.requests
    )
    return ClaimSpec(devices=RequestedDevices(given=requests, constraints=spec.devices.constraints))


def _bare(way: ExactRequest) -> ExactRequest:
    return replace(way, tolerations=())


@lru_cache(maxsize=4096)
def _shared(text: bytes) -> ClaimSpec:
    return msgspec.json.decode(text, type=ClaimSpec)


def _status(status: ClaimStatus, uids: dict[str, str]) -> ClaimStatus:
    allocation = status.allocation
    users = tuple(
        Consumer(uid=uids.get(one.uid, one.uid), resource=intern(one.resource)) for one in status.reserved_for
    )
    if allocation is None:
        return ClaimStatus(reserved_for=users) if users else NO_STATUS
    results = tuple(
        replace(
            one,
            request="",
            share_id=None,
            driver=intern(one.driver),
            pool=intern(one.pool),
            device=intern(one.device),
        )
        for one in allocation.devices.results
    )
    return ClaimStatus(allocation=Allocation(devices=AllocatedDevices(results=results)), reserved_for=users)
