"""What the watching thread measures of every GPU, step by step on a virtual clock."""

from collections.abc import Callable

from deviceplugin.nvml.interface import GpuEvent, GpuProcess, GpuUsage, MigFacts
from deviceplugin.nvml.watch import GpuWatch, Periods, UsageReport
from tests.fakes.nvml import MemoryNvml, a_gpu, xid

EVERY_SECOND = Periods(wait=1.0)
Step = Callable[[], GpuEvent | None]


def nothing() -> None:
    """A wait in which nothing happens."""


def measured(nvml: MemoryNvml, *script: Step) -> list[UsageReport]:
    """What is measured while the script happens."""
    nvml.script.extend(script)
    reports: list[UsageReport] = []
    GpuWatch(
        nvml, lambda _: 0, lambda _: None, clock=nvml, periods=EVERY_SECOND, measured=reports.append
    ).run(nvml.stop)
    return reports


def test_the_usage_of_every_gpu_is_measured_every_ten_seconds() -> None:
    nvml = MemoryNvml([a_gpu(0), a_gpu(1)])
    nvml.gpus[0].usage = GpuUsage(utilisation=87, processes=(GpuProcess(7, 1 << 30),))

    def rest() -> None:
        nvml.gpus[0].usage = GpuUsage(utilisation=0)

    reports = measured(nvml, *[nothing] * 5, rest, *[nothing] * 20)
    assert [one.of["GPU-0"].utilisation for one in reports] == [87, 0, 0]
    assert reports[0].of.keys() == {"GPU-0", "GPU-1"}
    assert [device.uuid for device in reports[0].devices] == ["GPU-0", "GPU-1"]


def test_a_gpu_that_is_lost_is_not_measured_and_the_others_are() -> None:
    nvml = MemoryNvml([a_gpu(0), a_gpu(1)])

    def lose() -> None:
        nvml.gpus[0].lost = True

    reports = measured(nvml, nothing, lose, *[nothing] * 12)
    assert [sorted(one.of) for one in reports] == [["GPU-0", "GPU-1"], ["GPU-1"]]


def test_the_memory_of_every_mig_device_is_measured() -> None:
    nvml = MemoryNvml([a_gpu(0)])
    nvml.gpus[0].mig = [MigFacts("MIG-0", "1g.10gb", 1, 0, 9856)]
    nvml.gpus[0].usage = GpuUsage(parts={"MIG-0": 5, "MIG-of-another": 6})
    (report,) = measured(nvml, nothing)
    assert report.of["GPU-0"].parts == {"MIG-0": 5}


def test_a_flood_of_events_does_not_stop_the_measuring() -> None:
    nvml = MemoryNvml([a_gpu(0)])
    assert len(measured(nvml, *[lambda: xid("GPU-0", 13)] * 25)) == 3
