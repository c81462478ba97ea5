"""The simulated library answers like a real H200: values, error classes, sizes of structures.

``tests/fixtures/nvml_h200.json`` is what a real card answered (driver 580.159.04). Every NVML call of the
node agent must be in ``CALLS``, so that a new one cannot be simulated without a check against the hardware.
"""

import ast
import ctypes
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pynvml
import pytest

from devcluster.fakenvml import H200, FakeNvml, gpu
from devcluster.fakenvml.fake import RunningProcess

ROOT = Path(__file__).parents[3]
SURVEY = json.loads((ROOT / "tests/fixtures/nvml_h200.json").read_text(encoding="utf-8"))
ANSWERS = {entry["call"]: entry for entry in SURVEY["calls"]}
UUID = "GPU-00000000-1111-2222-3333-444444444444"
UNKNOWN = "GPU-00000000-0000-0000-0000-000000000000"

PER_GPU = (
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetIndex",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetSerial",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetNumaNodeId",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceIsMigDeviceHandle",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetAttributes",
    "nvmlDeviceGetAttributes_v2",
    "nvmlDeviceGetSupportedEventTypes",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)

CALLS: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(pynvml, name) for name in PER_GPU},
    "nvmlSystemGetDriverVersion": lambda _: pynvml.nvmlSystemGetDriverVersion(),
    "nvmlSystemGetNVMLVersion": lambda _: pynvml.nvmlSystemGetNVMLVersion(),
    "nvmlSystemGetCudaDriverVersion": lambda _: pynvml.nvmlSystemGetCudaDriverVersion(),
    "nvmlSystemGetCudaDriverVersion_v2": lambda _: pynvml.nvmlSystemGetCudaDriverVersion_v2(),
    "nvmlDeviceGetCount": lambda _: pynvml.nvmlDeviceGetCount(),
    "nvmlDeviceGetHandleByIndex": lambda _: pynvml.nvmlDeviceGetHandleByIndex(0),
    "nvmlDeviceGetHandleByIndex(1)": lambda _: pynvml.nvmlDeviceGetHandleByIndex(1),
    "nvmlDeviceGetHandleByUUID": lambda _: pynvml.nvmlDeviceGetHandleByUUID(UUID),
    "nvmlDeviceGetHandleByUUID(unknown)": lambda _: pynvml.nvmlDeviceGetHandleByUUID(UNKNOWN),
    "nvmlDeviceGetTemperature": lambda h: pynvml.nvmlDeviceGetTemperature(h, 0),
    "nvmlDeviceGetMemoryInfo v2": lambda h: pynvml.nvmlDeviceGetMemoryInfo(h, pynvml.nvmlMemory_v2),
    "nvmlDeviceGetFieldValues([230]) recovery action": lambda h: pynvml.nvmlDeviceGetFieldValues(h, [230]),
    "nvmlDeviceGetNvLinkState(0)": lambda h: pynvml.nvmlDeviceGetNvLinkState(h, 0),
    "nvmlDeviceGetNvLinkState(18)": lambda h: pynvml.nvmlDeviceGetNvLinkState(h, 18),
    "nvmlDeviceGetNvLinkRemotePciInfo": lambda h: pynvml.nvmlDeviceGetNvLinkRemotePciInfo(h, 0),
    "nvmlDeviceGetNvLinkRemoteDeviceType": lambda h: pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(h, 0),
    "nvmlDeviceGetTopologyCommonAncestor": lambda h: pynvml.nvmlDeviceGetTopologyCommonAncestor(h, h),
    "nvmlDeviceGetMigDeviceHandleByIndex": lambda h: pynvml.nvmlDeviceGetMigDeviceHandleByIndex(h, 0),
    "nvmlEventSetCreate": lambda _: pynvml.nvmlEventSetCreate(),
    "nvmlDeviceRegisterEvents(all supported)": lambda h: pynvml.nvmlDeviceRegisterEvents(
        h, 65439, pynvml.nvmlEventSetCreate()
    ),
    "nvmlEventSetWait_v2(0)": lambda _: pynvml.nvmlEventSetWait_v2(pynvml.nvmlEventSetCreate(), 0),
    "nvmlEventSetWait_v2(50)": lambda _: pynvml.nvmlEventSetWait_v2(pynvml.nvmlEventSetCreate(), 50),
    "nvmlEventSetWait": lambda _: pynvml.nvmlEventSetWait(pynvml.nvmlEventSetCreate(), 20),
    "nvmlEventSetFree": lambda _: pynvml.nvmlEventSetFree(pynvml.nvmlEventSetCreate()),
}
IN_TESTS_OF_THEIR_OWN = {
    "nvmlInit",
    "nvmlShutdown",
    "nvmlDeviceGetGpuInstanceProfileInfo",
}
"""The life cycle (the tests before and after initialisation below), and profiles of MIG instances."""
NOT_SURVEYED = {
    "nvmlDeviceGetGpuInstanceById",
    "nvmlGpuInstanceGetInfo",
    "nvmlSystemEventSetCreate",
    "nvmlSystemEventSetFree",
    "nvmlSystemEventSetWait",
    "nvmlSystemRegisterEvents",
}
"""Calls that the survey did not make: its card was not in MIG mode, and was not unbound from the driver."""


