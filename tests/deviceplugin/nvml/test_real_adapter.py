"""The adapter over NVIDIA's binding, on the simulated library."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.process.clock import SystemClock
from devcluster.fakenvml import FakeNvml, default_gpus, library, mig, split
from devcluster.fakenvml.fake import RunningProcess
from deviceplugin.nvml.interface import (
    EventKind,
    GpuEvent,
    GpuLostError,
    GpuProcess,
    LibraryMissingError,
    NvmlError,
    Placement,
)
from deviceplugin.nvml.inventory import NodeDevice, read_inventory
from deviceplugin.nvml.numa import numa_from_sysfs
from deviceplugin.nvml.real import RealNvml
from deviceplugin.nvml.watch import GpuWatch, NvmlReport, Periods


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A node of the development cluster."""
    fake = FakeNvml(tmp_path / "gpus")
    fake.create(default_gpus(0))
    for name, value in fake.environment().items():
        monkeypatch.setenv(name, value)
    return fake


@pytest.fixture
def nvml(fake: FakeNvml) -> Iterator[RealNvml]:
    """The adapter, open."""
    assert len(fake.uuids()) == 4
    nvml = RealNvml(library())
    nvml.open()
    yield nvml
    nvml.close()


def inventory(nvml: RealNvml, fake: FakeNvml) -> tuple[NodeDevice, ...]:
    return read_inventory(nvml, numa_from_sysfs(fake.sys_root))


def test_the_inventory_of_a_node_of_the_development_cluster_is_read(nvml: RealNvml, fake: FakeNvml) -> None:
    devices = inventory(nvml, fake)
    assert [device.uuid for device in devices] == list(fake.uuids())
    assert [device.published.model for device in devices] == [
        "NVIDIA-A100-SXM4-80GB",
        "NVIDIA-A100-SXM4-80GB",
        "NVIDIA-RTX-A6000",
        "NVIDIA-RTX-A6000",
    ]
    assert [device.published.memory for device in devices] == [81920, 81920, 49140, 49140]
    assert all(device.facts is not None and device.facts.reserved_mib > 0 for device in devices)
    assert [device.published.numa for device in devices] == [0, 0, 1, 1]
    assert [device.minor for device in devices] == [0, 1, 2, 3]
    assert devices[0].published.links == {devices[1].uuid: 12}
    assert devices[1].published.links == {devices[0].uuid: 12}
    assert devices[2].published.links is None
    assert nvml.driver_version() == "580.159.04"


def test_mig_devices_are_read_with_profile_and_instances(nvml: RealNvml, fake: FakeNvml) -> None:
    fake.mig(1, mig(default_gpus(0)[1], ["3g.40gb", "1g.10gb"]))
    parts = [device for device in inventory(nvml, fake) if device.published.parent]
    assert [part.published.profile for part in parts] == ["3g.40gb", "1g.10gb"]
    assert {part.published.parent for part in parts} == {fake.uuids()[1]}
    assert [(part.gpu_instance, part.compute_instance, part.minor) for part in parts] == [
        (1, 0, 1),
        (2, 0, 1),
    ]
    assert [part.part and part.part.placement for part in parts] == [Placement(4, 4), Placement(3, 1)]


def test_compute_instances_of_one_gpu_instance_have_one_place(nvml: RealNvml, fake: FakeNvml) -> None:
    fake.mig(1, split(mig(default_gpus(0)[1], ["3g.40gb"])[0], 3))
    parts = nvml.mig(nvml.uuid(1)) or ()
    assert [(part.profile, part.compute_instance) for part in parts] == [
        ("1c.3g.40gb", number) for number in range(3)
    ]
    assert {part.placement for part in parts} == {Placement(4, 4)}


def test_events_name_their_gpu_even_if_it_is_lost(nvml: RealNvml, fake: FakeNvml) -> None:
    uuids = [nvml.uuid(index) for index in range(4)]
    stream = nvml.events(uuids)
    assert stream.events_unavailable == {}
    fake.xid(2, 79)
    fake.lose(2)
    assert stream.wait(5) == GpuEvent(uuids[2], EventKind.XID, 79)
    with pytest.raises(GpuLostError):
        stream.wait(5)
    stream.close()


def test_a_gpu_without_events_is_named_and_events_of_the_others_are_received(
    nvml: RealNvml, fake: FakeNvml
) -> None:
    uuids = [nvml.uuid(index) for index in range(2)]
    fake.error("nvmlDeviceRegisterEvents", 0, 999)
    stream = nvml.events(uuids)
    assert {uuid: error.code for uuid, error in stream.events_unavailable.items()} == {uuids[0]: 999}
    fake.xid(1, 62)
    assert stream.wait(5) == GpuEvent(uuids[1], EventKind.XID, 62)
    stream.close()


def test_a_card_without_recovery_actions_asks_for_none(nvml: RealNvml, fake: FakeNvml) -> None:
    uuid = nvml.uuid(0)
    fake.recovery_action(0, 4)
    assert nvml.recovery_action(uuid) == 4
    fake.recovery_action(0, -1)
    assert nvml.recovery_action(uuid) == 0


