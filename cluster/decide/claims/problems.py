"""Why it is not known which devices a pod's claims would take: then nobody leaves for them (law L3). Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cluster.decide.claims.configuration import NONE_REFUSED, NOTHING_REFUSED, Refusals, refused
from cluster.decide.claims.terms import Accepted, Terms
from cluster.objects.claim_shares import requested_memory
from cluster.objects.claims import ExactRequest, Refused, ResourceClaim
from cluster.objects.inventory import MIG_UUID

MODES = frozenset({"ExactCount", "All"})
MOST: Final = 32
"""Devices of one claim: kube-scheduler gives nothing to one that needs more. Source: Kubernetes 1.37."""
TOO_MANY: Final = f"Its claim asks for more than {MOST} devices, and Kubernetes gives no claim so many"


@dataclass(frozen=True, slots=True)
class Way:
    """A way in which a request can be met by our devices."""

    asks: ExactRequest
    terms: Terms
    refusals: Refusals = NOTHING_REFUSED
    is_named: bool = True
    """Whether its expressions name our driver: else devices of others may do, too."""

    @property
    def is_all(self) -> bool:
        """Whether it takes every device of a node that would do."""
        return self.asks.allocation_mode == "All"

    @property
    def memory(self) -> int:
        """MiB of each device, where devices are given in shares; 0 for whole ones."""
        return requested_memory(self.asks.capacity)

    @property
    def count(self) -> int:
        """Devices; at least 1 where it takes all of a node."""
        return 1 if self.is_all else self.asks.count


@dataclass(frozen=True, slots=True)
class Request:
    """A request for our devices."""

    ways: tuple[Way, ...]
    """In the order in which they are tried on a node."""
    others: int = 0
    """Number of its alternatives that are not for our devices."""

    @property
    def least(self) -> int:
        """The fewest devices that will do."""
        return min(way.count for way in self.ways)

    @property
    def refused(self) -> Refused:
        """Why our driver would refuse what is configured for it, by the kind of device."""
        return refused([way.refusals for way in self.ways])


def refusal_of(
    requests: Sequence[Request], judge: Callable[[Terms], Accepted], *, largest: int
) -> str | None:
    """Why kube-scheduler gives no devices, or our driver would refuse those that may be chosen; or None.

    Args:
        requests: of a pod's claims that have no devices yet.
        judge: knows the devices that would do.
        largest: the fewest devices with which the largest of these claims will do.
    """
    if largest > MOST or any(all(_is_too_large(way, judge) for way in one.ways) for one in requests):
        return TOO_MANY
    for one in requests:
        if all(one.refused):
            return one.refused[0]
        for way in one.ways:
            if way.refusals.of_kind != NONE_REFUSED:
                kinds = {uuid.startswith(MIG_UUID) for uuid in judge(way.terms).uuids}
                if message := next((found for kind in kinds if (found := way.refusals.of_kind[kind])), None):
                    return message
    return None


def _is_too_large(way: Way, judge: Callable[[Terms], Accepted]) -> bool:
    return ((judge(way.terms).each or 0) if way.is_all else way.count) > MOST


def problem_of(
    claims: Sequence[ResourceClaim], requests: Sequence[Request], *, missing: int, are_marked: bool
) -> str | None:
    """Why it is not known which devices would do, a clause; None if it is.

    Args:
        claims: the pod's, for our devices.
        requests: their requests that have no devices yet.
        missing: how many of the pod's claims do not exist.
        are_marked: whether all claims have, or will have, our toleration.
    """
    return next(_problems(claims, requests, missing=missing, are_marked=are_marked), None)


def _problems(
    claims: Sequence[ResourceClaim], requests: Sequence[Request], *, missing: int, are_marked: bool
) -> Iterator[str]:
    ways = [way for one in requests for way in one.ways]
    are_several, is_all = len(requests) > 1, any(way.is_all for way in ways)
    if missing:
        yield "a claim of it does not exist yet"
    if not all(way.is_named for way in ways):
        yield "its claims and their DeviceClasses name no driver, so devices of others may do, too"
    if any(one.others for one in requests):
        yield "its claim has alternatives of another driver"
    if are_several and any(len(one.ways) > 1 for one in requests):
        yield "its claims ask for more than what has alternatives"
    if are_several and len({way.terms for way in ways}) > 1:
        yield "its claims ask for devices in different ways"
    if not MODES.issuperset(way.asks.allocation_mode for way in ways):
        yield "its claim asks for devices in a mode that is not known here"
    if are_several and is_all:
        yield "its claims ask for all devices of a node, and for others"
    is_many = is_all or sum(max(way.count for way in one.ways) for one in requests) > 1
    if is_many and any(claim.spec.devices.constraints for claim in claims):
        yield "its claim has a constraint on several devices"
    if not are_marked:
        yield "its claims were not made under GPU Booking's webhook"