@pytest.fixture
def uninitialized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A node with the surveyed card."""
    fake = FakeNvml(tmp_path)
    card = replace(gpu(H200, 0), uuid=UUID, pci="00000000:00:06.0", serial="1000000000001")
    fake.create([card])
    for name, value in fake.environment().items():
        monkeypatch.setenv(name, value)
    ctypes.CDLL(fake.environment()["GPU_BOOKING_NVML_LIBRARY"])
    return fake


@pytest.fixture
def card(uninitialized: FakeNvml) -> Iterator[Any]:
    """The handle of the simulated card, NVML initialised."""
    assert uninitialized.uuids() == (UUID,)
    assert pynvml.nvmlInit() is None
    yield pynvml.nvmlDeviceGetHandleByIndex(0)
    pynvml.nvmlShutdown()


def plain(value: Any) -> Any:
    """An answer as the survey recorded it; a handle or pointer by its kind."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list | tuple | ctypes.Array):
        return [plain(one) for one in value]
    if isinstance(value, ctypes._SimpleCData):
        return repr(value)
    if isinstance(value, ctypes.Structure | ctypes.Union):
        return {field[0]: plain(getattr(value, field[0])) for field in value._fields_}
    return value if value is None or isinstance(value, str | int | float) else type(value).__name__


def comparable(value: Any) -> Any:
    """A surveyed or simulated answer without what differs at each call: addresses, time, latency."""
    if isinstance(value, list):
        return [comparable(one) for one in value]
    if isinstance(value, dict):
        return {key: comparable(one) for key, one in value.items() if key not in {"timestamp", "latencyUsec"}}
    if isinstance(value, str) and value.startswith("<pynvml."):
        return value.removeprefix("<pynvml.").split(" ")[0]
    return value


def outcome(call: Callable[[Any], Any], card: Any) -> tuple[str, Any]:
    """The answer, or the class and the code of the error."""
    try:
        return "value", comparable(plain(call(card)))
    except pynvml.NVMLError as error:
        return type(error).__name__, error.value


@pytest.mark.parametrize("call", CALLS)
def test_a_call_answers_as_the_real_card_did(card: Any, call: str) -> None:
    surveyed = ANSWERS[call]
    expected = (
        (surveyed["error"], surveyed["code"])
        if "error" in surveyed
        else ("value", comparable(surveyed["value"]))
    )
    assert outcome(CALLS[call], card) == expected


def test_before_initialisation_every_call_reports_uninitialized(uninitialized: FakeNvml) -> None:
    assert uninitialized.state.exists()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml._LoadNvmlLibrary() or pynvml.nvmlDeviceGetCount()
    assert ANSWERS["nvmlDeviceGetCount before init"]["error"] == "NVMLError_Uninitialized"