def test_a_lost_gpu_is_noticed_in_the_answer_for_one_field(nvml: RealNvml, fake: FakeNvml) -> None:
    uuid = nvml.uuid(0)
    fake.lose(0)
    with pytest.raises(GpuLostError, match="nvmlDeviceGetFieldValues") as caught:
        nvml.recovery_action(uuid)
    assert (caught.value.code, caught.value.device) == (15, uuid)


@pytest.mark.parametrize("code", [2, 3])
def test_a_driver_without_recovery_actions_asks_for_none(nvml: RealNvml, fake: FakeNvml, code: int) -> None:
    uuid = nvml.uuid(0)
    fake.field_error(0, code)
    assert nvml.recovery_action(uuid) == 0


def test_any_other_error_of_the_field_is_an_error(nvml: RealNvml, fake: FakeNvml) -> None:
    uuid = nvml.uuid(0)
    fake.field_error(0, 999)
    with pytest.raises(NvmlError, match=r"^nvmlDeviceGetFieldValues answers .*\(NVML error 999\)"):
        nvml.recovery_action(uuid)


def test_a_lost_gpu_whose_driver_has_no_recovery_actions_is_noticed(nvml: RealNvml, fake: FakeNvml) -> None:
    uuid = nvml.uuid(0)
    fake.recovery_action(0, -1)
    fake.lose(0)
    assert nvml.recovery_action(uuid) == 0
    with pytest.raises(GpuLostError):
        nvml.touch(uuid)


@pytest.mark.parametrize("code", [3, 4])
def test_a_gpu_that_refuses_the_memory_call_counts_as_answering(
    nvml: RealNvml, fake: FakeNvml, code: int
) -> None:
    uuid = nvml.uuid(0)
    fake.error("nvmlDeviceGetMemoryInfo", 0, code)
    nvml.touch(uuid)


@pytest.mark.parametrize(
    ("call", "field"), [("nvmlDeviceGetMemoryInfo", "memory_mib"), ("nvmlDeviceGetMinorNumber", "minor")]
)
def test_values_that_a_card_does_not_support_are_unknown(
    nvml: RealNvml, fake: FakeNvml, call: str, field: str
) -> None:
    uuid = nvml.uuid(0)
    fake.error(call, 0, 3)
    assert getattr(nvml.facts(uuid), field) is None


def test_a_missing_library_that_the_settings_name_is_reported(tmp_path: Path) -> None:
    with pytest.raises(LibraryMissingError, match="settings name cannot be loaded"):
        RealNvml(tmp_path / "libnvidia-ml.so.1").open()


