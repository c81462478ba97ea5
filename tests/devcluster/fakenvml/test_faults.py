"""Faults injected at run time: lost GPUs, errors, delays, hangs, missing drivers."""

import threading
from types import ModuleType

import pytest

from cluster.process.clock import SystemClock
from devcluster.fakenvml import FakeNvml
from tests.patience import PATIENCE


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
