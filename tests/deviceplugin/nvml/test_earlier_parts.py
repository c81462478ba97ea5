"""MIG devices that are gone, and an agent that was not there when they went (law L1)."""

import pytest

from deviceplugin.advertised import IN_ITS_PLACE, TAKEN_IN_PARTS, AdvertisingOptions, advertised
from deviceplugin.device_nodes import DeviceNodes
from deviceplugin.injection.strategy import Strategy
from deviceplugin.nvml.fault_file import Known
from deviceplugin.nvml.interface import MigFacts
from deviceplugin.nvml.inventory import MIG_GONE
from deviceplugin.nvml.mig_strategy import MigStrategy
from deviceplugin.nvml.watch import GpuWatch, NoGpusError, NvmlReport
from tests.fakes.nvml import MemoryGpu, MemoryNvml, a_gpu, no_driver

WAY = AdvertisingOptions(strategy=Strategy.ENVIRONMENT, mig=MigStrategy.MIXED)


class Notes:
    """A memory that outlives an agent."""

    def __init__(self) -> None:
        self.known = Known()

    def era(self, driver: str) -> str:
        return driver

    def recall(self) -> Known:
        return self.known

    def keep(self, known: Known) -> None:
        self.known = known


def a_life(notes: Notes, *gpus: MemoryGpu) -> NvmlReport:
    """What an agent has reported last."""
    nvml, reports = MemoryNvml(list(gpus)), list[NvmlReport]()
    nvml.script.append(lambda: None)
    GpuWatch(nvml, lambda _: 0, reports.append, clock=nvml, fault_store=notes).run(nvml.stop)
    return reports[-1]


def cut_gpu(**instances: int) -> MemoryGpu:
    gpu = a_gpu(0)
    gpu.mig = [MigFacts(name, "1g.10gb", number, 0, 9856) for name, number in instances.items()]
    return gpu


def reasons(report: NvmlReport) -> dict[str, str | None]:
    """As it is published while a pod has the MIG device that is gone."""
    return {
        device.uuid: device.reason
        for device in advertised(report.devices, DeviceNodes(), WAY, held={"MIG_old"})
    }


def test_a_gpu_that_is_whole_again_waits_for_the_pod_of_its_former_mig_device() -> None:
    notes = Notes()
    a_life(notes, cut_gpu(MIG_old=1))
    expected = {"GPU-0": TAKEN_IN_PARTS, "GPU-1": None, "MIG_old": MIG_GONE}
    assert reasons(a_life(notes, a_gpu(0), a_gpu(1))) == expected
    assert reasons(a_life(notes, a_gpu(0), a_gpu(1))) == expected, "and after another start"


def test_a_mig_device_in_the_place_of_a_former_one_waits_for_the_former_s_pod() -> None:
    notes = Notes()
    a_life(notes, cut_gpu(MIG_old=1))
    report = a_life(notes, cut_gpu(MIG_new=1, MIG_other=2))
    assert reasons(report) == {
        "GPU-0": None,
        "MIG_new": IN_ITS_PLACE,
        "MIG_other": None,
        "MIG_old": MIG_GONE,
    }


def test_a_mig_device_is_known_again_when_its_missing_gpu_is_back() -> None:
    notes = Notes()
    a_life(notes, cut_gpu(MIG_old=1), a_gpu(1))
    report = a_life(notes, a_gpu(1))
    assert [device.uuid for device in advertised(report.devices, DeviceNodes(), WAY)] == ["GPU-1"], (
        "no pod has it"
    )
    assert reasons(a_life(notes, a_gpu(0), a_gpu(1)))["GPU-0"] == TAKEN_IN_PARTS


def test_former_mig_devices_are_remembered_while_no_gpu_answers() -> None:
    notes = Notes()
    a_life(notes, cut_gpu(MIG_old=1))
    reports: list[NvmlReport] = []
    for nvml in (MemoryNvml([]), MemoryNvml([a_gpu(0)], fault=no_driver())):
        watch = GpuWatch(nvml, lambda _: 0, reports.append, clock=nvml, patient=False, fault_store=notes)
        with pytest.raises(NoGpusError):
            watch.run(nvml.stop)
    assert [report.devices for report in reports] == [(), ()]
    assert reasons(a_life(notes, a_gpu(0)))["GPU-0"] == TAKEN_IN_PARTS
