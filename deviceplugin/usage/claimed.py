"""What pods have by claims: which devices, how much of a shared one, and who has it together. Pure.

All pods of one claim have its share together, as much as it says and not as much each.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from deviceplugin.allocation.share_limits import Place

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ClaimedPart:
    """What a claim has of one device."""

    claim: str
    """Its uid."""
    device: str
    """UUID."""
    memory: int = 0
    """MiB of a share; 0 for all of the device."""
    pods: frozenset[str] = frozenset()
    """Uids of the pods that use the claim; none where that is not known."""


@dataclass(frozen=True, slots=True)
class ClaimedShares:
    """The shares of all claims of a node."""

    limits: dict[Place, int] = field(default_factory=dict)
    """(Device, pod) -> bytes that the pod may use there, all pods together that have the same claims."""
    together: dict[Place, frozenset[str]] = field(default_factory=dict)
    """(Device, pod) -> uids of those pods, itself among them; only where it is not alone."""


def claimed_shares(parts: Iterable[ClaimedPart]) -> ClaimedShares:
    """The shares by claims. Pods that have a claim in common, directly or by others, have theirs together."""
    found = ClaimedShares()
    by_device: dict[str, list[ClaimedPart]] = {}
    for part in parts:
        if part.memory and part.pods:
            by_device.setdefault(part.device, []).append(part)
    for device, here in by_device.items():
        for pods, memory in _groups(here):
            for uid in pods:
                found.limits[device, uid] = memory * _MIB
                if len(pods) > 1:
                    found.together[device, uid] = pods
    return found


def _groups(parts: Iterable[ClaimedPart]) -> list[tuple[frozenset[str], int]]:
    """(Pods, MiB) of each group of claims of one device that have pods in common."""
    groups: list[tuple[frozenset[str], int]] = []
    for part in parts:
        near = [group for group in groups if group[0] & part.pods]
        groups = [group for group in groups if not group[0] & part.pods]
        pods = part.pods.union(*(group[0] for group in near))
        groups.append((pods, part.memory + sum(group[1] for group in near)))
    return groups
