"""From a report of NVML to devices on the board and a specification on the disk."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from cluster.objects.inventory import Device
from deviceplugin.allocate import Strategy
from deviceplugin.board import Board
from deviceplugin.checkpoint import NAME, CheckpointFile
from deviceplugin.handout import LONGEST_SILENCE, LOOK_AGAIN_EVERY, SILENT, Folders, Handout
from deviceplugin.metrics import AgentMetrics
from deviceplugin.nvml.inventory import NodeDevice
from deviceplugin.nvml.watch import Report
from tests.fakes.clock import FakeClock


class Machine:
    """A machine with four device nodes and an agent's first half."""

    def __init__(self, root: Path, strategy: Strategy = Strategy.CDI) -> None:
        self.dev, self.cdi = root / "dev", root / "cdi"
        self.dev.mkdir()
        for name in ("nvidia0", "nvidia1", "nvidiactl"):
            (self.dev / name).touch()
        self.board = Board()
        self.clock = FakeClock()
        self.silence = 0.0
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

    @contextmanager
    def looking(self) -> Iterator[None]:
        """The thread that looks again now and then, while the driver is as silent as ``silence`` says."""
        stop = threading.Event()
        thread = threading.Thread(target=self.handout.run, args=(stop, lambda: self.silence))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def look_again(self) -> None:
        """Let that thread look, and wait until it has."""
        self.clock.until_waiting()
        self.clock.advance(LOOK_AGAIN_EVERY)
        self.clock.until_waiting()

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


def test_a_missing_node_of_unified_memory_is_told_once_with_what_to_do(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with capture_logs() as lines:
        machine.report(gpu(0))
        machine.report(gpu(0), gpu(1))
    sentences = [line["sentence"] for line in lines if line["event"] == "CUDA will not work in containers"]
    (sentence,) = sentences
    assert sentence.startswith(f"There is no {machine.dev}/nvidia-uvm: run `nvidia-modprobe -u -c=0` on this")
    assert all(device.is_healthy for device in machine.board.now.devices)
    with capture_logs() as lines:
        (machine.dev / "nvidia-uvm").touch()
        machine.report(gpu(0))
        (machine.dev / "nvidia-uvm").unlink()
        machine.report(gpu(0))
    assert len([line for line in lines if line["event"] == "CUDA will not work in containers"]) == 1


@pytest.mark.parametrize(
    ("strategy", "told"), [(Strategy.ENVIRONMENT, 0), (Strategy.DEVICE_NODES, 1), (Strategy.CDI, 1)]
)
def test_it_is_told_only_where_we_hand_out_nodes(tmp_path: Path, strategy: Strategy, told: int) -> None:
    machine = Machine(tmp_path, strategy)
    with capture_logs() as lines:
        machine.report(gpu(0))
    assert len([line for line in lines if line["event"] == "CUDA will not work in containers"]) == told


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
    with machine.looking():
        (machine.dev / "nvidia3").touch()
        machine.look_again()
        assert machine.board.now.devices[0].is_healthy
        (machine.cdi / "gpu-booking.io-gpu.json").unlink()
        machine.look_again()
        assert (machine.cdi / "gpu-booking.io-gpu.json").exists()


def test_a_driver_that_hangs_makes_every_gpu_unhealthy_until_it_answers(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    sick = gpu(1).sick("XID 79: GPU has fallen off the bus")
    machine.report(gpu(0), sick)
    with machine.looking():
        machine.silence = LONGEST_SILENCE - 1
        machine.look_again()
        assert [device.reason for device in machine.board.now.devices] == [None, sick.published.reason]
        for silence in (LONGEST_SILENCE, LONGEST_SILENCE + 100):
            machine.silence = silence
            machine.look_again()
            assert [device.reason for device in machine.board.now.devices] == [SILENT, sick.published.reason]
            assert machine.board.now.problem == SILENT
            assert machine.in_spec() == {"GPU-0", "GPU-1"}, "containers that run may restart"
        machine.silence = 0
        machine.look_again()
        assert [device.reason for device in machine.board.now.devices] == [None, sick.published.reason]
        assert machine.board.now.problem is None
    assert SILENT == "The driver has not answered for 60 s"


def test_a_driver_that_hangs_from_the_start_is_told_though_no_gpu_is_known(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with machine.looking():
        machine.look_again()
        assert not machine.board.now.reported
        machine.silence = LONGEST_SILENCE
        machine.look_again()
        assert machine.board.now.reported
        assert machine.board.now.problem == SILENT
        machine.silence = 0
        machine.report(gpu(0))
        machine.look_again()
        assert machine.board.now.devices[0].is_healthy


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