def test_after_shutdown_every_call_reports_uninitialized(uninitialized: FakeNvml) -> None:
    assert uninitialized.state.exists()
    assert pynvml.nvmlInit() is ANSWERS["nvmlInit"]["value"]
    card = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlShutdown() is ANSWERS["nvmlShutdown"]["value"]
    for surveyed, call in (
        ("nvmlDeviceGetCount after shutdown", pynvml.nvmlDeviceGetCount),
        ("nvmlDeviceGetName after shutdown", lambda: pynvml.nvmlDeviceGetName(card)),
    ):
        with pytest.raises(pynvml.NVMLError) as caught:
            call()
        assert type(caught.value).__name__ == ANSWERS[surveyed]["error"]


def test_a_process_on_the_gpu_is_reported_as_by_the_real_card(card: Any, uninitialized: FakeNvml) -> None:
    surveyed = SURVEY["second"]["compute processes"]
    uninitialized.processes(0, *(RunningProcess(one["pid"], one["usedGpuMemory"]) for one in surveyed))
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(card)
    # The binding turns "no instance" into None; the survey recorded the raw number.
    assert [(one.pid, one.usedGpuMemory) for one in processes] == [
        (one["pid"], one["usedGpuMemory"]) for one in surveyed
    ]
    assert {one.gpuInstanceId for one in processes} <= {None, surveyed[0]["gpuInstanceId"]}


def test_the_supported_events_are_those_of_the_real_card(card: Any) -> None:
    supported = pynvml.nvmlDeviceGetSupportedEventTypes(card)
    assert all(supported & int(bit, 16) for bit, yes in SURVEY["supported_event_bits"].items() if yes)


@pytest.mark.parametrize("number", range(18))
def test_profiles_of_mig_instances_have_the_ids_of_the_real_card(card: Any, number: int) -> None:
    (surveyed,) = [
        one for one in SURVEY["calls"] if one["call"] == f"nvmlDeviceGetGpuInstanceProfileInfo({number},v2)"
    ] or [{"code": pynvml.NVML_ERROR_INVALID_ARGUMENT}]
    if "code" in surveyed:
        with pytest.raises(pynvml.NVMLError) as refused:
            pynvml.nvmlDeviceGetGpuInstanceProfileInfo(card, number)
        assert refused.value.value == surveyed["code"]
    else:
        assert pynvml.nvmlDeviceGetGpuInstanceProfileInfo(card, number).id == surveyed["value"]["id"]


STRUCTURES = (
    "c_nvmlMemory_t",
    "c_nvmlMemory_v2_t",
    "nvmlPciInfo_t",
    "c_nvmlEventData_t",
    "c_nvmlProcessInfo_v2_t",
    "c_nvmlProcessInfo_v3_t",
    "c_nvmlUtilization_t",
    "c_nvmlDeviceAttributes",
    "c_nvmlFieldValue_t",
)


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_structure_has_one_size_in_the_survey_in_the_binding_and_in_c(
    uninitialized: FakeNvml, name: str
) -> None:
    library = ctypes.CDLL(uninitialized.environment()["GPU_BOOKING_NVML_LIBRARY"])
    surveyed = SURVEY["sizes"][name]
    assert ctypes.sizeof(getattr(pynvml, name)) == surveyed
    assert library.fakeNvmlSizeOf(name.encode()) == surveyed


def nvml_functions(path: Path) -> set[str]:
    """The functions of the binding that a module names."""
    return {
        node.attr
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "pynvml"
        and node.attr.startswith("nvml")
        and callable(getattr(pynvml, node.attr))
    }


def test_every_nvml_call_of_the_node_agent_is_compared_with_the_survey() -> None:
    used = nvml_functions(ROOT / "deviceplugin/nvml/real.py")
    compared = {call.split("(")[0].split(" ")[0] for call in CALLS}
    compared |= IN_TESTS_OF_THEIR_OWN | NOT_SURVEYED
    assert used
    assert used - compared == set()


def test_only_one_module_of_the_product_imports_the_binding() -> None:
    importing = {
        str(path.relative_to(ROOT))
        for package in ("cluster", "deviceplugin", "extender", "booking", "devcluster")
        for path in (ROOT / package).rglob("*.py")
        if "pynvml" in path.read_text(encoding="utf-8")
        and any(
            isinstance(node, ast.Import) and any(name.name == "pynvml" for name in node.names)
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        )
    }
    assert importing == {"deviceplugin/nvml/real.py"}
