"""The interface of NVML as the node agent uses it, and its errors.

``real.RealNvml`` implements it with pynvml, tests have a fake. Only the watching thread (``watch.py``) calls
it: an implementation need not be thread-safe, and a driver that hangs blocks only that thread.
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
    """There is no ``libnvidia-ml.so.1`` on the loader's path, or none at the path of the setting."""


class DriverMissingError(NvmlError):
    """The library is there, but the kernel has no NVIDIA driver loaded."""


class GpuLostError(NvmlError):
    """The GPU no longer responds: it has fallen off the bus."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of the loaded driver and of its CUDA."""

    driver: str
    """The driver's version: ``580.159.04``."""
    cuda: tuple[int, int] | None
    """The newest CUDA that it can run; None: not reported."""


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One physical GPU. ``pci`` is its name in sysfs, lower case (``0000:07:00.0``); None: not reported."""

    name: str
    pci: str
    minor: int | None
    memory_mib: int | None
    reserved_mib: int = 0
    """Of its memory, what the driver keeps for itself; 0 if it is not reported."""
    compute: tuple[int, int] | None = None
    """Compute capability: ``(9, 0)``; None if it is not reported."""
    can_mig: bool = False
    """Whether it can be partitioned into MIG devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigShape:
    """How much of its GPU a MIG device has."""

    processors: int = 0
    """Number of streaming multiprocessors."""
    gpu_slices: int = 0
    compute_slices: int = 0
    copy_engines: int = 0
    decoders: int = 0
    encoders: int = 0
    jpeg_engines: int = 0
    ofa_engines: int = 0
    """Number of engines for optical flow."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Which slices of its GPU's memory a GPU instance has: ``size`` of them from ``start`` on."""

    start: int
    size: int

    @property
    def slices(self) -> range:
        """Their numbers."""
        return range(self.start, self.start + self.size)


@dataclass(frozen=True, slots=True)
class MigFacts:
    """One MIG device of a GPU, with its GPU instance and compute instance."""

    uuid: str
    profile: str
    gpu_instance: int
    compute_instance: int
    memory_mib: int
    shape: MigShape = field(default_factory=MigShape)
    placement: Placement | None = None
    """Of its GPU instance; None: not reported."""


@dataclass(frozen=True, slots=True)
class RemappedRows:
    """Whether damaged memory rows wait for their replacement; a card without spare rows has none."""

    pending: bool = False
    """Some are replaced at the next reset; until then the damaged ones are not used."""
    failed: bool = False
    """Some could not be replaced: no spare rows are left."""


UNTOUCHED: Final = RemappedRows()
"""For a GPU of which no row was ever replaced."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process with a context on a GPU; instances are None if it is on the whole GPU."""

    pid: int
    """In the caller's PID namespace. NVML lists processes only in the node's own namespace."""
    memory: int | None
    """Bytes; None if the driver does not report it."""
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUsage:
    """How a GPU is used at this moment; None: not reported (a GPU in MIG mode has no utilisation)."""

    utilisation: int | None = None
    """Percent of the time during which it was busy, in the driver's last period (a second or less)."""
    memory_activity: int | None = None
    """Percent of the time during which its memory was read or written."""
    memory_used: int | None = None
    """Bytes that programs hold, without the driver's own memory where NVML reports that separately."""
    memory_total: int | None = None
    temperature: int | None = None
    """Degrees Celsius; None if it is not reported."""
    power: float | None = None
    """Watts; None if it is not reported."""
    processes: Sequence[GpuProcess] = ()
    parts: Mapping[str, int] = field(default_factory=dict)
    """MIG device -> bytes used."""


class EventKind(IntFlag):
    """The event types that we register: one bit each, as NVML numbers them.

    Registering all that a GPU supports would flood us: clock changes come at every boost step (seen on an
    H200).
    """

    DOUBLE_BIT_ECC = 0x2
    XID = 0x8
    MIG_CHANGED = 0x100
    UNAVAILABLE = 0x4000
    RECOVERY_ACTION = 0x8000


@dataclass(frozen=True, slots=True)
class GpuEvent:
    """An event of a GPU. Instances are None if it concerns the whole GPU."""

    gpu: str
    kind: EventKind
    data: int
    gpu_instance: int | None = None
    compute_instance: int | None = None


class EventStream(Protocol):
    """Events of the GPUs that it was created for, from the moment of its creation."""

    @property
    def events_unavailable(self) -> Mapping[str, NvmlError]:
        """GPUs whose events are unavailable, and why."""
        ...

    def wait(self, seconds: float) -> GpuEvent | None:
        """The next event, or None when the time is over.

        Raises:
            NvmlError: NVML cannot wait. It is raised immediately: pause before the next attempt.
        """
        ...

    def rebound(self) -> bool:
        """Whether a GPU was bound to the driver or unbound from it since the last call. Never raises.

        Always False for drivers without such events: the next initialisation of NVML shows the change.
        """
        ...

    def close(self) -> None:
        """Unregister from the events. Never raises."""
        ...


class Nvml(Protocol):
    """NVML between ``open`` and ``close``. Every call may raise NvmlError.

    ``open`` fixes the number of GPUs: new ones are visible only after ``close`` and another ``open``.
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
        """Shut down; does nothing if it is not open. Never raises."""
        ...

    def driver_version(self) -> str:
        """The version of the kernel driver, ``580.159.04``."""
        ...

    def cuda_version(self) -> tuple[int, int] | None:
        """The newest CUDA that the driver can run, ``(13, 0)``."""
        ...

    def count(self) -> int:
        """The number of physical GPUs at the time of ``open``."""
        ...

    def uuid(self, index: int) -> str:
        """The UUID of the GPU with this index; all other calls name GPUs by it."""
        ...

    def facts(self, uuid: str) -> GpuFacts:
        """The properties that do not change while the driver has the GPU."""
        ...

    def links(self, uuid: str) -> Sequence[str]:
        """The PCI address (as in ``GpuFacts``) at the other end of every active NVLink."""
        ...

    def topology_level(self, uuid: str, other: str) -> int | None:
        """NVML's number for the path between two GPUs on the PCI bus (``link_scores``); 0 is the shortest."""
        ...

    def mig(self, uuid: str) -> Sequence[MigFacts] | None:
        """The GPU's MIG devices; None if MIG is off or not supported."""
        ...

    def recovery_action(self, uuid: str) -> int:
        """The action that the driver asks for (``health.RECOVERY_ACTIONS``); 0: none, or not supported."""
        ...

    def rows(self, uuid: str) -> RemappedRows:
        """The state of its replaced memory rows."""
        ...

    def usage(self, uuid: str, parts: Sequence[str]) -> GpuUsage:
        """How it is used now, with the memory of each of its MIG devices ``parts``."""
        ...

    def touch(self, uuid: str) -> None:
        """Make a call that succeeds only if the GPU is present; every driver supports it.

        Raises:
            GpuLostError: it is lost.
        """
        ...

    def events(self, uuids: Sequence[str]) -> EventStream:
        """Register with these GPUs for the kinds of ``EventKind`` that they support."""
        ...
