"""Faults injected at run time: lost GPUs, errors, delays, hangs, missing drivers."""

import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cluster.process.clock import SystemClock
from devcluster.fakenvml import A100_80GB, FakeNvml, gpu
from tests.patience import PATIENCE


def memory(nvml: ModuleType, handle: Any) -> int:
    return int(nvml.nvmlDeviceGetMemoryInfo(handle).total)


def test_every_call_reports_a_lost_gpu_until_it_is_back(fake: FakeNvml, nvml: ModuleType) -> None:
    handle, other = nvml.nvmlDeviceGetHandleByIndex(0), nvml.nvmlDeviceGetHandleByIndex(1)
    fake.lose(0)
    for call in (nvml.nvmlDeviceGetUUID, nvml.nvmlDeviceGetName, nvml.nvmlDeviceGetMemoryInfo):
        with pytest.raises(nvml.NVMLError_GpuIsLost):
            call(handle)
    with pytest.raises(nvml.NVMLError_GpuIsLost):
        nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceGetUUID(other) == fake.uuids()[1]
    fake.recover(0)
    assert nvml.nvmlDeviceGetUUID(handle) == fake.uuids()[0]


def test_each_field_reports_a_lost_gpu_while_the_call_itself_succeeds(
    fake: FakeNvml, nvml: ModuleType
) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    fake.lose(0)
    assert [field.nvmlReturn for field in nvml.nvmlDeviceGetFieldValues(handle, [230, 1])] == [15, 3]
    fake.recover(0)
    assert [field.nvmlReturn for field in nvml.nvmlDeviceGetFieldValues(handle, [230, 1])] == [0, 3]


def test_an_injected_field_error_leaves_the_call_itself_alone(fake: FakeNvml, nvml: ModuleType) -> None:
    first, second = (nvml.nvmlDeviceGetHandleByIndex(index) for index in (0, 1))
    fake.field_error(0, 999)
    assert nvml.nvmlDeviceGetFieldValues(first, [230])[0].nvmlReturn == 999
    assert nvml.nvmlDeviceGetFieldValues(second, [230])[0].nvmlReturn == 0


def test_an_injected_error_hits_the_call_on_the_gpu_that_it_names(fake: FakeNvml, nvml: ModuleType) -> None:
    first, second = (nvml.nvmlDeviceGetHandleByIndex(index) for index in (0, 1))
    fake.error("nvmlDeviceGetMemoryInfo", 0, 999)
    with pytest.raises(nvml.NVMLError_Unknown):
        memory(nvml, first)
    assert memory(nvml, second) == 81920 << 20
    assert nvml.nvmlDeviceGetName(first) == "NVIDIA A100-SXM4-80GB"
    fake.release("nvmlDeviceGetMemoryInfo")
    assert memory(nvml, first) == 81920 << 20


def test_an_injected_error_without_a_gpu_hits_all_of_them(fake: FakeNvml, nvml: ModuleType) -> None:
    fake.error("nvmlDeviceGetHandleByIndex", None, 17)
    for index in range(4):
        with pytest.raises(nvml.NVMLError_OperatingSystem):
            nvml.nvmlDeviceGetHandleByIndex(index)


def test_a_delayed_call_takes_as_long_as_its_fault_says(fake: FakeNvml, nvml: ModuleType) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    fake.delay("nvmlDeviceGetName", 0.2)
    clock = SystemClock()
    begun = clock.monotonic()
    assert nvml.nvmlDeviceGetName(handle)
    assert clock.monotonic() - begun >= 0.2


