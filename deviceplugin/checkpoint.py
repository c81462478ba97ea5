"""The kubelet's own record of devices: ``device-plugins/kubelet_internal_checkpoint``.

Used while a pod is admitted (``caller``, ``allocate``), before a container starts (``prestart``) and by the
comparison with our annotations (``drift``). Reading it has no side effect on the kubelet.

Source: kubelet 1.37.1, cm/devicemanager/checkpoint: ``{"Data": {"PodDeviceEntries": [{"PodUID",
"ContainerName", "ResourceName", "DeviceIDs": {"<NUMA node or -1>": [ids]}, "AllocResp"}],
"RegisteredDevices"}, "Checksum"}``. An entry is written before the next container or pod is admitted. Entries
of pods that have ended stay until the kubelet next allocates.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from cluster import names
from cluster.objects.meta import ready

NAME = "kubelet_internal_checkpoint"


class CheckpointError(ValueError):
    """A checkpoint in a form that we do not know: another kubelet version, or a damaged file."""


class _Entry(
    msgspec.Struct, rename={"uid": "PodUID", "container": "ContainerName", "resource": "ResourceName"}
):
    uid: str
    container: str
    resource: str
    devices: dict[str, list[str] | None] | None = msgspec.field(name="DeviceIDs", default=None)


class _Data(msgspec.Struct):
    entries: list[_Entry] | None = msgspec.field(name="PodDeviceEntries")


@ready
class _File(msgspec.Struct):
    data: _Data = msgspec.field(name="Data")


Entries = Mapping[tuple[str, str], frozenset[str]]
"""(pod uid, container name) -> device ids."""


@dataclass(frozen=True)
class Holdings:
    """Which container of which pod has which devices of one resource, and what is held of the others."""

    entries: Entries = field(default_factory=dict)
    """(pod uid, container name) -> device ids."""
    others: Mapping[str, Entries] = field(default_factory=dict)
    """The same for every other resource of GPUs. A device that a pod has is its own, whatever it is
    called."""

    def has(self, uid: str, container: str) -> bool:
        """Whether the container has been served with devices of the resource."""
        return (uid, container) in self.entries

    def of(self, uid: str) -> frozenset[str]:
        """Every device of a pod, whichever of its containers has it."""
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
        """Everything that each container has, whatever it is called."""
        merged: dict[tuple[str, str], frozenset[str]] = {}
        for place, ids in self._all():
            merged[place] = merged.get(place, frozenset()) | ids
        return merged

    def of_pods(self, uids: AbstractSet[str]) -> "Holdings":
        """What these pods have."""

        def theirs(entries: Entries) -> Entries:
            return {place: ids for place, ids in entries.items() if place[0] in uids}

        return Holdings(
            theirs(self.entries), {name: theirs(entries) for name, entries in self.others.items()}
        )

    def by_resource(self, resource: str) -> dict[str, frozenset[str]]:
        """Resource -> devices that stand under it, the record being one of ``resource``; none without."""
        everything = {resource: self.entries, **self.others}
        return {name: frozenset().union(*entries.values()) for name, entries in everything.items() if entries}

    def _all(self) -> Iterator[tuple[tuple[str, str], frozenset[str]]]:
        yield from self.entries.items()
        for entries in self.others.values():
            yield from entries.items()


def decode(content: bytes, resource: str) -> Holdings:
    """The holdings of one resource in a checkpoint's bytes, and beside them those of other GPU resources.

    Raises:
        CheckpointError: the form is unknown.
    """
    try:
        entries = msgspec.json.decode(content, type=_File).data.entries or []
    except msgspec.MsgspecError as error:
        raise CheckpointError(
            f"The kubelet's checkpoint has a form that this version does not know: {error}."
        ) from error
    found: dict[str, dict[tuple[str, str], frozenset[str]]] = {resource: {}}
    for entry in entries:
        if entry.resource == resource or names.is_gpu_resource(entry.resource):
            found.setdefault(entry.resource, {})[entry.uid, entry.container] = frozenset(
                device for ids in (entry.devices or {}).values() for device in ids or ()
            )
    return Holdings(found.pop(resource), found)


class CheckpointFile:
    """The checkpoint on disk."""

    def __init__(self, folder: Path, resource: str) -> None:
        self._path = folder / NAME
        self._resource = resource

    def read(self) -> Holdings:
        """The holdings now; none while the kubelet has never written a checkpoint.

        Raises:
            CheckpointError: unknown form, or not readable.
        """
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return Holdings()
        except OSError as error:
            raise CheckpointError(f"The kubelet's checkpoint cannot be read: {error}.") from error
        return decode(content, self._resource)
