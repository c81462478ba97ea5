"""The kubelet's own record of devices: ``device-plugins/kubelet_internal_checkpoint``.

Used while a pod is admitted (``caller``, ``allocate``), before a container starts (``prestart``) and by the
comparison with our annotations (``drift``). Reading it has no side effect on the kubelet.

Source: kubelet 1.37.1, cm/devicemanager/checkpoint: ``{"Data": {"PodDeviceEntries": [{"PodUID",
"ContainerName", "ResourceName", "DeviceIDs": {"<NUMA node or -1>": [ids]}, "AllocResp"}],
"RegisteredDevices"}, "Checksum"}``. An entry is written before the next container or pod is admitted. Entries
of pods that have ended stay until the kubelet next allocates.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

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


class _File(msgspec.Struct):
    data: _Data = msgspec.field(name="Data")


@dataclass(frozen=True)
class Holdings:
    """Which container of which pod has which devices of one resource."""

    entries: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    """(pod uid, container name) -> device ids."""

    def has(self, uid: str, container: str) -> bool:
        """Whether the container has been served."""
        return (uid, container) in self.entries

    def of(self, uid: str) -> frozenset[str]:
        """Every device of a pod, whichever of its containers has it."""
        return frozenset[str]().union(*(ids for (holder, _), ids in self.entries.items() if holder == uid))

    def holders(self, devices: Iterable[str]) -> frozenset[str]:
        """Uids of the pods that have any of these devices."""
        wanted = frozenset(devices)
        return frozenset(uid for (uid, _), ids in self.entries.items() if ids & wanted)

    @property
    def devices(self) -> frozenset[str]:
        """All devices in the record."""
        return frozenset[str]().union(*self.entries.values())

    @property
    def uids(self) -> frozenset[str]:
        """Uids of all pods in the record, ended ones too."""
        return frozenset(uid for uid, _ in self.entries)


def decode(content: bytes, resource: str) -> Holdings:
    """The holdings of one resource in a checkpoint's bytes.

    Raises:
        CheckpointError: the form is unknown.
    """
    try:
        entries = msgspec.json.decode(content, type=_File).data.entries or []
    except msgspec.MsgspecError as error:
        raise CheckpointError(
            f"The kubelet's checkpoint has a form that this version does not know: {error}."
        ) from error
    return Holdings(
        {
            (entry.uid, entry.container): frozenset(
                device for ids in (entry.devices or {}).values() for device in ids or ()
            )
            for entry in entries
            if entry.resource == resource
        }
    )


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
