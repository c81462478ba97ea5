"""``Nvml`` over NVIDIA's own binding: the only module that imports pynvml.

Every call goes through ``_ask``, which turns NVML's errors into those of ``interface``. Values that a card
does not support are None. Strings are decoded whether the binding returns text or bytes.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pynvml

from deviceplugin.nvml.interface import (
    UNTOUCHED,
    DriverMissingError,
    EventKind,
    EventStream,
    GpuEvent,
    GpuFacts,
    GpuLostError,
    GpuProcess,
    GpuUsage,
    LibraryMissingError,
    MigFacts,
    MigShape,
    NvmlError,
    Placement,
    RemappedRows,
)
from deviceplugin.nvml.mig_profile import profile_name

RECOVERY_ACTION_FIELD: Final = 230
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION; older bindings lack the name."""
NO_INSTANCE: Final = 0xFFFFFFFF
KINDS: Final[Mapping[int, str]] = MappingProxyType(
    {7: "+me", 8: "+me", 10: "+gfx", 11: "+gfx", 12: "+gfx", 17: "+gfx"}
    | {13: "-me", 14: "-me", 15: "+me.all", 16: "+me.all"}
)
"""Number of a profile of GPU instances (``NVML_GPU_INSTANCE_PROFILE_...``) -> the suffix of its name."""
_SYSTEM_EVENTS: Final = 8
"""Number of events about binding to read in one call: one is enough to read the inventory again."""

_MIB: Final = 1 << 20
_UNANSWERED: Final = frozenset({pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND})
_FIELD_UNKNOWN: Final = _UNANSWERED | {pynvml.NVML_ERROR_INVALID_ARGUMENT}
_LEFT_OPEN: Final = _UNANSWERED | {
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,  # a GPU in MIG mode
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
}
_OUR_EVENTS: Final = sum(EventKind)
_PROCESS_LISTS: Final = (
    pynvml.nvmlDeviceGetComputeRunningProcesses,
    pynvml.nvmlDeviceGetMPSComputeRunningProcesses,
    pynvml.nvmlDeviceGetGraphicsRunningProcesses,
)


