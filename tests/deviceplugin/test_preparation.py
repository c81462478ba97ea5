"""From a report of NVML to devices in the cache and a specification on the disk."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from cluster import names
from cluster.fake.clock import FakeClock
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from deviceplugin.advertised import AdvertisingOptions
from deviceplugin.device_cache import DeviceCache
from deviceplugin.injection.host_cdi_files import HostFolders
from deviceplugin.injection.mps_daemons import MpsDaemons
from deviceplugin.injection.strategy import Strategy, injection_of
from deviceplugin.kubelet.checkpoint import NAME, CheckpointFile
from deviceplugin.metrics import AgentMetrics
from deviceplugin.nvml.health import State
from deviceplugin.nvml.inventory import NodeDevice
from deviceplugin.nvml.watch import NvmlReport
from deviceplugin.preparation import (
    HOLDERS_EVERY,
    RECHECK_EVERY,
    UNRESPONSIVE,
    UNRESPONSIVE_AFTER,
    Folders,
    Preparation,
)
from tests.threads import running


class Machine:
    """A machine with three device nodes, and the half of an agent that prepares devices."""

    def __init__(
        self,
        root: Path,
        strategy: Strategy = Strategy.CDI,
        host: HostFolders | None = None,
        driver_root: Path | None = None,
        slots: int = 0,
        mps: Path | None = None,
        way: AdvertisingOptions | None = None,
    ) -> None:
        way = way or AdvertisingOptions(strategy=strategy, slots=slots, reserve=512)
        self.pods: tuple[Pod, ...] | None = None
        self.claimed: frozenset[str] | None = frozenset()
        self.dev, self.cdi = root / "dev", root / "cdi"
        self.dev.mkdir()
        for name in ("nvidia0", "nvidia1", "nvidiactl"):
            (self.dev / name).touch()
        self.device_cache = DeviceCache()
        self.clock = FakeClock()
        self.silence = 0.0
        self.registry = CollectorRegistry()
        folders = Folders(
            cdi=self.cdi,
            dev_root=self.dev,
            host_dev_root=self.dev,
            driver_root=driver_root or root / "none",
        )
        self.closed: str | None = None
        self.preparation = Preparation(
            self.device_cache,
            way,
            folders,
            checkpoint=CheckpointFile(root, names.GPU_RESOURCE),
            pods=lambda: self.pods,
            claimed=lambda: self.claimed,
            closed=lambda: self.closed,
            host=host,
            daemons=MpsDaemons(mps, self.clock),
            metrics=AgentMetrics(self.registry),
            clock=self.clock,
        )

    def report(self, *devices: NodeDevice, problem: str | None = None) -> None:
        self.preparation.update(NvmlReport(devices, problem))

    @contextmanager
    def checking(self) -> Iterator[None]:
        """The thread that checks again now and then, while the driver is unresponsive for ``silence``."""
        stop = threading.Event()
        with running([partial(self.preparation.run, stop, lambda: self.silence)], stop):
            yield

    def check_again(self) -> None:
        """Let that thread check, and wait until it has."""
        self.clock.until_waiting()
        self.clock.advance(RECHECK_EVERY)
        self.clock.until_waiting()

    def state(self, uuid: str) -> dict[str, str]:
        """State -> reason of a device, as the metrics have it."""
        samples = [sample for metric in self.registry.collect() for sample in metric.samples]
        return {
            sample.labels["state"]: sample.labels["reason"]
            for sample in samples
            if sample.name == f"{names.METRICS_PREFIX}_agent_device_state" and sample.labels["device"] == uuid
        }

    def names_of(self, *uuids: str) -> list[str]:
        """How a container's devices are called to the container runtime."""
        return list(injection_of(uuids, Strategy.CDI, self.device_cache.now.nodes).cdi_devices)

    def in_spec(self) -> set[str]:
        return {device["name"] for device in self.spec()["devices"]}

    def spec(self) -> dict[str, Any]:
        """The specification on the disk."""
        spec: dict[str, Any] = json.loads((self.cdi / f"{names.DOMAIN}-gpu.json").read_text())
        return spec


def gpu(index: int) -> NodeDevice:
    published = Device(uuid=f"GPU-{index}", index=index, model="NVIDIA-A100")
    return NodeDevice(published=published, minor=index, pci=f"0000:0{index}:00.0")


