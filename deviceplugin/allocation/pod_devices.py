"""Which devices each pod has, as the kubelet's checkpoint records them (its word: pod devices). Pure."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

Entries = Mapping[tuple[str, str], frozenset[str]]
"""(pod uid, container name) -> device ids."""


@dataclass(frozen=True)
class PodDevices:
    """The devices of one resource that each container of each pod holds, and those of other resources."""

    entries: Entries = field(default_factory=dict)
    """(pod uid, container name) -> device ids."""
    others: Mapping[str, Entries] = field(default_factory=dict)
    """Other GPU resource -> its entries. A pod holds a device under whichever resource it got it."""

    def has(self, uid: str, container: str) -> bool:
        """Whether the container has devices of the resource."""
        return (uid, container) in self.entries

    def of(self, uid: str) -> frozenset[str]:
        """Every device of a pod, in any of its containers."""
        return self.of_any({uid})

    def of_any(self, uids: AbstractSet[str]) -> frozenset[str]:
        """Every device of these pods."""
        return frozenset[str]().union(*(ids for (holder, _), ids in self._all() if holder in uids))

    def holders(self, devices: Iterable[str]) -> frozenset[str]:
        """Uids of the pods that have any of these devices."""
        wanted = frozenset(devices)
        return frozenset(uid for (uid, _), ids in self._all() if ids & wanted)

    @property
    def devices(self) -> frozenset[str]:
        """All devices in the record."""
        return frozenset[str]().union(*(ids for _, ids in self._all()))

    @property
    def uids(self) -> frozenset[str]:
        """Uids of all pods in the record, ended ones too."""
        return frozenset(uid for (uid, _), _ in self._all())

    @property
    def of_containers(self) -> Entries:
        """All devices of each container, of every resource."""
        merged: dict[tuple[str, str], frozenset[str]] = {}
        for place, ids in self._all():
            merged[place] = merged.get(place, frozenset()) | ids
        return merged

    def of_pods(self, uids: AbstractSet[str]) -> "PodDevices":
        """The part of the record about these pods."""

        def theirs(entries: Entries) -> Entries:
            return {place: ids for place, ids in entries.items() if place[0] in uids}

        return PodDevices(
            theirs(self.entries), {name: theirs(entries) for name, entries in self.others.items()}
        )

    def by_resource(self, resource: str) -> dict[str, frozenset[str]]:
        """Resource -> devices recorded under it; ``resource`` is this record's. None without devices."""
        everything = {resource: self.entries, **self.others}
        return {name: frozenset().union(*entries.values()) for name, entries in everything.items() if entries}

    def _all(self) -> Iterator[tuple[tuple[str, str], frozenset[str]]]:
        yield from self.entries.items()
        for entries in self.others.values():
            yield from entries.items()