class RealNvml:
    """NVML of this machine. ``library`` names the shared library; None leaves the search to the loader."""

    def __init__(self, library: Path | None = None) -> None:
        self._library = library
        self._open = False
        self._handles: dict[str, Any] = {}
        self._kinds: dict[str, Mapping[int, str]] = {}

    def open(self) -> None:
        """See ``Nvml``."""
        if self._open:
            return
        if self._library is not None:
            _load(self._library)
        _ask(pynvml.nvmlInit)
        self._open = True

    def close(self) -> None:
        """See ``Nvml``."""
        self._handles.clear()
        self._kinds.clear()
        if self._open:
            self._open = False
            _quietly(pynvml.nvmlShutdown)

    def driver_version(self) -> str:
        """See ``Nvml``."""
        return _text(_ask(pynvml.nvmlSystemGetDriverVersion))

    def cuda_version(self) -> tuple[int, int] | None:
        """See ``Nvml``."""
        try:
            number = int(_ask(pynvml.nvmlSystemGetCudaDriverVersion_v2))
        except NvmlError as error:
            if error.code in _UNANSWERED:
                return None
            raise
        return number // 1000, number % 1000 // 10

    def count(self) -> int:
        """See ``Nvml``."""
        return int(_ask(pynvml.nvmlDeviceGetCount))

    def uuid(self, index: int) -> str:
        """See ``Nvml``."""
        handle = _ask(pynvml.nvmlDeviceGetHandleByIndex, index)
        uuid = _text(_ask(pynvml.nvmlDeviceGetUUID, handle))
        self._handles[uuid] = handle
        return uuid

    def facts(self, uuid: str) -> GpuFacts:
        """See ``Nvml``."""
        handle = self._handle(uuid)
        memory = _answer(pynvml.nvmlDeviceGetMemoryInfo, handle, device=uuid)
        return GpuFacts(
            name=_text(_ask(pynvml.nvmlDeviceGetName, handle, device=uuid)),
            pci=_address(_ask(pynvml.nvmlDeviceGetPciInfo, handle, device=uuid)),
            minor=_answer(pynvml.nvmlDeviceGetMinorNumber, handle, device=uuid),
            memory_mib=None if memory is None else int(memory.total) // _MIB,
            reserved_mib=_reserved(handle, uuid),
            compute=_optional(pynvml.nvmlDeviceGetCudaComputeCapability, handle, device=uuid),
            can_mig=_optional(pynvml.nvmlDeviceGetMigMode, handle, device=uuid) is not None,
        )

    def links(self, uuid: str) -> Sequence[str]:
        """See ``Nvml``."""
        handle = self._handle(uuid)
        ends: list[str] = []
        for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
            try:
                active = _answer(pynvml.nvmlDeviceGetNvLinkState, handle, link, device=uuid)
            except NvmlError as error:
                if error.code == pynvml.NVML_ERROR_INVALID_ARGUMENT:
                    break  # past the card's last link
                raise
            if active is None:
                break  # the card has no NVLink, or it is off
            end = (
                _answer(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link, device=uuid)
                if active
                else None
            )
            if end is not None:
                ends.append(_address(end))
        return tuple(ends)

    def topology_level(self, uuid: str, other: str) -> int | None:
        """See ``Nvml``."""
        ends = self._handle(uuid), self._handle(other)
        found = _answer(pynvml.nvmlDeviceGetTopologyCommonAncestor, *ends, device=uuid)
        return None if found is None else int(found)

    def mig(self, uuid: str) -> Sequence[MigFacts] | None:
        """See ``Nvml``."""
        handle = self._handle(uuid)
        mode = _answer(pynvml.nvmlDeviceGetMigMode, handle, device=uuid)
        if mode is None or mode[0] == 0:
            return None
        total = int(_ask(pynvml.nvmlDeviceGetMemoryInfo, handle, device=uuid).total)
        if uuid not in self._kinds:
            self._kinds[uuid] = _kinds_of(handle, uuid)
        slots = _answer(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle, device=uuid) or 0
        found: list[MigFacts] = []
        for slot in range(slots):
            try:
                device = _ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, slot, device=uuid)
            except NvmlError as error:
                if error.code == pynvml.NVML_ERROR_NOT_FOUND:
                    continue  # slots in between may be empty
                raise
            number = int(_ask(pynvml.nvmlDeviceGetGpuInstanceId, device, device=uuid))
            instance = _instance_info(handle, number, uuid)
            kind = "" if instance is None else self._kinds[uuid].get(int(instance.profileId), "")
            facts = _mig_facts(device, total, uuid, instance=number, kind=kind)
            found.append(replace(facts, placement=_placement(instance)))
        return tuple(found)

    def recovery_action(self, uuid: str) -> int:
        """See ``Nvml``."""
        handle = self._handle(uuid)
        fields = _answer(pynvml.nvmlDeviceGetFieldValues, handle, [RECOVERY_ACTION_FIELD], device=uuid)
        # The call succeeds even if each field has an error of its own, such as a lost GPU.
        if not fields or (code := int(fields[0].nvmlReturn)) in _FIELD_UNKNOWN:
            return 0
        if code != pynvml.NVML_SUCCESS:
            raise _translated(pynvml.NVMLError(code), "nvmlDeviceGetFieldValues", uuid)
        return int(fields[0].value.uiVal)

    def rows(self, uuid: str) -> RemappedRows:
        """See ``Nvml``."""
        found = _answer(pynvml.nvmlDeviceGetRemappedRows, self._handle(uuid), device=uuid)
        return UNTOUCHED if found is None else RemappedRows(pending=bool(found[2]), failed=bool(found[3]))

    def usage(self, uuid: str, parts: Sequence[str]) -> GpuUsage:
        """See ``Nvml``."""
        handle = self._handle(uuid)
        rates = _optional(pynvml.nvmlDeviceGetUtilizationRates, handle, device=uuid)
        memory = _memory(handle, uuid)
        power = _optional(pynvml.nvmlDeviceGetPowerUsage, handle, device=uuid)
        of_parts = {part: self._used(part, uuid) for part in parts}
        return GpuUsage(
            utilisation=None if rates is None else int(rates.gpu),
            memory_activity=None if rates is None else int(rates.memory),
            memory_used=None if memory is None else int(memory.used),
            memory_total=None if memory is None else int(memory.total),
            temperature=_optional(
                pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU, device=uuid
            ),
            power=None if power is None else power / 1000,
            processes=_processes(handle, uuid),
            parts={part: used for part, used in of_parts.items() if used is not None},
        )

    def _used(self, part: str, parent: str) -> int | None:
        """Bytes in use on a MIG device; None for one that was destroyed meanwhile."""
        try:
            memory = _memory(self._handle(part), parent)
        except GpuLostError:
            raise
        except NvmlError:
            return None
        return None if memory is None else int(memory.used)

    def touch(self, uuid: str) -> None:
        """See ``Nvml``. Reading the UUID would prove nothing: the library may have it cached."""
        try:
            _answer(pynvml.nvmlDeviceGetMemoryInfo, self._handle(uuid), device=uuid)
        except NvmlError as error:
            if error.code != pynvml.NVML_ERROR_NO_PERMISSION:
                raise

    def events(self, uuids: Sequence[str]) -> EventStream:
        """See ``Nvml``."""
        return _Events({uuid: self._handle(uuid) for uuid in uuids})

    def _handle(self, uuid: str) -> Any:
        if uuid not in self._handles:
            self._handles[uuid] = _ask(pynvml.nvmlDeviceGetHandleByUUID, uuid, device=uuid)
        return self._handles[uuid]


