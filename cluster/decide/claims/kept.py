"""A ResourceClaim as caches keep it, with what decisions read of it: there may be tens of thousands.

What many claims have in common is kept once: what they ask for, and the names of nodes and devices. Several
values are one text or one tuple, since a small object of Python takes more memory than what is in it. Pure.
"""

from functools import lru_cache
from sys import intern
from typing import Final

import msgspec
from msgspec.structs import replace

from cluster.decide.claims.requested import tolerated
from cluster.objects.claim_shares import MEMORY, shared_memory
from cluster.objects.claims import (
    Allocated,
    AllocatedDevices,
    Allocation,
    ClaimSpec,
    ClaimStatus,
    Consumer,
    DeviceRequest,
    ResourceClaim,
)
from cluster.objects.meta import Meta, Owner, Partial

Result = tuple[str, str, str, bool, int]
"""Driver, device, pool if that is not the claim's, whether it is an administrator's access, and MiB of a
share (0: the whole device)."""
PODS: Final = "pods"


class KeptClaim(Partial, frozen=True):
    """What is kept of a claim. Uids in one text are separated by spaces."""

    uid: str
    version: str
    """Its resourceVersion."""
    owners: str = ""
    """Uids of its owners."""
    users: str = ""
    """Uids of the pods that it is reserved for."""
    spec: ClaimSpec = ClaimSpec()
    """Without tolerations."""
    mark: str = ""
    """What ``requested.tolerated`` says of it."""
    pool: str = ""
    """Of its first device."""
    results: tuple[Result, ...] | None = None
    """The devices that are allocated; None without an allocation."""

    @property
    def metadata(self) -> Meta:
        """Its uid and resourceVersion."""
        return Meta(uid=self.uid, resource_version=self.version)

    @property
    def whole(self) -> ResourceClaim:
        """A claim with the same answers to all that decisions ask about it."""
        owners = tuple(Owner(uid=uid) for uid in self.owners.split())
        users = tuple(Consumer(uid=uid, resource=PODS) for uid in self.users.split())
        meta = Meta(uid=self.uid, resource_version=self.version, owner_references=owners or None)
        status = ClaimStatus(allocation=self._allocation, reserved_for=users)
        return ResourceClaim(metadata=meta, spec=self.spec, status=status, mark=self.mark)

    @property
    def _allocation(self) -> Allocation | None:
        if self.results is None:
            return None
        results = tuple(
            Allocated(
                driver=driver,
                device=device,
                pool=pool or self.pool,
                admin_access=is_admin,
                consumed_capacity={MEMORY: f"{memory}Mi"} if memory else None,
            )
            for driver, device, pool, is_admin, memory in self.results
        )
        return Allocation(devices=AllocatedDevices(results=results))


def kept(claim: ResourceClaim) -> KeptClaim:
    """What is to be kept of a claim."""
    meta, allocation = claim.metadata, claim.status.allocation
    owners = " ".join(one.uid for one in meta.owner_references or ())
    users = " ".join(sorted(one.uid for one in claim.status.reserved_for if one.resource == PODS))
    mark = tolerated(claim)
    results = allocation.devices.results if allocation else ()
    pool = results[0].pool if results else ""
    found = tuple(
        (
            one.driver,
            one.device,
            one.pool if one.pool != pool else "",
            one.admin_access,
            shared_memory(claim, one),
        )
        for one in results
    )
    return KeptClaim(
        uid=meta.uid,
        version=meta.resource_version,
        owners=owners,
        users=owners if users == owners else users,
        spec=_shared_spec(msgspec.json.encode(_unmarked(claim.spec))),
        mark=owners if mark == owners else mark,
        pool=intern(pool),
        results=_shared_results(found) if allocation else None,
    )


def _unmarked(spec: ClaimSpec) -> ClaimSpec:
    """What is asked for, without tolerations: ours has another value in each claim."""
    requests = tuple(
        DeviceRequest(
            name=one.name,
            exactly=replace(one.exactly, tolerations=()) if one.exactly else None,
            first_available=tuple(replace(way, tolerations=()) for way in one.first_available),
        )
        for one in spec.devices.requests
    )
    return ClaimSpec(devices=replace(spec.devices, given=requests))


@lru_cache(maxsize=4096)
def _shared_spec(text: bytes) -> ClaimSpec:
    return msgspec.json.decode(text, type=ClaimSpec)


@lru_cache(maxsize=4096)
def _shared_results(results: tuple[Result, ...]) -> tuple[Result, ...]:
    return results
