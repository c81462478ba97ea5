"""The agent's view of a real card. Reads only, changes no setting."""

import os
import stat
from pathlib import Path

import pytest

from deviceplugin.nvml.inventory import read_inventory
from deviceplugin.nvml.real import RealNvml

pytestmark = pytest.mark.gpu


def test_every_gpu_is_found_with_model_memory_and_device_node(nvml: RealNvml) -> None:
    devices = read_inventory(nvml, lambda _pci: None)
    gpus = [d for d in devices if d.published.parent is None]
    assert len(gpus) == nvml.count()
    for gpu in gpus:
        assert gpu.uuid.startswith("GPU-")
        assert " " not in gpu.published.model
        assert gpu.published.is_healthy, gpu.published.reason
        node = Path(f"/dev/nvidia{gpu.minor}")
        assert stat.S_ISCHR(node.stat().st_mode)
        assert os.minor(node.stat().st_rdev) == gpu.minor


def test_a_healthy_card_asks_for_no_recovery_and_sends_no_event_by_itself(nvml: RealNvml) -> None:
    uuids = [nvml.uuid(index) for index in range(nvml.count())]
    assert {nvml.recovery_action(uuid) for uuid in uuids} == {0}
    stream = nvml.events(uuids)
    try:
        assert not stream.deaf
        assert stream.wait(1.0) is None
    finally:
        stream.close()


def test_two_readings_of_one_card_are_equal(nvml: RealNvml) -> None:
    assert read_inventory(nvml, lambda _pci: None) == read_inventory(nvml, lambda _pci: None)