class _Events:
    """An event set, and the GPU of each handle: the UUID of a lost GPU can no longer be read."""

    def __init__(self, handles: Mapping[str, Any]) -> None:
        self._gpu_of = {ctypes.cast(handle, ctypes.c_void_p).value: uuid for uuid, handle in handles.items()}
        self._set = _ask(pynvml.nvmlEventSetCreate)
        self._system = _system_events()
        self.events_unavailable: dict[str, NvmlError] = {}
        for uuid, handle in handles.items():
            try:
                self._register(uuid, handle)
            except NvmlError as error:
                self.events_unavailable[uuid] = error

    def _register(self, uuid: str, handle: Any) -> None:
        kinds = _ask(pynvml.nvmlDeviceGetSupportedEventTypes, handle, device=uuid) & _OUR_EVENTS
        _ask(pynvml.nvmlDeviceRegisterEvents, handle, kinds, self._set, device=uuid)

    def wait(self, seconds: float) -> GpuEvent | None:
        """See ``EventStream``. The binding releases the GIL meanwhile."""
        try:
            event = _ask(pynvml.nvmlEventSetWait, self._set, round(seconds * 1000))
        except NvmlError as error:
            if error.code == pynvml.NVML_ERROR_TIMEOUT:
                return None
            raise
        gpu = self._gpu_of.get(ctypes.cast(event.device, ctypes.c_void_p).value)
        return GpuEvent(
            gpu=gpu or _text(_ask(pynvml.nvmlDeviceGetUUID, event.device)),
            kind=EventKind(event.eventType & _OUR_EVENTS),
            data=int(event.eventData),
            gpu_instance=_instance(event.gpuInstanceId),
            compute_instance=_instance(event.computeInstanceId),
        )

    def rebound(self) -> bool:
        """See ``EventStream``. The set belongs to no device, so a GPU that hangs cannot block the call."""
        if self._system is None:
            return False
        room = (pynvml.c_nvmlSystemEventData_v1_t * _SYSTEM_EVENTS)()
        try:
            version = pynvml.nvmlSystemEventSetWaitRequest_v1
            return bool(_ask(pynvml.nvmlSystemEventSetWait, version, self._system, 0, room, _SYSTEM_EVENTS))
        except NvmlError as error:
            if error.code != pynvml.NVML_ERROR_TIMEOUT:
                self._forget_system()
            return False

    def close(self) -> None:
        """See ``Nvml``."""
        self._forget_system()
        _quietly(pynvml.nvmlEventSetFree, self._set)

    def _forget_system(self) -> None:
        system, self._system = self._system, None
        if system is not None:
            _quietly(pynvml.nvmlSystemEventSetFree, pynvml.nvmlSystemEventSetFreeRequest_v1, system)


def _system_events() -> Any:
    """A set for events of GPUs that are bound and unbound; None if the driver has no such events."""
    kinds = pynvml.nvmlSystemEventTypeGpuDriverBind | pynvml.nvmlSystemEventTypeGpuDriverUnbind
    try:
        found = _ask(pynvml.nvmlSystemEventSetCreate, pynvml.nvmlSystemEventSetCreateRequest_v1)
    except NvmlError:
        return None
    try:
        _ask(pynvml.nvmlSystemRegisterEvents, pynvml.nvmlSystemRegisterEventRequest_v1, kinds, found)
    except NvmlError:
        _quietly(pynvml.nvmlSystemEventSetFree, pynvml.nvmlSystemEventSetFreeRequest_v1, found)
        return None
    return found


def _optional(function: Callable[..., Any], *arguments: Any, device: str) -> Any:
    """The value of an optional property; None also if this process lacks the permission to read it."""
    try:
        return _answer(function, *arguments, device=device)
    except NvmlError as error:
        if error.code in _LEFT_OPEN:
            return None
        raise


def _memory(handle: Any, device: str) -> Any:
    """Memory in total and in use. Version 2, if the driver has it, does not count the driver's own memory."""
    found = _optional(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2, device=device)
    return found or _optional(pynvml.nvmlDeviceGetMemoryInfo, handle, device=device)


