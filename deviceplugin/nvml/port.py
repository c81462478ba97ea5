"""What the node agent asks of NVML, and the errors it can get: the port behind which pynvml stands.

``real.RealNvml`` is the adapter for the driver, tests have a fake. Nobody but the watching thread
(``watch.py``) calls it: an implementation need not be safe for several threads, and a driver that hangs
stops that thread alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Protocol


class NvmlError(Exception):
    """NVML refused a call. ``code`` is NVML's, ``call`` its function, ``device`` the UUID or None."""

    def __init__(self, sentence: str, *, code: int, call: str, device: str | None = None) -> None:
        super().__init__(sentence)
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
class GpuFacts:
    """One physical GPU. ``pci`` is its name in sysfs, in lower case (``0000:07:00.0``); None = not said."""

    name: str
    pci: str
    minor: int | None
    memory_mib: int | None


@dataclass(frozen=True, slots=True)
class MigFacts:
    """One MIG device of a GPU, with its GPU instance and compute instance."""

    uuid: str
    profile: str
    gpu_instance: int
    compute_instance: int
    memory_mib: int


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
    def deaf(self) -> Mapping[str, NvmlError]:
        """GPUs whose events cannot be had, and why."""
        ...

    def wait(self, seconds: float) -> GpuEvent | None:
        """The next event, or None when the time is over.

        Raises:
            NvmlError: NVML cannot wait, at once: whoever repeats must pause.
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

    def mig(self, uuid: str) -> Sequence[MigFacts] | None:
        """The GPU's MIG devices; None where MIG is off or unknown to it."""
        ...

    def recovery_action(self, uuid: str) -> int:
        """What the driver asks for: 0 nothing (or it does not know the question), see ``health.py``."""
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
