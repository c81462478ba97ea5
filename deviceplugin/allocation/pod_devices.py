"""The devices of each pod, as the kubelet's checkpoint records them ("pod devices"). Pure."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from cluster.objects.slots import is_slot, physical

Entries = Mapping[tuple[str, str], frozenset[str]]
"""(pod uid, container name) -> device ids."""


def excluded(wanted: AbstractSet[str], held: AbstractSet[str]) -> frozenset[str]:
    """The wanted ids that nobody else can have while the others are held (law L1).

    The same ids, a GPU of which a slot is held, and the slots of a GPU that is held whole.
    """
    shared = {physical(device) for device in held if is_slot(device)}
    return frozenset(
        device for device in wanted if device in held or device in shared or physical(device) in held
    )


@dataclass(frozen=True)
class PodDevices:
    """The devices of one resource that each container of each pod holds, and those of other resources."""

    entries: Entries = field(default_factory=dict)
    """(pod uid, container name) -> device ids; slots for the resource of shares."""
    others: Mapping[str, Entries] = field(default_factory=dict)
    """Other GPU resource -> its entries. A pod holds a device under the resource under which it got it."""

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
        """Uids of the pods that have any of these devices, or to which one of them cannot be given besides.

        See ``excluded``.
        """
        wanted = frozenset(devices)
        return frozenset(uid for (uid, _), ids in self._all() if excluded(wanted, ids))

    @property
    def devices(self) -> frozenset[str]:
        """All devices in the checkpoint."""
        return frozenset[str]().union(*(ids for _, ids in self._all()))

    @property
    def uids(self) -> frozenset[str]:
        """Uids of all pods in the checkpoint, ended ones too."""
        return frozenset(uid for (uid, _), _ in self._all())

    @property
    def of_containers(self) -> Entries:
        """UUIDs of all devices of each container, of every resource; for a slot, that of its GPU."""
        merged: dict[tuple[str, str], frozenset[str]] = {}
        for container, ids in self._all():
            merged[container] = merged.get(container, frozenset()) | frozenset(map(physical, ids))
        return merged

    @property
    def slots_of_containers(self) -> Entries:
        """The slots of shared GPUs that each container has."""
        found = ((place, frozenset(filter(is_slot, ids))) for place, ids in self._all())
        return {place: slots for place, slots in found if slots}

    def of_pods(self, uids: AbstractSet[str]) -> "PodDevices":
        """The part of the checkpoint about these pods."""

        def theirs(entries: Entries) -> Entries:
            return {(uid, container): ids for (uid, container), ids in entries.items() if uid in uids}

        return PodDevices(
            theirs(self.entries), {name: theirs(entries) for name, entries in self.others.items()}
        )

    def by_resource(self, resource: str) -> dict[str, frozenset[str]]:
        """Resource -> its ids in the checkpoint, if any; ``resource`` is that of ``entries``."""
        everything = {resource: self.entries, **self.others}
        return {name: frozenset().union(*entries.values()) for name, entries in everything.items() if entries}

    def _all(self) -> Iterator[tuple[tuple[str, str], frozenset[str]]]:
        yield from self.entries.items()
        for entries in self.others.values():
            yield from entries.items()