def _reserved(handle: Any, device: str) -> int:
    """MiB that the driver keeps for itself, rounded up; 0 if it does not report them."""
    found = _optional(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2, device=device)
    return 0 if found is None else -(-int(found.reserved) // _MIB)


def _processes(handle: Any, device: str) -> tuple[GpuProcess, ...]:
    """Each process once: NVML lists it twice if it computes through MPS, or both computes and draws."""
    found: dict[tuple[int, int | None, int | None], GpuProcess] = {}
    for ask in _PROCESS_LISTS:
        for one in _optional(ask, handle, device=device) or ():
            where = (int(one.pid), _instance(one.gpuInstanceId), _instance(one.computeInstanceId))
            before = found.get(where)
            sizes = [one.usedGpuMemory, before.memory if before else None]
            reported = [int(size) for size in sizes if size is not None]
            found[where] = GpuProcess(where[0], max(reported, default=None), where[1], where[2])
    return tuple(found[where] for where in sorted(found, key=lambda place: (place[0], str(place))))


def _kinds_of(handle: Any, uuid: str) -> dict[int, str]:
    """Id of a GPU instance's profile -> the suffix of its name, for the profiles that have one."""
    found: dict[int, str] = {}
    for number, suffix in KINDS.items():
        info = _optional(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, number, device=uuid)
        if info is not None:
            found[int(info.id)] = suffix
    return found


def _instance_info(handle: Any, instance: int, uuid: str) -> Any:
    """Profile and placement of a GPU instance; None if this process may not read it."""
    known = _optional(pynvml.nvmlDeviceGetGpuInstanceById, handle, instance, device=uuid)
    return None if known is None else _optional(pynvml.nvmlGpuInstanceGetInfo, known, device=uuid)


def _placement(instance: Any) -> Placement | None:
    if instance is None or not instance.placement.size:
        return None
    return Placement(int(instance.placement.start), int(instance.placement.size))


def _mig_facts(device: Any, total: int, parent: str, *, instance: int, kind: str) -> MigFacts:
    shape = _ask(pynvml.nvmlDeviceGetAttributes, device, device=parent)
    return MigFacts(
        uuid=_text(_ask(pynvml.nvmlDeviceGetUUID, device, device=parent)),
        profile=profile_name(
            gpu_slices=shape.gpuInstanceSliceCount,
            compute_slices=shape.computeInstanceSliceCount,
            memory_mib=shape.memorySizeMB,
            total_bytes=total,
            kind=kind,
        ),
        gpu_instance=instance,
        compute_instance=int(_ask(pynvml.nvmlDeviceGetComputeInstanceId, device, device=parent)),
        memory_mib=int(shape.memorySizeMB),
        shape=MigShape(
            processors=int(shape.multiprocessorCount),
            gpu_slices=int(shape.gpuInstanceSliceCount),
            compute_slices=int(shape.computeInstanceSliceCount),
            copy_engines=int(shape.sharedCopyEngineCount),
            decoders=int(shape.sharedDecoderCount),
            encoders=int(shape.sharedEncoderCount),
            jpeg_engines=int(shape.sharedJpegCount),
            ofa_engines=int(shape.sharedOfaCount),
        ),
    )


def _load(library: Path) -> None:
    """Load the library by its path: the loader then uses it for every later request of its name."""
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        raise LibraryMissingError(
            f"The NVML library that the settings name cannot be loaded: {error}.",
            code=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
            call="dlopen",
        ) from error


def _ask(function: Callable[..., Any], *arguments: Any, device: str | None = None) -> Any:
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        raise _translated(error, function.__name__, device) from error


def _answer(function: Callable[..., Any], *arguments: Any, device: str) -> Any:
    """The value; None if the card or the driver does not support the call."""
    try:
        return _ask(function, *arguments, device=device)
    except NvmlError as error:
        if error.code in _UNANSWERED:
            return None
        raise


def _quietly(function: Callable[..., Any], *arguments: Any) -> None:
    """Call a function that releases something, and ignore its errors."""
    try:
        function(*arguments)
    except pynvml.NVMLError:
        return


def _translated(error: Any, call: str, device: str | None) -> NvmlError:
    code = int(error.value)
    if code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return LibraryMissingError(
            "There is no NVML library (libnvidia-ml.so.1) on this node: install the NVIDIA driver, or name "
            "the library in the settings.",
            code=code,
            call=call,
        )
    if code == pynvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return DriverMissingError("The NVIDIA driver is not loaded on this node.", code=code, call=call)
    if code == pynvml.NVML_ERROR_GPU_IS_LOST:
        return GpuLostError(f"NVML says that the GPU is lost ({call}).", code=code, call=call, device=device)
    return NvmlError(f"{call} answers {error} (NVML error {code}).", code=code, call=call, device=device)


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _address(info: Any) -> str:
    return _text(info.busIdLegacy).lower()


def _instance(number: int) -> int | None:
    return None if number == NO_INSTANCE else int(number)
