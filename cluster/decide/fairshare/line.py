"""The waiting units of one model, kept in order by event: a pass reads only the heads."""

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from cluster.decide.fairshare.settings import Amount
from cluster.decide.fairshare.tenants import Tenant
from cluster.decide.fairshare.units import LineKey, Unit

Size = tuple[Hashable, Amount, tuple[Amount, ...]]
"""Kind, GPUs and members: units that are equal in these fit the same nodes."""


def size_of(unit: Unit) -> Size:
    """What decides whether a unit fits somewhere."""
    return (unit.kind, unit.gpus, unit.members)


class Line:
    """Feasible waiting units without a hold. Only these: an infeasible wish earns no lag and no share."""

    def __init__(self, units: Iterable[Unit] = ()) -> None:
        """Args: units: those that wait now."""
        self._units: dict[str, Unit] = {}
        self._of: dict[Tenant, dict[Size, list[LineKey]]] = {}
        self._wanted: dict[Tenant, Amount] = {}
        for unit in units:
            self.add(unit)

    def __len__(self) -> int:
        """The number of waiting units."""
        return len(self._units)

    def __contains__(self, uid: str) -> bool:
        """Whether a unit waits."""
        return uid in self._units

    def __iter__(self) -> Iterator[Unit]:
        """All units, in no order that means anything."""
        return iter(self._units.values())

    @property
    def wanted(self) -> Mapping[Tenant, Amount]:
        """GPUs of all units of each tenant that has any."""
        return self._wanted

    @property
    def largest(self) -> Mapping[Tenant, Amount]:
        """GPUs of the largest unit of each tenant that has any."""
        return {tenant: max(size[1] for size in sizes) for tenant, sizes in self._of.items()}

    @property
    def tenants(self) -> Mapping[Tenant, Mapping[Size, list[LineKey]]]:
        """Tenant -> its sizes -> the units of that size in order, by their keys. For reading only."""
        return self._of

    def unit(self, uid: str) -> Unit:
        """A waiting unit. Raises: KeyError: none of this uid waits."""
        return self._units[uid]

    def add(self, unit: Unit) -> None:
        """A unit begins to wait, or is different now."""
        if self._units.get(unit.uid) == unit:
            return
        self.remove(unit.uid)
        self._units[unit.uid] = unit
        insort(self._of.setdefault(unit.tenant, {}).setdefault(size_of(unit), []), unit.key)
        self._wanted[unit.tenant] = self._wanted.get(unit.tenant, 0) + unit.gpus

    def remove(self, uid: str) -> None:
        """A unit waits no more: it started, has a hold, or is gone."""
        unit = self._units.pop(uid, None)
        if unit is None:
            return
        sizes, size = self._of[unit.tenant], size_of(unit)
        keys = sizes[size]
        del keys[bisect_left(keys, unit.key)]
        if not keys:
            del sizes[size]
        self._wanted[unit.tenant] -= unit.gpus
        if not sizes:
            del self._of[unit.tenant], self._wanted[unit.tenant]

    def firsts(self, tenant: Tenant, without: AbstractSet[str] = frozenset()) -> list[Unit]:
        """The first unit of each size of a tenant, in order, as if ``without`` (uids) did not wait."""
        heads = (
            next((key for key in keys if key[2] not in without), None)
            for keys in self._of.get(tenant, {}).values()
        )
        return [self._units[uid] for _, _, uid in sorted(filter(None, heads))]