def test_a_missing_library_is_reported_and_found_when_it_is_installed_later(fake: FakeNvml) -> None:
    code = """
import os
from pathlib import Path
from deviceplugin.nvml.interface import LibraryMissingError
from deviceplugin.nvml.real import RealNvml
try:
    RealNvml().open()
except LibraryMissingError as error:
    print(error)
nvml = RealNvml(Path(os.environ["GPU_BOOKING_NVML_LIBRARY"]))
nvml.open()
print(nvml.count())
"""
    root = Path(__file__).parents[3]
    environment = {**os.environ, **fake.environment(), "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    message, count = done.stdout.splitlines()
    assert message.startswith("There is no NVML library (libnvidia-ml.so.1) on this node: install")
    assert count == "4"


class Watched:
    """A watching thread on the simulated library, and what it has reported last."""

    def __init__(self, fake: FakeNvml) -> None:
        self.fake = fake
        self.reports: list[NvmlReport] = []
        self.clock = SystemClock()
        self.stop = threading.Event()
        self.watch = GpuWatch(
            RealNvml(library()),
            numa_from_sysfs(fake.sys_root),
            self.reports.append,
            clock=self.clock,
            periods=Periods(wait=0.05, probe=0.05, retry=0.05, restart=1.0, rescan=1.0),
        )
        self.thread = threading.Thread(target=self.watch.run, args=(self.stop,))

    def until(self, condition: Callable[[], bool]) -> None:
        """Poll until the condition holds."""
        deadline, never = self.clock.monotonic() + 30, threading.Event()
        while not condition():
            assert self.clock.monotonic() < deadline, f"last report: {self.reports[-1:]}"
            self.clock.wait(never, 0.01)

    def reason(self, index: int) -> str | None:
        """Why the GPU is unhealthy, in the last report."""
        return next(
            device.published.reason
            for device in self.reports[-1].devices
            if device.uuid == self.fake.uuids()[index]
        )


@pytest.fixture
def watched(fake: FakeNvml) -> Iterator[Watched]:
    """A running thread that has reported four GPUs."""
    watched = Watched(fake)
    watched.thread.start()
    watched.until(lambda: bool(watched.reports) and len(watched.reports[-1].devices) == 4)
    yield watched
    fake.clear()
    fake.release("nvmlDeviceGetFieldValues")
    watched.stop.set()
    watched.thread.join(30)
    assert not watched.thread.is_alive()


def test_a_hanging_driver_stops_only_the_thread_and_is_noticed_by_its_silence(watched: Watched) -> None:
    watched.fake.hang("nvmlDeviceGetFieldValues")
    watched.until(lambda: watched.watch.unresponsive_for() > 0.5)
    watched.fake.release("nvmlDeviceGetFieldValues")
    watched.until(lambda: watched.watch.unresponsive_for() < 0.5)


def test_the_thread_finds_a_driver_that_comes_back(watched: Watched) -> None:
    watched.fake.init_error(9)
    watched.until(lambda: watched.reports[-1].problem is not None)
    assert watched.reports[-1].problem == "The NVIDIA driver is not loaded on this node."
    assert len(watched.reports[-1].devices) == 4
    watched.fake.init_error(0)
    watched.until(lambda: watched.reports[-1].problem is None and watched.reason(0) is None)


def test_values_that_a_card_or_a_driver_does_not_know_are_none(nvml: RealNvml, fake: FakeNvml) -> None:
    for call, code in {
        "nvmlDeviceGetUtilizationRates": 3,
        "nvmlDeviceGetTemperature": 13,
        "nvmlDeviceGetPowerUsage": 4,
        "nvmlDeviceGetComputeRunningProcesses": 3,
    }.items():
        fake.error(call, 0, code)
    fake.memory_used(0, 5 << 30)
    found = nvml.usage(nvml.uuid(0), ())
    assert (found.utilisation, found.memory_activity, found.temperature, found.power) == (None,) * 4
    assert (found.memory_used, found.processes) == (5 << 30, ())


def test_a_driver_without_the_newer_memory_call_gets_the_older_one(nvml: RealNvml, fake: FakeNvml) -> None:
    fake.memory_used(0, 5 << 30)
    fake.error("nvmlDeviceGetMemoryInfo_v2", 0, 13)
    reserved = default_gpus(0)[0].profile.reserved
    assert nvml.usage(nvml.uuid(0), ()).memory_used == (5 << 30) + reserved


def test_a_process_that_is_in_two_lists_is_reported_once(nvml: RealNvml, fake: FakeNvml) -> None:
    fake.processes(
        0,
        RunningProcess(9, 5, kind="g"),
        RunningProcess(7, 100),
        RunningProcess(8, 30),
        RunningProcess(8, 20, kind="m"),
    )
    assert nvml.usage(nvml.uuid(0), ()).processes == (
        GpuProcess(7, 100),
        GpuProcess(8, 30),
        GpuProcess(9, 5),
    )


def test_processes_and_memory_of_a_cut_gpu_are_reported_by_mig_device(nvml: RealNvml, fake: FakeNvml) -> None:
    parts = mig(default_gpus(0)[0], ["1g.10gb", "3g.40gb"])
    fake.mig(0, parts)
    first, second = parts
    fake.processes(
        0, RunningProcess(7, 4 << 30, first.gi, first.ci), RunningProcess(8, 1 << 30, second.gi, 0)
    )
    found = nvml.usage(nvml.uuid(0), (first.uuid, second.uuid, "MIG-that-has-gone"))
    assert found.parts == {first.uuid: 4 << 30, second.uuid: 1 << 30}
    assert found.processes == (
        GpuProcess(7, 4 << 30, first.gi, first.ci),
        GpuProcess(8, 1 << 30, second.gi, 0),
    )


def test_profiles_with_engines_of_their_own_have_their_exact_names(nvml: RealNvml, fake: FakeNvml) -> None:
    fake.mig(1, mig(default_gpus(0)[1], ["1g.10gb+me", "1g.10gb", "1g.20gb", "2g.20gb"]))
    parts = nvml.mig(nvml.uuid(1)) or ()
    assert [part.profile for part in parts] == ["1g.10gb+me", "1g.10gb", "1g.20gb", "2g.20gb"]


def test_profiles_have_plain_names_where_instances_may_not_be_read(nvml: RealNvml, fake: FakeNvml) -> None:
    fake.mig(1, mig(default_gpus(0)[1], ["1g.10gb+me"]))
    no_permission = 4
    fake.error("nvmlDeviceGetGpuInstanceById", 1, no_permission)
    assert [(part.profile, part.placement) for part in nvml.mig(nvml.uuid(1)) or ()] == [("1g.10gb", None)]


def test_gpus_that_are_bound_or_unbound_are_reported_once(nvml: RealNvml, fake: FakeNvml) -> None:
    fake.bound()
    stream = nvml.events([nvml.uuid(0)])
    assert not stream.rebound(), "that was before"
    for happens in (fake.bound, fake.unbound):
        happens()
        assert stream.rebound()
        assert not stream.rebound()
    fake.xid(0, 48)
    assert not stream.rebound()
    assert stream.wait(5) is not None, "the other events are not taken away"
    stream.close()
