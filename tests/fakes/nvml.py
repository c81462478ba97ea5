"""The NVML interface in memory, with a clock that moves only while its user waits.

``MemoryNvml.script`` holds what happens during each wait, in order; when it is used up, ``stop`` is set. So
the watching thread runs in the test's own thread, without time passing.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from deviceplugin.nvml.interface import (
    UNTOUCHED,
    DriverMissingError,
    EventKind,
    EventStream,
    GpuEvent,
    GpuFacts,
    GpuLostError,
    GpuUsage,
    LibraryMissingError,
    MigFacts,
    NvmlError,
    RemappedRows,
)

INVALID_ARGUMENT, NOT_FOUND, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, GPU_IS_LOST = 2, 6, 9, 12, 15
UNINITIALIZED = 1


@dataclass
class MemoryGpu:
    """One GPU: change its fields at will."""

    uuid: str
    facts: GpuFacts
    links: Sequence[str] = ()
    topology_levels: dict[str, int] = field(default_factory=dict)
    """Other GPU -> NVML's number for the way to it."""
    mig: Sequence[MigFacts] | None = None
    action: int = 0
    rows: RemappedRows = UNTOUCHED
    usage: GpuUsage = field(default_factory=GpuUsage)
    lost: bool = False
    broken: bool = False
    """Its facts cannot be read, though it answers."""
    old: bool = False
    """Its driver does not know the recovery action, whatever has happened to the GPU."""
    events_unavailable: bool = False
    """Its events cannot be had."""


def a_gpu(index: int, name: str = "NVIDIA A100-SXM4-80GB", memory_mib: int | None = 81920) -> MemoryGpu:
    """A healthy GPU at a place of the node."""
    facts = GpuFacts(name=name, pci=f"0000:{index + 7:02x}:00.0", minor=index, memory_mib=memory_mib)
    return MemoryGpu(uuid=f"GPU-{index}", facts=facts)