def test_a_hanging_call_returns_when_it_is_released_and_blocks_no_other(
    fake: FakeNvml, nvml: ModuleType
) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    fake.hang("nvmlDeviceGetName")
    fake.log_calls()
    answers: list[str] = []
    stuck = threading.Thread(target=lambda: answers.append(nvml.nvmlDeviceGetName(handle)))
    stuck.start()
    clock, never = SystemClock(), threading.Event()
    deadline = clock.monotonic() + PATIENCE
    while not any(function == "nvmlDeviceGetName" for _, function, _ in fake.calls()):
        assert clock.monotonic() < deadline, "the call never reached the library"
        clock.wait(never, 0.01)
    assert nvml.nvmlDeviceGetUUID(handle) == fake.uuids()[0]
    assert stuck.is_alive()
    assert answers == []
    fake.release("nvmlDeviceGetName")
    stuck.join(30)
    assert answers == ["NVIDIA A100-SXM4-80GB"]


def test_a_new_gpu_is_seen_only_after_a_new_initialisation(fake: FakeNvml, nvml: ModuleType) -> None:
    fresh = gpu(A100_80GB, 4)
    fake.add_gpu(fresh)
    assert nvml.nvmlDeviceGetCount() == 4
    with pytest.raises(nvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetHandleByIndex(4)
    nvml.nvmlShutdown()
    nvml.nvmlInit()
    assert nvml.nvmlDeviceGetCount() == 5
    assert nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(4)) == fresh.uuid


def test_a_removed_gpu_is_lost_until_a_new_initialisation_forgets_it(
    fake: FakeNvml, nvml: ModuleType
) -> None:
    before = fake.uuids()
    fake.remove_gpu(1)
    assert nvml.nvmlDeviceGetCount() == 4
    with pytest.raises(nvml.NVMLError_GpuIsLost):
        nvml.nvmlDeviceGetHandleByIndex(1)
    assert nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(2)) == before[2]
    nvml.nvmlShutdown()
    nvml.nvmlInit()
    seen = [nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(3)]
    assert seen == [before[0], *before[2:]]


def test_initialisation_is_counted(fake: FakeNvml, nvml: ModuleType) -> None:
    assert len(fake.uuids()) == 4
    nvml.nvmlInit()
    nvml.nvmlShutdown()
    assert nvml.nvmlDeviceGetCount() == 4


@pytest.mark.parametrize(("code", "name"), [(9, "DriverNotLoaded"), (17, "OperatingSystem"), (18, "")])
def test_initialisation_fails_with_the_given_error(
    fake: FakeNvml, nvml: ModuleType, code: int, name: str
) -> None:
    nvml.nvmlShutdown()
    fake.init_error(code)
    with pytest.raises(nvml.NVMLError) as caught:
        nvml.nvmlInit()
    assert caught.value.value == code
    assert type(caught.value).__name__.endswith(name)
    with pytest.raises(nvml.NVMLError_Uninitialized):
        nvml.nvmlDeviceGetCount()
    fake.init_error(0)
    nvml.nvmlInit()
    assert nvml.nvmlDeviceGetCount() == 4


def test_without_a_state_file_there_is_no_driver(
    fake: FakeNvml, nvml: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.nvmlShutdown()
    monkeypatch.setenv("FAKE_NVML_STATE", str(Path("/nonexistent/state")))
    with pytest.raises(nvml.NVMLError_DriverNotLoaded):
        nvml.nvmlInit()
    monkeypatch.setenv("FAKE_NVML_STATE", str(fake.state))
    nvml.nvmlInit()


def test_calls_can_be_logged(fake: FakeNvml, nvml: ModuleType) -> None:
    fake.log_calls()
    nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(2))
    assert [(function, uuid) for _, function, uuid in fake.calls()] == [
        ("nvmlDeviceGetHandleByIndex_v2", fake.uuids()[2]),
        ("nvmlDeviceGetName", fake.uuids()[2]),
    ]


def test_clearing_ends_every_fault(fake: FakeNvml, nvml: ModuleType) -> None:
    fake.lose(0)
    fake.recovery_action(1, 2)
    fake.error("nvmlDeviceGetName", None, 999)
    fake.clear()
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(4)]
    assert all(nvml.nvmlDeviceGetName(handle) for handle in handles)
    assert nvml.nvmlDeviceGetFieldValues(handles[1], [230])[0].value.uiVal == 0
