"""The state that outlives the agent: faults that only a reset clears, in a file on the node.

The faults are valid for one *era*: one boot of the node and one load of the driver. The file also records the
MIG devices: a pod may hold one that is destroyed while no agent runs, and its device nodes then lead to the
next MIG device in that place. The file is next to the kubelet's checkpoint, and not on the Node object,
because an agent that starts while the API server is unreachable needs it, too.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import msgspec
import structlog

from cluster import names
from cluster.objects.inventory import Device
from cluster.objects.meta import Versioned, ready
from deviceplugin.nvml.health import Scope
from deviceplugin.nvml.inventory import NodeDevice

MOST_PARTS: Final = 512
"""Maximum number of MIG devices in the file: the existing ones, at most 112, and the latest that are gone."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Known:
    """The state that survives a restart: faults, orders carried out, MIG devices."""

    era: str = ""
    """Identifies the driver's run to which the faults belong; see ``FaultStore.era``."""
    faults: Mapping[Scope, str] = field(default_factory=dict)
    """Scope -> message."""
    orders_done: Mapping[str, str] = field(default_factory=dict)
    """GPU -> the last order to clear it that was carried out: it is still on the Node, and counts once."""
    parts: tuple[NodeDevice, ...] = ()
    """MIG devices that exist or existed, without their faults."""


class FaultStore(Protocol):
    """The store that ``watch`` uses."""

    def era(self, driver: str) -> str:
        """A key that changes with each boot of the node and each load of the driver (of this version)."""
        ...

    def recall(self) -> Known:
        """The state that was stored last."""
        ...

    def keep(self, known: Known) -> None:
        """Store this in place of the last state. Never raises."""
        ...


class NoFaultStore:
    """Stores nothing: every process begins with healthy GPUs."""

    def era(self, driver: str) -> str:
        """See ``FaultStore``."""
        return driver

    def recall(self) -> Known:
        """See ``FaultStore``."""
        return Known()

    def keep(self, known: Known) -> None:
        """See ``FaultStore``."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fault in the file: of a GPU, or of an instance of it."""

    gpu: str
    gpu_instance: int | None = None
    compute_instance: int | None = None
    reason: str


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One MIG device in the file."""

    device: Device
    pci: str
    minor: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None


@ready
class Faults(Versioned, frozen=True, kw_only=True):
    """Contents of the file, as JSON."""

    era: str
    faults: tuple[Fault, ...] = ()
    obeyed: dict[str, str] = msgspec.field(default_factory=dict)
    parts: tuple[Part, ...] = ()


class FaultFile:
    """A ``FaultStore`` in a file of the node."""

    def __init__(self, folder: Path, *, proc_root: Path, sys_root: Path) -> None:
        """Args: folder: of the file; proc_root, sys_root: with the kernel's boot id and modules."""
        # A starting kubelet removes the sockets in this folder, but no files.
        self._path = folder / names.FAULTS_FILE
        self._boot = proc_root / "sys/kernel/random/boot_id"
        self._module = sys_root / "module/nvidia"
        self._kept: Faults | None = None

    def era(self, driver: str) -> str:
        """See ``FaultStore``. The kernel gives the module's folder another inode at each load."""
        try:
            boot = self._boot.read_text(encoding="ascii").strip()
        except OSError:
            boot = "unknown"
        try:
            load = str(self._module.stat().st_ino)
        except OSError:
            load = "unknown"
        return f"{boot} {driver} {load}"

    def recall(self) -> Known:
        """See ``FaultStore``. A file that cannot be read is logged, and counts as missing."""
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=Faults)
        except FileNotFoundError:
            return Known()
        except (OSError, msgspec.MsgspecError) as error:
            log.warning(
                "the known GPU faults of this node could not be read", file=str(self._path), error=str(error)
            )
            return Known()
        self._kept = kept
        faults = {Scope(f.gpu, f.gpu_instance, f.compute_instance): f.reason for f in kept.faults}
        return Known(kept.era, faults, kept.obeyed, tuple(map(_recalled, kept.parts)))

    def keep(self, known: Known) -> None:
        """See ``FaultStore``. Writes only a changed state; a failed write is retried at the next call."""
        wanted = _filed(known)
        has_content = wanted.faults or wanted.obeyed or wanted.parts
        if wanted == self._kept or (self._kept is None and not has_content):
            return
        fresh = self._path.with_suffix(f".{os.getpid()}")
        try:
            fresh.write_bytes(msgspec.json.encode(wanted))
            fresh.replace(self._path)
        except OSError as error:
            log.warning(
                "the known GPU faults of this node could not be written",
                file=str(self._path),
                error=str(error),
            )
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
            return
        self._kept = wanted


def _filed(known: Known) -> Faults:
    faults = tuple(
        Fault(gpu=at.gpu, gpu_instance=at.gpu_instance, compute_instance=at.compute_instance, reason=reason)
        for at, reason in known.faults.items()
    )
    parts = tuple(map(_part, known.parts[:MOST_PARTS]))
    return Faults(era=known.era, faults=faults, obeyed=dict(known.orders_done), parts=parts)


def _part(device: NodeDevice) -> Part:
    return Part(
        device=msgspec.structs.replace(device.published, health="healthy", reason=None),
        pci=device.pci,
        minor=device.minor,
        gpu_instance=device.gpu_instance,
        compute_instance=device.compute_instance,
    )


def _recalled(part: Part) -> NodeDevice:
    return NodeDevice(
        published=part.device,
        minor=part.minor,
        pci=part.pci,
        gpu_instance=part.gpu_instance,
        compute_instance=part.compute_instance,
    )