@dataclass
class MemoryNvml:
    """NVML over a list of GPUs. Also the clock of what runs on it."""

    gpus: list[MemoryGpu] = field(default_factory=list)
    fault: NvmlError | None = None
    """What ``open`` raises."""
    script: deque[Callable[[], GpuEvent | None]] = field(default_factory=deque)
    stop: threading.Event = field(default_factory=threading.Event)
    cuda: tuple[int, int] | None = (13, 0)
    waiting_fails: bool = False
    """No wait for events succeeds, though every GPU answers."""
    rebound: bool = False
    """A GPU was bound to the driver, or taken from it."""
    seconds: float = 0.0
    opened: int = 0
    open_streams: int = 0
    """Event streams that were not closed yet."""
    waits: int = 0
    _roster: list[MemoryGpu] | None = None

    # --- the interface --------------------------------------------------------------------------------

    def open(self) -> None:
        """Freeze the list of GPUs."""
        if self.fault is not None:
            raise self.fault
        self.opened += 1
        self._roster = list(self.gpus)

    def close(self) -> None:
        """Forget it."""
        self._roster = None

    @property
    def is_open(self) -> bool:
        """Whether it was opened and not closed since."""
        return self._roster is not None

    def driver_version(self) -> str:
        """As the surveyed card's."""
        self._frozen("nvmlSystemGetDriverVersion")
        return "580.159.04"

    def cuda_version(self) -> tuple[int, int] | None:
        """As the surveyed card's."""
        self._frozen("nvmlSystemGetCudaDriverVersion_v2")
        return self.cuda

    def count(self) -> int:
        """How many GPUs there were."""
        return len(self._frozen("nvmlDeviceGetCount"))

    def uuid(self, index: int) -> str:
        """The UUID, unless the GPU is lost."""
        roster = self._frozen("nvmlDeviceGetHandleByIndex")
        if index >= len(roster):
            raise NvmlError("Invalid Argument", code=INVALID_ARGUMENT, call="nvmlDeviceGetHandleByIndex")
        return self._answering(roster[index], "nvmlDeviceGetHandleByIndex").uuid

    def facts(self, uuid: str) -> GpuFacts:
        """What the GPU is."""
        gpu = self._gpu(uuid, "nvmlDeviceGetName")
        if gpu.broken:
            raise NvmlError("nvmlDeviceGetName answers Unknown Error", code=999, call="nvmlDeviceGetName")
        return gpu.facts

    def links(self, uuid: str) -> Sequence[str]:
        """Its NVLinks."""
        return self._gpu(uuid, "nvmlDeviceGetNvLinkState").links

    def topology_level(self, uuid: str, other: str) -> int | None:
        """NVML's number for the way between two GPUs."""
        self._gpu(other, "nvmlDeviceGetTopologyCommonAncestor")
        return self._gpu(uuid, "nvmlDeviceGetTopologyCommonAncestor").topology_levels.get(other)

    def mig(self, uuid: str) -> Sequence[MigFacts] | None:
        """Its MIG devices."""
        return self._gpu(uuid, "nvmlDeviceGetMigMode").mig

    def recovery_action(self, uuid: str) -> int:
        """What the driver asks for."""
        if any(gpu.old for gpu in self._frozen("nvmlDeviceGetFieldValues") if gpu.uuid == uuid):
            return 0
        return self._gpu(uuid, "nvmlDeviceGetFieldValues").action

    def rows(self, uuid: str) -> RemappedRows:
        """The state of its memory rows."""
        return self._gpu(uuid, "nvmlDeviceGetRemappedRows").rows

    def usage(self, uuid: str, parts: Sequence[str]) -> GpuUsage:
        """How it is used; of its MIG devices those that are asked for."""
        usage = self._gpu(uuid, "nvmlDeviceGetUtilizationRates").usage
        return replace(usage, parts={part: used for part, used in usage.parts.items() if part in parts})

    def touch(self, uuid: str) -> None:
        """Any question."""
        self._gpu(uuid, "nvmlDeviceGetMemoryInfo")

    def events(self, uuids: Sequence[str]) -> EventStream:
        """A stream that plays the script."""
        return _Stream(self, tuple(uuids))

    # --- the clock ------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """The virtual instant."""
        return datetime(2026, 11, 23, 9, 0, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        """Virtual seconds."""
        return self.seconds

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Let the next step of the script happen instead of waiting."""
        self.step(seconds)
        return event.is_set()

    def step(self, seconds: float) -> GpuEvent | None:
        """Time passes, and one step of the script happens."""
        self.seconds += seconds
        self.waits += 1
        if not self.script:
            self.stop.set()
            return None
        return self.script.popleft()()

    # --- inside ---------------------------------------------------------------------------------------

    def _frozen(self, call: str) -> list[MemoryGpu]:
        if self._roster is None:
            raise NvmlError("Uninitialized", code=UNINITIALIZED, call=call)
        return self._roster

    def _gpu(self, uuid: str, call: str) -> MemoryGpu:
        for gpu in self._frozen(call):
            if gpu.uuid == uuid:
                return self._answering(gpu, call)
        raise NvmlError("Not Found", code=NOT_FOUND, call=call, device=uuid)

    def _answering(self, gpu: MemoryGpu, call: str) -> MemoryGpu:
        if gpu.lost or gpu not in self.gpus:
            raise GpuLostError("The GPU is lost", code=GPU_IS_LOST, call=call, device=gpu.uuid)
        return gpu


class _Stream:
    """Events from the script; a lost GPU among those it was made for fails the wait at once."""

    def __init__(self, nvml: MemoryNvml, uuids: tuple[str, ...]) -> None:
        self._nvml = nvml
        self._uuids = uuids
        nvml.open_streams += 1
        self.events_unavailable: dict[str, NvmlError] = {
            gpu.uuid: NvmlError("No permission.", code=4, call="nvmlDeviceRegisterEvents", device=gpu.uuid)
            for gpu in nvml.gpus
            if gpu.events_unavailable and gpu.uuid in uuids
        }

    def wait(self, seconds: float) -> GpuEvent | None:
        """The next step's event."""
        if self._nvml.waiting_fails:
            raise NvmlError("Unknown Error", code=999, call="nvmlEventSetWait")
        for gpu in self._nvml.gpus:
            if gpu.uuid in self._uuids and gpu.lost:
                raise GpuLostError("The GPU is lost", code=GPU_IS_LOST, call="nvmlEventSetWait")
        return self._nvml.step(seconds)

    def rebound(self) -> bool:
        """Once after each time that something was bound."""
        was, self._nvml.rebound = self._nvml.rebound, False
        return was

    def close(self) -> None:
        """It counts as open no more."""
        self._nvml.open_streams -= 1


def xid(gpu: str, number: int, gpu_instance: int | None = None) -> GpuEvent:
    """An XID event."""
    return GpuEvent(gpu=gpu, kind=EventKind.XID, data=number, gpu_instance=gpu_instance)


def no_driver() -> DriverMissingError:
    """The error of a node without a driver."""
    return DriverMissingError("The NVIDIA driver is not loaded", code=DRIVER_NOT_LOADED, call="nvmlInit")


def no_library() -> LibraryMissingError:
    """The error of a node without NVML."""
    return LibraryMissingError("There is no NVML library", code=LIBRARY_NOT_FOUND, call="nvmlInit")
