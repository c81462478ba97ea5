"""GPUs that are held in shares, as decisions about evictions see them: free once all sharers are gone.

A unit is a set of such GPUs with all pods that have a share of any of them. Where pods share several GPUs
with one another, the units of each choice among these GPUs are alternatives: whoever leaves is counted once.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Final

from booking.eviction.holder import Holder
from booking.eviction.snapshot import Costs
from cluster.decide.eviction.victim_selection import Victim
from cluster.decide.ledger import Holding
from cluster.decide.ledger.amounts import ALL_COMPUTE
from cluster.objects.inventory import Device

MOST_TOGETHER: Final = 6
"""GPUs with common sharers of which every choice is an alternative; of more, each alone and all together."""
WHOLE: Final = 1000
"""Thousandths."""


@dataclass(frozen=True, slots=True)
class SharedDevices:
    """The shared devices of one model on one node, and who shares them."""

    of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """UUID -> uids of the pods that share it."""
    holders: Mapping[str, Holder] = field(default_factory=dict)
    """Uid -> pod; those that only the node's agent knows are missing."""

    def only(self, uuids: AbstractSet[str]) -> "SharedDevices":
        """The same for some of the devices only."""
        return SharedDevices({uuid: uids for uuid, uids in self.of.items() if uuid in uuids}, self.holders)

    @property
    def idle(self) -> int:
        """Devices whose sharers all leave."""
        return sum(
            all(uid in self.holders and self.holders[uid].leaves for uid in uids) for uids in self.of.values()
        )


@dataclass(frozen=True, slots=True)
class Freeable:
    """What can be had of the shared devices of a node."""

    leaving: tuple[str, ...] = ()
    outgoing: tuple[str, ...] = ()
    """Devices whose sharers all leave, or will be evicted for another reason."""
    outgoing_pods: frozenset[str] = frozenset()
    victims: tuple[Victim, ...] = ()
    """Units, each as its first pod with the others as its sharers."""


def freeable(
    shared: SharedDevices,
    costs: Costs,
    *,
    away: AbstractSet[str],
    outgoing: AbstractSet[str],
    excluded: AbstractSet[str],
) -> Freeable:
    """What can be had of the shared devices.

    Args:
        shared: the devices.
        costs: what evictions destroy.
        away: devices that are not available.
        outgoing: uids of pods that will be evicted for another reason.
        excluded: uids of pods that must not be evicted.
    """
    leaving: list[str] = []
    going: list[str] = []
    staying: dict[str, frozenset[str]] = {}
    for uuid, uids in sorted(shared.of.items()):
        holders = [shared.holders.get(uid) for uid in uids]
        stay = [one for one in holders if one is None or not (one.leaves or one.uid in outgoing)]
        if uuid in away or any(one is None or not one.evictable or one.uid in excluded for one in stay):
            continue
        if stay:
            staying[uuid] = frozenset(one.uid for one in stay if one)
        else:
            is_awaited = any(one and one.uid in outgoing and not one.leaves for one in holders)
            (going if is_awaited else leaving).append(uuid)
    pods = frozenset(uid for uuid in going for uid in shared.of[uuid]) & outgoing
    units = (unit for group in _together(staying) for unit in _units(group, staying))
    victims = tuple(_victim(devices, staying, shared, costs=costs, group=group) for devices, group in units)
    return Freeable(tuple(leaving), tuple(going), pods, victims)


def thousandths(parts: Iterable[Holding], devices: Mapping[str, Device]) -> int:
    """Thousandths of GPUs that a pod with these holdings has; 0 if it has no shares."""
    found, is_sharing = 0, False
    for part in parts:
        device = devices.get(part.device)
        if part.mode is None or device is None:
            found += WHOLE
            continue
        is_sharing = True
        offered = max(1, device.share.memory if device.share else device.memory)
        found += max(1, WHOLE * part.memory // offered, WHOLE * part.compute // ALL_COMPUTE)
    return found if is_sharing else 0


def _together(staying: Mapping[str, frozenset[str]]) -> list[tuple[str, ...]]:
    """The devices in groups: those with common sharers, directly or by others, are in one."""
    groups: list[tuple[tuple[str, ...], frozenset[str]]] = []
    for uuid, uids in staying.items():
        near = [group for group in groups if group[1] & uids]
        groups = [group for group in groups if not group[1] & uids]
        devices = tuple(sorted({uuid, *(one for group in near for one in group[0])}))
        groups.append((devices, uids.union(*(group[1] for group in near))))
    return [devices for devices, _ in groups]


def _units(
    group: tuple[str, ...], staying: Mapping[str, frozenset[str]]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """(devices, name of the group) of each unit; a single device needs no name."""
    if len(group) == 1:
        yield group, ""
        return
    sizes = range(1, len(group) + 1) if len(group) <= MOST_TOGETHER else (1, len(group))
    seen: set[frozenset[str]] = set()
    for size in reversed(sizes):
        for devices in combinations(group, size):
            uids = frozenset[str]().union(*(staying[uuid] for uuid in devices))
            if uids not in seen:  # the same pods free more devices
                seen.add(uids)
                yield devices, group[0]


def _victim(
    devices: tuple[str, ...],
    staying: Mapping[str, frozenset[str]],
    shared: SharedDevices,
    *,
    costs: Costs,
    group: str,
) -> Victim:
    uids = sorted(frozenset[str]().union(*(staying[uuid] for uuid in devices)))
    first, *others = (costs.victim(shared.holders[uid], ()) for uid in uids)
    return replace(first, devices=devices, sharers=tuple(others), group=group)
