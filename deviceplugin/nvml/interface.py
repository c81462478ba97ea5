"""What the node agent asks of NVML, and the errors it can get: the port behind which pynvml stands.

``real.RealNvml`` is the adapter for the driver, tests have a fake. Nobody but the watching thread
(``watch.py``) calls it: an implementation need not be safe for several threads, and a driver that hangs
stops that thread alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Final, Protocol


class NvmlError(Exception):
    """NVML refused a call. ``code`` is NVML's, ``call`` its function, ``device`` the UUID or None."""

    def __init__(self, message: str, *, code: int, call: str, device: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.call = call
        self.device = device


class LibraryMissingError(NvmlError):
    """There is no ``libnvidia-ml.so.1`` where the loader, or the setting, looks."""


class DriverMissingError(NvmlError):
    """The library is there, but the kernel has no NVIDIA driver loaded."""


class GpuLostError(NvmlError):
    """The GPU does not answer any more: it has fallen off the bus."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Of the driver that answers."""

    driver: str
    """``580.159.04``."""
    cuda: tuple[int, int] | None
    """The newest CUDA that it can run; None = not said."""


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One physical GPU. ``pci`` is its name in sysfs, in lower case (``0000:07:00.0``); None = not said."""

    name: str
    pci: str
    minor: int | None
    memory_mib: int | None
    compute: tuple[int, int] | None = None
    """Compute capability, ``(9, 0)``."""
    can_mig: bool = False
    """Whether it could be cut into MIG devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigShape:
    """How much of its GPU a MIG device has."""

    processors: int = 0
    """Streaming multiprocessors."""
    gpu_slices: int = 0
    compute_slices: int = 0
    copy_engines: int = 0
    decoders: int = 0
    encoders: int = 0
    jpeg_engines: int = 0
    ofa_engines: int = 0
    """For optical flow."""


@dataclass(frozen=True, slots=True)
class MigFacts:
    """One MIG device of a GPU, with its GPU instance and compute instance."""

    uuid: str
    profile: str
    gpu_instance: int
    compute_instance: int
    memory_mib: int
    shape: MigShape = field(default_factory=MigShape)


@dataclass(frozen=True, slots=True)
class RemappedRows:
    """Memory rows that were replaced by spare ones; a card that cannot do that has none."""

    pending: bool = False
    """Some are replaced at the next reset; until then what is damaged is not used."""
    failed: bool = False
    """Some could not be replaced: there are no spare ones left."""


UNTOUCHED: Final = RemappedRows()
"""No row was ever replaced."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process with a context on a GPU; instances are None where it is on the whole GPU."""

    pid: int
    """In the PID namespace of whoever asks: from another one than the node's NVML lists none."""
    memory: int | None
    """Bytes; None where the driver does not say."""
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUsage:
    """How a GPU is used at this moment; None = it does not say (one in MIG mode knows no utilisation)."""

    utilisation: int | None = None
    """Percent of the time in which something ran on it, over the driver's last period (a second or less)."""
    memory_activity: int | None = None
    """Percent of the time in which its memory was read or written."""
    memory_used: int | None = None
    """Bytes that programs hold; what the driver keeps for itself is not among them where it says so."""
    memory_total: int | None = None
    temperature: int | None = None
    """Degrees Celsius."""
    power: float | None = None
    """Watts."""
    processes: Sequence[GpuProcess] = ()
    parts: Mapping[str, int] = field(default_factory=dict)
    """MIG device -> bytes used."""


class EventKind(IntFlag):
    """The event types that we register: a bit each, as NVML numbers them.

    Registering all that a GPU supports would flood: clock changes come at every boost step (seen on an H200).
    """

    DOUBLE_BIT_ECC = 0x2
    XID = 0x8
    MIG_CHANGED = 0x100
    UNAVAILABLE = 0x4000
    RECOVERY_ACTION = 0x8000


@dataclass(frozen=True, slots=True)
class GpuEvent:
    """Something that happened to a GPU. Instances are None where it concerns the whole GPU."""

    gpu: str
    kind: EventKind
    data: int
    gpu_instance: int | None = None
    compute_instance: int | None = None


class EventStream(Protocol):
    """Events of the GPUs it was made for, from the moment it was made."""

    @property
    def events_unavailable(self) -> Mapping[str, NvmlError]:
        """GPUs whose events cannot be had, and why."""
        ...

    def wait(self, seconds: float) -> GpuEvent | None:
        """The next event, or None when the time is over.

        Raises:
            NvmlError: NVML cannot wait, at once: whoever repeats must pause.
        """
        ...

    def rebound(self) -> bool:
        """Whether a GPU was bound to the driver or taken from it since this was asked last. Never raises.

        Drivers that do not tell are asked in vain: what has changed is seen when NVML is initialised anew.
        """
        ...

    def close(self) -> None:
        """Give the events up. Never raises."""
        ...


class Nvml(Protocol):
    """NVML between ``open`` and ``close``. Every call may raise NvmlError.

    The number of GPUs is frozen by ``open``: new ones are seen after ``close`` and ``open``.
    """

    def open(self) -> None:
        """Load the library and initialise it.

        Raises:
            LibraryMissingError: no library.
            DriverMissingError: no driver.
            NvmlError: the driver refuses.
        """
        ...

    def close(self) -> None:
        """Shut down; nothing happens when it is not open. Never raises."""
        ...

    def driver_version(self) -> str:
        """The version of the kernel driver, ``580.159.04``."""
        ...

    def cuda_version(self) -> tuple[int, int] | None:
        """The newest CUDA that the driver can run, ``(13, 0)``."""
        ...

    def count(self) -> int:
        """How many physical GPUs there were when it was opened."""
        ...

    def uuid(self, index: int) -> str:
        """The UUID of the GPU with this index; all other calls name GPUs by it."""
        ...

    def facts(self, uuid: str) -> GpuFacts:
        """What does not change while the GPU lives."""
        ...

    def links(self, uuid: str) -> Sequence[str]:
        """The PCI address (as in ``GpuFacts``) at the other end of every active NVLink."""
        ...

    def topology_level(self, uuid: str, other: str) -> int | None:
        """NVML's number for the way between two GPUs on the PCI bus (``links.scores``); 0 is the shortest."""
        ...

    def mig(self, uuid: str) -> Sequence[MigFacts] | None:
        """The GPU's MIG devices; None where MIG is off or unknown to it."""
        ...

    def recovery_action(self, uuid: str) -> int:
        """What the driver asks for: 0 nothing (or it does not know the question), see ``health.py``."""
        ...

    def rows(self, uuid: str) -> RemappedRows:
        """How its replaced memory rows stand."""
        ...

    def load(self, uuid: str, parts: Sequence[str]) -> GpuUsage:
        """How it is used now, and so each of its MIG devices ``parts``."""
        ...

    def touch(self, uuid: str) -> None:
        """Ask what only a GPU that is there can answer; every driver knows the question.

        Raises:
            GpuLostError: it is lost.
        """
        ...

    def events(self, uuids: Sequence[str]) -> EventStream:
        """Register with these GPUs for the kinds of ``EventKind`` that they support."""
        ...
