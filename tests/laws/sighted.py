"""L1 of claims by a node's device nodes in containers, its agent's record, its kubelet's checkpoint. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

from deviceplugin.dra.prepared import PreparedClaim
from tests.laws.claim_states import Believed

Seen = Mapping[str, frozenset[str]]
"""Name of a device in the ResourceSlices -> uids of the pods with it."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What is seen on a node: by the kernel before the files are read, in the files, and afterwards."""

    before: Seen
    record: Mapping[str, PreparedClaim]
    """Uid of a claim -> what our agent has prepared."""
    believed: Mapping[str, Believed]
    """Uid of a claim -> what the kubelet believes to be prepared."""
    after: Seen
    sizes: Mapping[str, int]
    """Device -> MiB."""
    is_by_claims: bool = True
    """Whether nothing but claims gives devices there."""


def wrongs(look: Look) -> Iterator[str]:
    """What must not be, a sentence each.

    Pods that have a device before and after the files were read have had it all the while: the kubelet writes
    what is prepared before a container starts, and forgets it after it has ended.
    """
    amounts = _amounts(look.record.values())
    yield from _overfull(amounts, look)
    for device, pods in look.before.items():
        both = pods & look.after.get(device, frozenset())
        claims = {pod: _claims_of(pod, device, look.believed) for pod in both}
        if look.is_by_claims and both and device not in amounts:
            yield f"{device} is in pod {min(both)}, and not prepared."
        for pod in sorted(claims):
            if look.is_by_claims and not claims[pod]:
                yield f"{device} is in pod {pod}, and the kubelet has prepared it for none of its claims."
        if len(both) > 1 and not _may_share(claims.values(), amounts.get(device, {})):
            yield f"{device} is in pods {' and '.join(sorted(both))}."


def _claims_of(pod: str, device: str, believed: Mapping[str, Believed]) -> frozenset[str]:
    return frozenset(uid for uid, one in believed.items() if pod in one.pods and device in one.devices)


def _may_share(claims: Iterable[frozenset[str]], shares: Mapping[str, int]) -> bool:
    """Whether pods may have a device together: by one claim, or each by a share of it."""
    found = list(claims)
    is_of_one = bool(reduce(frozenset.intersection, found))
    return is_of_one or all(of_pod and all(map(shares.get, of_pod)) for of_pod in found)


def _amounts(record: Iterable[PreparedClaim]) -> Mapping[str, Mapping[str, int]]:
    """Device -> uid of a claim -> MiB that it has of the device; 0: all of it."""
    found: dict[str, dict[str, int]] = {}
    for claim in record:
        for one in claim.devices:
            if not one.is_admin:
                there = found.setdefault(one.device, {})
                there[claim.uid] = there.get(claim.uid, 0) + one.memory
    return found


def _overfull(amounts: Mapping[str, Mapping[str, int]], look: Look) -> Iterator[str]:
    for device, of_claims in amounts.items():
        keys = " and ".join(sorted(look.record[uid].key for uid in of_claims))
        given = sum(of_claims.values())
        if len(of_claims) > 1 and not all(of_claims.values()):
            yield f"{device} is prepared for {keys}, and one of them has all of it."
        elif given > look.sizes.get(device, given):
            yield f"{given} MiB of {device} are prepared for {keys}, which has {look.sizes[device]}."