def test_a_gpu_that_a_claim_has_goes_to_nobody_else_and_none_does_if_that_is_not_known(
    tmp_path: Path,
) -> None:
    """The node gave its GPUs by claims until a moment ago."""
    machine = Machine(tmp_path)
    healthy: dict[frozenset[str] | None, list[str]] = {}
    for claimed in (frozenset[str](), frozenset({"GPU-0"}), None):
        machine.claimed = claimed
        machine.report(gpu(0), gpu(1))
        now = machine.device_cache.now
        healthy[claimed] = [device.uuid for device in now.devices if device.is_healthy]
        assert healthy[claimed] == [one.uuid for one in now.listed[names.GPU_RESOURCE] if one.is_healthy]
    assert list(healthy.values()) == [["GPU-0", "GPU-1"], ["GPU-1"], []]


def test_a_closed_node_gives_no_gpu_to_new_pods_and_those_that_have_one_may_start_again(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path)
    machine.closed = "The node changes"
    machine.preparation.cordon({"GPU-1": "alice"})
    machine.report(gpu(0), gpu(1))
    now = machine.device_cache.now
    assert [device.reason for device in now.listed[names.GPU_RESOURCE]] == [
        "The node changes",
        "Cordoned by alice",
    ]
    assert (now.closed, now.cordoned) == ({"GPU-0"}, {"GPU-1"})
    assert all(device.is_healthy for device in now.startable.values())


def test_a_node_of_claims_is_open_again_soon_after_nothing_keeps_it_closed(tmp_path: Path) -> None:
    machine = Machine(tmp_path, way=AdvertisingOptions.of_claims(Strategy.CDI))
    machine.closed = "Another plugin is here"
    machine.report(gpu(0))
    with machine.checking():
        machine.clock.until_waiting()
        machine.closed = None
        machine.clock.advance(HOLDERS_EVERY)
        machine.clock.until_waiting()
    assert all(device.is_healthy for device in machine.device_cache.now.devices)


