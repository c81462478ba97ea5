"""The kubelet's checkpoint of its devices: ``device-plugins/kubelet_internal_checkpoint``.

Used while a pod is admitted (``allocator``, ``allocation.held_elsewhere``), before a container starts
(``prestart``) and by the comparison with our annotations (``drift``). Reading it has no side effect on the
kubelet.

Source: kubelet 1.37.1, cm/devicemanager/checkpoint: ``{"Data": {"PodDeviceEntries": [{"PodUID",
"ContainerName", "ResourceName", "DeviceIDs": {"<NUMA node or -1>": [ids]}, "AllocResp"}],
"RegisteredDevices"}, "Checksum"}``. An entry is written before the next container or pod is admitted. Entries
of pods that have ended stay until the kubelet next allocates.
"""

from pathlib import Path
from typing import Protocol

import msgspec

from cluster import names
from cluster.objects.meta import ready
from deviceplugin.allocation.pod_devices import PodDevices

NAME = "kubelet_internal_checkpoint"


class CheckpointError(ValueError):
    """A checkpoint in an unknown form: another kubelet version, or a damaged file."""


class _Entry(
    msgspec.Struct, rename={"uid": "PodUID", "container": "ContainerName", "resource": "ResourceName"}
):
    uid: str
    container: str
    resource: str
    devices: dict[str, list[str] | None] | None = msgspec.field(name="DeviceIDs", default=None)


class _Data(msgspec.Struct):
    entries: list[_Entry] | None = msgspec.field(name="PodDeviceEntries")
    registered: dict[str, list[str] | None] | None = msgspec.field(name="RegisteredDevices", default=None)


@ready
class _File(msgspec.Struct):
    data: _Data = msgspec.field(name="Data")


def decode(content: bytes, resource: str) -> PodDevices:
    """The devices of one resource in a checkpoint's bytes, and separately those of other GPU resources.

    Raises:
        CheckpointError: the form is unknown.
    """
    entries = _decoded(content).entries or []
    found: dict[str, dict[tuple[str, str], frozenset[str]]] = {resource: {}}
    for entry in entries:
        if entry.resource == resource or names.is_gpu_resource(entry.resource):
            found.setdefault(entry.resource, {})[entry.uid, entry.container] = frozenset(
                device for ids in (entry.devices or {}).values() for device in ids or ()
            )
    return PodDevices(found.pop(resource), found)


def registered(content: bytes) -> dict[str, frozenset[str]]:
    """Resource -> ids of the healthy devices that a plugin has registered, for each GPU resource with any.

    Raises:
        CheckpointError: the form is unknown.
    """
    known = _decoded(content).registered or {}
    return {
        name: frozenset(ids) for name, ids in known.items() if ids and name.startswith(names.NVIDIA_PREFIX)
    }


def _decoded(content: bytes) -> _Data:
    try:
        return msgspec.json.decode(content, type=_File).data
    except msgspec.MsgspecError as error:
        raise CheckpointError(
            f"The kubelet's checkpoint has a form that this version does not know: {error}."
        ) from error


class CheckpointFile:
    """The checkpoint on disk."""

    def __init__(self, folder: Path, resource: str) -> None:
        self._path = folder / NAME
        self._resource = resource

    def read(self) -> PodDevices:
        """The present record; empty if the kubelet has never written a checkpoint.

        Raises:
            CheckpointError: its form is unknown, or it cannot be read.
        """
        content = self._content()
        return decode(content, self._resource) if content else PodDevices()

    def registered(self) -> dict[str, frozenset[str]]:
        """Resource -> ids of the healthy devices that a plugin has registered; NVIDIA's resources only.

        Raises:
            CheckpointError: its form is unknown, or it cannot be read.
        """
        content = self._content()
        return registered(content) if content else {}

    def _content(self) -> bytes | None:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CheckpointError(f"The kubelet's checkpoint cannot be read: {error}.") from error


class CheckpointReader(Protocol):
    """The interface of ``checkpoint.CheckpointFile``."""

    def read(self) -> PodDevices:
        """The kubelet's checkpoint now; raises CheckpointError."""
        ...
