"""Events that a test appends reach the event sets that registered for them, as from a driver."""

import threading
from types import ModuleType
from typing import Any

import pytest

from devcluster.fakenvml import FakeNvml

XID, MIG_CHANGE, RECOVERY = 0x8, 0x100, 0x8000
WHOLE = 0xFFFFFFFF


def listening(nvml: ModuleType, index: int, kinds: int) -> Any:
    events = nvml.nvmlEventSetCreate()
    nvml.nvmlDeviceRegisterEvents(nvml.nvmlDeviceGetHandleByIndex(index), kinds, events)
    return events


def test_an_xid_arrives_with_its_number_and_its_gpu(fake: FakeNvml, nvml: ModuleType) -> None:
    events = listening(nvml, 1, XID)
    fake.xid(1, 79)
    event = nvml.nvmlEventSetWait(events, 5000)
    assert (event.eventType, event.eventData) == (XID, 79)
    assert nvml.nvmlDeviceGetUUID(event.device) == fake.uuids()[1]
    assert (event.gpuInstanceId, event.computeInstanceId) == (WHOLE, WHOLE)


def test_an_xid_can_name_one_mig_instance(fake: FakeNvml, nvml: ModuleType) -> None:
    events = listening(nvml, 0, XID)
    fake.xid(0, 95, gi=3, ci=0)
    event = nvml.nvmlEventSetWait(events, 5000)
    assert (event.gpuInstanceId, event.computeInstanceId) == (3, 0)


def test_a_wait_that_has_begun_ends_when_the_event_comes(fake: FakeNvml, nvml: ModuleType) -> None:
    events = listening(nvml, 0, XID)
    received: list[int] = []
    waiting = threading.Thread(
        target=lambda: received.append(nvml.nvmlEventSetWait(events, 60_000).eventData)
    )
    waiting.start()
    fake.xid(0, 48)
    waiting.join(30)
    assert received == [48]


def test_events_of_other_gpus_and_other_kinds_are_not_received(fake: FakeNvml, nvml: ModuleType) -> None:
    events = listening(nvml, 0, RECOVERY)
    fake.xid(0, 79)
    fake.recovery_action(1, 1)
    with pytest.raises(nvml.NVMLError_Timeout):
        nvml.nvmlEventSetWait(events, 50)


def test_events_before_registration_are_not_received(fake: FakeNvml, nvml: ModuleType) -> None:
    fake.xid(0, 79)
    events = listening(nvml, 0, XID)
    with pytest.raises(nvml.NVMLError_Timeout):
        nvml.nvmlEventSetWait(events, 0)


def test_events_come_in_order_and_once(fake: FakeNvml, nvml: ModuleType) -> None:
    events = listening(nvml, 0, XID | MIG_CHANGE)
    for number in (13, 31, 79):
        fake.xid(0, number)
    assert [nvml.nvmlEventSetWait(events, 5000).eventData for _ in range(3)] == [13, 31, 79]
    with pytest.raises(nvml.NVMLError_Timeout):
        nvml.nvmlEventSetWait(events, 0)


def test_every_event_set_gets_the_event(fake: FakeNvml, nvml: ModuleType) -> None:
    sets = [listening(nvml, 0, XID) for _ in range(2)]
    fake.xid(0, 62)
    assert [nvml.nvmlEventSetWait(events, 5000).eventData for events in sets] == [62, 62]


def test_a_kind_that_the_gpu_does_not_support_cannot_be_registered(nvml: ModuleType) -> None:
    with pytest.raises(nvml.NVMLError_NotSupported):
        listening(nvml, 0, 0x10000)


def test_a_wait_fails_at_once_while_one_of_its_gpus_is_lost_but_first_returns_the_events(
    fake: FakeNvml, nvml: ModuleType
) -> None:
    events = listening(nvml, 0, XID)
    fake.xid(0, 79)
    fake.lose(0)
    assert nvml.nvmlEventSetWait(events, 5000).eventData == 79
    with pytest.raises(nvml.NVMLError_GpuIsLost):
        nvml.nvmlEventSetWait(events, 60_000)
