"""What every implementation of the NVML interface does: the fake in memory, the adapter on the simulation."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from devcluster.fakenvml import FakeNvml, default_gpus, library
from devcluster.fakenvml.fake import RunningProcess
from deviceplugin.nvml.interface import (
    DriverMissingError,
    GpuLostError,
    GpuProcess,
    GpuUsage,
    Nvml,
    NvmlError,
)
from deviceplugin.nvml.real import RealNvml
from tests.fakes.nvml import MemoryNvml, a_gpu, no_driver

BUSY = GpuUsage(
    utilisation=87,
    memory_activity=43,
    memory_used=20 << 30,
    memory_total=80 << 30,
    temperature=61,
    power=288.0,
    processes=(GpuProcess(7, 3 << 30), GpuProcess(8, 1 << 30)),
)


@dataclass
class Bench:
    """An implementation with four GPUs of which the first two are A100, and what can happen to them."""

    nvml: Nvml
    lose: Callable[[int], None]
    recover: Callable[[int], None]
    ask_for: Callable[[int, int], object]
    unload: Callable[[], None]
    use_up: Callable[[int, GpuUsage], None]


def in_memory() -> Bench:
    names = ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", "NVIDIA RTX A6000", "NVIDIA RTX A6000")
    nvml = MemoryNvml([a_gpu(index, name) for index, name in enumerate(names)])
    nvml.gpus[0].links = [nvml.gpus[1].facts.pci] * 12

    def lost(index: int, now: bool) -> None:  # noqa: FBT001 - two verbs of one switch
        nvml.gpus[index].lost = now

    def ask_for(index: int, action: int) -> None:
        nvml.gpus[index].action = action

    def unload() -> None:
        nvml.fault = no_driver()

    def use_up(index: int, usage: GpuUsage) -> None:
        nvml.gpus[index].usage = usage

    return Bench(
        nvml, lambda index: lost(index, True), lambda index: lost(index, False), ask_for, unload, use_up
    )


def simulated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    fake = FakeNvml(folder)
    fake.create(default_gpus(0))
    for name, value in fake.environment().items():
        monkeypatch.setenv(name, value)

    def use_up(index: int, usage: GpuUsage) -> None:
        assert usage.utilisation is not None
        assert usage.temperature is not None
        fake.used(index, percent=usage.utilisation, degrees=usage.temperature, watts=int(usage.power or 0))
        fake.memory_used(index, usage.memory_used or 0)
        fake.processes(index, *(RunningProcess(one.pid, one.memory or 0) for one in usage.processes))

    return Bench(
        RealNvml(library()),
        fake.lose,
        fake.recover,
        fake.recovery_action,
        lambda: fake.init_error(9),
        use_up,
    )


@pytest.fixture(params=["in memory", "simulated library"])
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Both, one after the other; not open yet."""
    made = in_memory() if request.param == "in memory" else simulated(tmp_path, monkeypatch)
    yield made
    made.nvml.close()


def test_calls_before_open_are_refused(bench: Bench) -> None:
    with pytest.raises(NvmlError):
        bench.nvml.count()


def test_open_finds_the_gpus_and_close_forgets_them(bench: Bench) -> None:
    bench.nvml.open()
    assert bench.nvml.count() == 4
    bench.nvml.close()
    with pytest.raises(NvmlError):
        bench.nvml.count()


def test_a_gpu_is_described(bench: Bench) -> None:
    bench.nvml.open()
    facts = bench.nvml.facts(bench.nvml.uuid(2))
    assert (facts.name, facts.minor) == ("NVIDIA RTX A6000", 2)
    assert facts.pci.startswith("0000:")
    assert facts.pci == facts.pci.lower()


def test_the_facts_for_labels_are_reported(bench: Bench) -> None:
    bench.nvml.open()
    assert bench.nvml.cuda_version() == (13, 0)
    ends = bench.nvml.uuid(0), bench.nvml.uuid(2)
    assert bench.nvml.topology_level(*ends) in {None, 50}


def test_links_name_the_device_at_the_other_end(bench: Bench) -> None:
    bench.nvml.open()
    first, second, third = (bench.nvml.uuid(index) for index in range(3))
    assert list(bench.nvml.links(first)) == [bench.nvml.facts(second).pci] * 12
    assert list(bench.nvml.links(third)) == []


def test_a_gpu_without_mig_has_no_mig_devices(bench: Bench) -> None:
    bench.nvml.open()
    assert bench.nvml.mig(bench.nvml.uuid(0)) is None
    assert bench.nvml.mig(bench.nvml.uuid(2)) is None


def test_an_index_past_the_last_gpu_is_refused(bench: Bench) -> None:
    bench.nvml.open()
    with pytest.raises(NvmlError) as caught:
        bench.nvml.uuid(4)
    assert caught.value.code == 2


def test_an_unknown_gpu_is_not_found(bench: Bench) -> None:
    bench.nvml.open()
    with pytest.raises(NvmlError) as caught:
        bench.nvml.recovery_action("GPU-unknown")
    assert caught.value.code == 6


def test_a_lost_gpu_raises_its_own_error_until_it_is_back(bench: Bench) -> None:
    bench.nvml.open()
    uuid = bench.nvml.uuid(1)
    bench.lose(1)
    calls = (
        bench.nvml.facts,
        bench.nvml.mig,
        bench.nvml.links,
        bench.nvml.recovery_action,
        bench.nvml.touch,
    )
    for call in calls:
        with pytest.raises(GpuLostError):
            call(uuid)
    with pytest.raises(GpuLostError):
        bench.nvml.uuid(1)
    bench.recover(1)
    bench.nvml.touch(uuid)
    assert bench.nvml.recovery_action(uuid) == 0


def test_a_lost_gpu_fails_the_wait_of_the_stream_that_has_it(bench: Bench) -> None:
    bench.nvml.open()
    stream = bench.nvml.events([bench.nvml.uuid(0)])
    bench.lose(0)
    with pytest.raises(GpuLostError):
        stream.wait(5)
    stream.close()


def test_the_recovery_action_that_the_driver_asks_for_is_reported(bench: Bench) -> None:
    bench.nvml.open()
    uuid = bench.nvml.uuid(0)
    assert bench.nvml.recovery_action(uuid) == 0
    bench.ask_for(0, 2)
    assert bench.nvml.recovery_action(uuid) == 2


def test_without_a_driver_it_does_not_open(bench: Bench) -> None:
    bench.unload()
    with pytest.raises(DriverMissingError):
        bench.nvml.open()


def test_the_usage_of_a_gpu_is_reported_in_the_units_of_the_interface(bench: Bench) -> None:
    bench.nvml.open()
    uuid = bench.nvml.uuid(0)
    bench.use_up(0, BUSY)
    assert bench.nvml.usage(uuid, ()) == BUSY


def test_the_usage_of_a_lost_gpu_cannot_be_reported(bench: Bench) -> None:
    bench.nvml.open()
    uuid = bench.nvml.uuid(0)
    bench.lose(0)
    with pytest.raises(GpuLostError):
        bench.nvml.usage(uuid, ())