def test_reported_gpus_are_advertised_and_written_in_the_specification(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.report(gpu(0), gpu(1))
    assert machine.in_spec() == {"GPU-0", "GPU-1"}
    assert all(device.is_healthy for device in machine.device_cache.now.devices)
    assert machine.device_cache.now.listed
    assert machine.registry.get_sample_value("gpu_booking_agent_devices", {"health": "healthy"}) == 2


def test_the_specification_has_the_hook_for_the_loader_s_cache(tmp_path: Path) -> None:
    host = tmp_path / "host"
    for program in ("bin/sh", "sbin/ldconfig", "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.159.04"):
        (host / program).parent.mkdir(parents=True, exist_ok=True)
        (host / program).touch()
    machine = Machine(tmp_path, driver_root=host)
    machine.report(gpu(0))
    (hook,) = machine.spec()["containerEdits"]["hooks"]
    assert hook["hookName"] == "createContainer"
    assert hook["args"][-2:] == ["/sbin/ldconfig", "/usr/lib/x86_64-linux-gnu"]


def test_claims_get_the_driver_s_files_that_were_found_last(tmp_path: Path) -> None:
    """Looking for them takes a while, for which containers would wait."""
    folder = tmp_path / "driver/usr/lib"
    folder.mkdir(parents=True)
    library = folder / "libnvidia-ml.so.580.1"
    library.touch()
    machine = Machine(tmp_path, driver_root=tmp_path / "driver")
    found = machine.preparation.mounts()
    assert [mount.path for mount in found] == ["/usr/lib/libnvidia-ml.so.580.1"]
    machine.report(gpu(0))
    library.rename(folder / "libnvidia-ml.so.590.1")
    assert machine.preparation.mounts() == found
    machine.report(gpu(0))
    assert [mount.path for mount in machine.preparation.mounts()] == ["/usr/lib/libnvidia-ml.so.590.1"]


def test_an_unwritable_folder_makes_every_gpu_unhealthy(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.cdi.write_text("a file where the folder should be")
    machine.report(gpu(0))
    (device,) = machine.device_cache.now.devices
    assert (device.reason or "").startswith("The CDI specification cannot be written to")


def test_a_missing_device_node_of_unified_memory_is_reported_once_with_the_remedy(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with capture_logs() as lines:
        machine.report(gpu(0))
        machine.report(gpu(0), gpu(1))
    sentences = [line["message"] for line in lines if line["event"] == "CUDA will not work in containers"]
    (message,) = sentences
    assert message.startswith(f"There is no {machine.dev}/nvidia-uvm: run `nvidia-modprobe -u -c=0` on this")
    assert all(device.is_healthy for device in machine.device_cache.now.devices)
    with capture_logs() as lines:
        (machine.dev / "nvidia-uvm").touch()
        machine.report(gpu(0))
        (machine.dev / "nvidia-uvm").unlink()
        machine.report(gpu(0))
    assert len([line for line in lines if line["event"] == "CUDA will not work in containers"]) == 1


@pytest.mark.parametrize(
    ("strategy", "warnings"), [(Strategy.ENVIRONMENT, 0), (Strategy.DEVICE_NODES, 1), (Strategy.CDI, 1)]
)
def test_a_missing_unified_memory_node_is_reported_only_where_we_give_device_nodes(
    tmp_path: Path, strategy: Strategy, warnings: int
) -> None:
    machine = Machine(tmp_path, strategy)
    with capture_logs() as lines:
        machine.report(gpu(0))
    assert len([line for line in lines if line["event"] == "CUDA will not work in containers"]) == warnings


def test_a_problem_without_gpus_is_reported_and_nothing_is_advertised(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.report(problem="NVML lists no GPU on this node")
    assert machine.device_cache.now.problem == "NVML lists no GPU on this node"
    assert machine.device_cache.now.reported
    assert not machine.device_cache.now.listed
    assert not machine.cdi.exists()


def test_files_of_the_machine_that_appear_or_disappear_later_are_noticed(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.report(gpu(3))
    with machine.checking():
        (machine.dev / "nvidia3").touch()
        machine.check_again()
        assert machine.device_cache.now.devices[0].is_healthy
        (machine.cdi / f"{names.DOMAIN}-gpu.json").unlink()
        machine.check_again()
        assert (machine.cdi / f"{names.DOMAIN}-gpu.json").exists()


def test_a_hanging_driver_makes_every_gpu_unhealthy_until_it_answers(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    unhealthy = gpu(1).as_unhealthy("XID 79: GPU has fallen off the bus")
    machine.report(gpu(0), unhealthy)
    with machine.checking():
        machine.silence = UNRESPONSIVE_AFTER - 1
        machine.check_again()
        assert [device.reason for device in machine.device_cache.now.devices] == [
            None,
            unhealthy.published.reason,
        ]
        for silence in (UNRESPONSIVE_AFTER, UNRESPONSIVE_AFTER + 100):
            machine.silence = silence
            machine.check_again()
            assert [device.reason for device in machine.device_cache.now.devices] == [
                UNRESPONSIVE,
                unhealthy.published.reason,
            ]
            assert machine.device_cache.now.problem == UNRESPONSIVE
            assert machine.in_spec() == {"GPU-0", "GPU-1"}, "containers that run may restart"
        machine.silence = 0
        machine.check_again()
        assert [device.reason for device in machine.device_cache.now.devices] == [
            None,
            unhealthy.published.reason,
        ]
        assert machine.device_cache.now.problem is None
    assert UNRESPONSIVE == "The driver has not answered for 60 s"


def test_a_driver_that_hangs_from_the_start_is_reported_even_if_no_gpu_is_known(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with machine.checking():
        machine.check_again()
        assert not machine.device_cache.now.reported
        machine.silence = UNRESPONSIVE_AFTER
        machine.check_again()
        assert machine.device_cache.now.reported
        assert machine.device_cache.now.problem == UNRESPONSIVE
        machine.silence = 0
        machine.report(gpu(0))
        machine.check_again()
        assert machine.device_cache.now.devices[0].is_healthy


def test_a_gpu_missing_after_a_restart_is_listed_as_long_as_the_checkpoint_has_it(tmp_path: Path) -> None:
    entry = {"PodUID": "a", "ContainerName": "main", "ResourceName": names.GPU_RESOURCE}
    data = {"PodDeviceEntries": [{**entry, "DeviceIDs": {"-1": ["GPU-7"]}}], "RegisteredDevices": {}}
    (tmp_path / NAME).write_text(json.dumps({"Data": data, "Checksum": 1}))
    machine = Machine(tmp_path)
    machine.report(gpu(0))
    assert [(d.uuid, d.is_healthy) for d in machine.device_cache.now.devices] == [
        ("GPU-0", True),
        ("GPU-7", False),
    ]
    (tmp_path / NAME).unlink()
    machine.report(gpu(0), gpu(1))
    assert {d.uuid for d in machine.device_cache.now.devices} == {"GPU-0", "GPU-1", "GPU-7"}


def test_a_cordoned_device_gets_no_new_pods_but_its_pod_may_restart(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.report(gpu(0), gpu(1))
    machine.preparation.cordon({"GPU-0": "alice: the fan is loud"})
    cordoned, other = machine.device_cache.now.devices
    assert (cordoned.health, cordoned.reason) == ("unhealthy", "Cordoned by alice: the fan is loud")
    assert other.is_healthy
    assert machine.device_cache.now.startable["GPU-0"].is_healthy
    assert machine.state("GPU-0") == {"cordoned": cordoned.reason}
    machine.preparation.cordon({})
    assert all(device.is_healthy for device in machine.device_cache.now.devices)
    assert machine.state("GPU-0") == {"healthy": ""}


def test_a_cordon_stays_before_and_after_any_report_of_nvml(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.preparation.cordon({"GPU-0": "alice: x"})
    machine.report(gpu(0), gpu(1))
    machine.report(gpu(0).as_unhealthy("XID 48"), gpu(1))
    assert machine.device_cache.now.devices[0].reason == "XID 48"
    assert not machine.device_cache.now.startable["GPU-0"].is_healthy
    machine.report(gpu(0), gpu(1))
    assert machine.device_cache.now.devices[0].reason == "Cordoned by alice: x"


def test_a_cordon_of_a_gpu_counts_while_the_driver_hangs(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.report(gpu(0), gpu(1))
    machine.silence = UNRESPONSIVE_AFTER
    with machine.checking():
        machine.check_again()
    machine.preparation.cordon({"GPU-0": "alice: x"})
    assert [device.reason for device in machine.device_cache.now.devices] == [UNRESPONSIVE, UNRESPONSIVE]


def test_metrics_show_only_the_present_state_of_each_device(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.report(gpu(0).as_unhealthy("lost", State.SUSPECT), gpu(1))
    assert machine.state("GPU-0") == {"suspect": "lost"}
    (machine.dev / "nvidia1").unlink()
    machine.report(gpu(0).as_unhealthy("XID 48; recovering", State.RECOVERING), gpu(1))
    assert machine.state("GPU-0") == {"recovering": "XID 48; recovering"}
    assert machine.state("GPU-1") == {"unhealthy": "The device node /dev/nvidia1 is missing"}


def test_the_host_s_specification_is_judged_by_the_driver_s_files_that_were_found_last(
    tmp_path: Path,
) -> None:
    """Looking for them takes a while, and what containers get of them changes only with the next look."""
    run, folder = tmp_path / "run", tmp_path / "driver/usr/lib"
    run.mkdir()
    folder.mkdir(parents=True)
    library = folder / "libnvidia-ml.so.580.1"
    library.touch()
    mounted = [{"hostPath": f"/usr/lib/{library.name}", "containerPath": f"/usr/lib/{library.name}"}]
    devices = [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}]
    spec = {"kind": names.GPU_RESOURCE, "devices": devices, "containerEdits": {"mounts": mounted}}
    (run / "nvidia.json").write_text(json.dumps(spec))
    machine = Machine(tmp_path, host=HostFolders((run,)), driver_root=tmp_path / "driver")
    machine.report(gpu(0))
    library.rename(folder / "libnvidia-ml.so.590.1")
    machine.preparation.cordon({})
    assert machine.names_of("GPU-0") == ["nvidia.com/gpu=0"]
    machine.report(gpu(0))
    assert machine.names_of("GPU-0") == [f"{names.CDI_KIND}=GPU-0"]


def test_a_suitable_specification_of_the_host_gives_the_names_and_ours_is_still_written(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    machine = Machine(tmp_path, host=HostFolders((run,)))
    machine.report(gpu(0), gpu(1))
    assert machine.names_of("GPU-0", "GPU-1") == [f"{names.CDI_KIND}=GPU-0", f"{names.CDI_KIND}=GPU-1"]
    nodes = [[{"path": f"/dev/nvidia{number}"}] for number in range(2)]
    devices = [
        {"name": str(number), "containerEdits": {"deviceNodes": own}} for number, own in enumerate(nodes)
    ]
    file = run / "nvidia.json"
    file.write_text(json.dumps({"kind": names.GPU_RESOURCE, "devices": devices}))
    machine.report(gpu(0), gpu(1))
    assert machine.names_of("GPU-1", "GPU-0") == ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]
    assert machine.in_spec() == {"GPU-0", "GPU-1"}
    file.unlink()
    machine.report(gpu(0), gpu(1))
    assert machine.names_of("GPU-1") == [f"{names.CDI_KIND}=GPU-1"]
