"""From a report of NVML to devices on the board and a specification on the disk."""

import json
import threading
from pathlib import Path

from prometheus_client import CollectorRegistry

from cluster.objects.inventory import Device
from deviceplugin.allocate import Strategy
from deviceplugin.board import Board
from deviceplugin.checkpoint import NAME, CheckpointFile
from deviceplugin.handout import LOOK_AGAIN_EVERY, Folders, Handout
from deviceplugin.metrics import AgentMetrics
from deviceplugin.nvml.inventory import NodeDevice
from deviceplugin.nvml.watch import Report
from tests.fakes.clock import FakeClock, eventually


class Machine:
    """A machine with four device nodes and an agent's first half."""

    def __init__(self, root: Path, strategy: Strategy = Strategy.CDI) -> None:
        self.dev, self.cdi = root / "dev", root / "cdi"
        self.dev.mkdir()
        for name in ("nvidia0", "nvidia1", "nvidiactl"):
            (self.dev / name).touch()
        self.board = Board()
        self.clock = FakeClock()
        self.registry = CollectorRegistry()
        folders = Folders(cdi=self.cdi, dev_root=self.dev, host_dev_root=self.dev, driver_root=root / "none")
        self.handout = Handout(
            self.board,
            strategy,
            folders,
            record=CheckpointFile(root, "nvidia.com/gpu"),
            metrics=AgentMetrics(self.registry),
            clock=self.clock,
        )

    def report(self, *devices: NodeDevice, problem: str | None = None) -> None:
        self.handout.take(Report(devices, problem))

    def in_spec(self) -> set[str]:
        spec = json.loads((self.cdi / "gpu-booking.io-gpu.json").read_text())
        return {device["name"] for device in spec["devices"]}


def gpu(index: int) -> NodeDevice:
    published = Device(uuid=f"GPU-{index}", index=index, model="NVIDIA-A100")
    return NodeDevice(published=published, minor=index, pci=f"0000:0{index}:00.0")


def test_before_the_first_report_nothing_is_known(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert not machine.board.now.reported
    assert not machine.handout.has_devices.is_set()


def test_gpus_are_handed_out_with_a_specification(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.report(gpu(0), gpu(1))
    assert machine.in_spec() == {"GPU-0", "GPU-1"}
    assert all(device.is_healthy for device in machine.board.now.devices)
    assert machine.handout.has_devices.is_set()
    assert machine.registry.get_sample_value("gpu_booking_agent_devices", {"health": "healthy"}) == 2


def test_a_gpu_without_node_is_not_in_the_specification(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.report(gpu(0), gpu(3))
    assert machine.in_spec() == {"GPU-0"}
    assert [device.is_healthy for device in machine.board.now.devices] == [True, False]


def test_a_folder_that_cannot_be_written_makes_every_gpu_unhealthy(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.cdi.write_text("a file where the folder should be")
    machine.report(gpu(0))
    (device,) = machine.board.now.devices
    assert (device.reason or "").startswith("The CDI specification cannot be written to")


def test_other_strategies_write_no_specification(tmp_path: Path) -> None:
    machine = Machine(tmp_path, Strategy.ENVIRONMENT)
    machine.report(gpu(0))
    assert not machine.cdi.exists()


def test_a_problem_without_gpus_is_told_and_nothing_is_handed_out(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.report(problem="NVML lists no GPU on this node")
    assert machine.board.now.problem == "NVML lists no GPU on this node"
    assert machine.board.now.reported
    assert not machine.handout.has_devices.is_set()
    assert not machine.cdi.exists()


def test_files_of_the_machine_that_come_or_go_later_are_seen(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.report(gpu(3))
    stop = threading.Event()
    thread = threading.Thread(target=machine.handout.run, args=(stop,))
    thread.start()
    (machine.dev / "nvidia3").touch()
    machine.clock.until_waiting()
    machine.clock.advance(LOOK_AGAIN_EVERY)
    eventually(lambda: machine.board.now.devices[0].is_healthy)
    (machine.cdi / "gpu-booking.io-gpu.json").unlink()
    machine.clock.until_waiting()
    machine.clock.advance(LOOK_AGAIN_EVERY)
    eventually((machine.cdi / "gpu-booking.io-gpu.json").exists)
    stop.set()
    thread.join()


def test_a_gpu_that_is_gone_after_a_restart_is_listed_as_long_as_the_record_has_it(tmp_path: Path) -> None:
    entry = {"PodUID": "a", "ContainerName": "main", "ResourceName": "nvidia.com/gpu"}
    data = {"PodDeviceEntries": [{**entry, "DeviceIDs": {"-1": ["GPU-7"]}}], "RegisteredDevices": {}}
    (tmp_path / NAME).write_text(json.dumps({"Data": data, "Checksum": 1}))
    machine = Machine(tmp_path)
    machine.report(gpu(0))
    assert [(d.uuid, d.is_healthy) for d in machine.board.now.devices] == [("GPU-0", True), ("GPU-7", False)]
    (tmp_path / NAME).unlink()
    machine.report(gpu(0), gpu(1))
    assert {d.uuid for d in machine.board.now.devices} == {"GPU-0", "GPU-1", "GPU-7"}
