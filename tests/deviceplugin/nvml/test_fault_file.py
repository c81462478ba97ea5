"""What a node remembers of its GPUs' faults."""

from pathlib import Path

import pytest

from cluster import names
from deviceplugin.nvml.fault_file import FaultFile, Known
from deviceplugin.nvml.health import Scope
from tests.deviceplugin.nvml.cut import part

DRIVER = "580.159.04"
KNOWN = Known(
    "an era", {Scope("GPU-0"): "XID 79: lost", Scope("GPU-1", 2): "XID 95: memory"}, {"GPU-3": "an order"}
)


class Machine:
    """A node's kernel and its kubelet's folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root / "device-plugins"
        self.boot = root / "proc/sys/kernel/random/boot_id"
        for folder in (self.folder, self.boot.parent, root / "sys/module/nvidia"):
            folder.mkdir(parents=True)
        self.boot.write_text("a-boot\n")

    def memory(self) -> FaultFile:
        return FaultFile(self.folder, proc_root=self.root / "proc", sys_root=self.root / "sys")

    def reload(self) -> None:
        (self.root / "sys/module/fresh").mkdir()
        (self.root / "sys/module/nvidia").rmdir()
        (self.root / "sys/module/fresh").rename(self.root / "sys/module/nvidia")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_another_process_reads_the_faults_that_were_stored(machine: Machine) -> None:
    machine.memory().keep(KNOWN)
    assert machine.memory().recall() == KNOWN


def test_each_boot_driver_version_and_driver_load_is_its_own_era(machine: Machine) -> None:
    memory = machine.memory()
    eras = {memory.era(DRIVER), memory.era("590.1")}
    machine.reload()
    eras.add(memory.era(DRIVER))
    machine.boot.write_text("another-boot\n")
    eras.add(memory.era(DRIVER))
    assert len(eras) == 4


def test_no_file_is_created_where_no_fault_ever_occurred(machine: Machine) -> None:
    memory = machine.memory()
    assert memory.recall() == Known()
    memory.keep(Known("an era"))
    assert list(machine.folder.iterdir()) == []


def test_faults_that_were_repaired_before_another_process_began_are_not_remembered(machine: Machine) -> None:
    machine.memory().keep(KNOWN)
    again = machine.memory()
    assert again.recall() == KNOWN
    again.keep(Known("an era"))
    assert machine.memory().recall() == Known("an era")


def test_who_reads_the_file_while_it_is_written_reads_all_of_the_last_one(machine: Machine) -> None:
    memory = machine.memory()
    memory.keep(KNOWN)
    with (machine.folder / names.FAULTS_FILE).open() as reading:
        memory.keep(Known("another era"))
        assert '"an era"' in reading.read()


def test_a_place_where_no_file_can_be_is_read_as_missing_and_left_without_a_trace(machine: Machine) -> None:
    file = machine.folder / names.FAULTS_FILE
    (file / "in-the-way").mkdir(parents=True)
    memory = machine.memory()
    assert memory.recall() == Known()
    memory.keep(KNOWN)
    assert list(machine.folder.iterdir()) == [file]


def test_a_node_whose_kernel_does_not_tell_has_one_era_for_each_driver_version(tmp_path: Path) -> None:
    memory = FaultFile(tmp_path, proc_root=tmp_path / "proc", sys_root=tmp_path / "sys")
    assert memory.era(DRIVER) == memory.era(DRIVER) != memory.era("590.1")


def test_an_unreadable_file_counts_as_missing(machine: Machine) -> None:
    (machine.folder / names.FAULTS_FILE).write_text('{"era": 3')
    assert machine.memory().recall() == Known()


def test_an_unwritable_folder_stops_nothing_and_is_tried_again(machine: Machine) -> None:
    memory = machine.memory()
    machine.folder.rmdir()
    memory.keep(KNOWN)
    machine.folder.mkdir()
    memory.keep(KNOWN)
    assert machine.memory().recall() == KNOWN


def test_the_place_of_a_mig_device_is_kept_whatever_its_health(machine: Machine) -> None:
    there, gone = part(0, 1), part(0, 2, gone=True)
    machine.memory().keep(Known("an era", parts=(there.as_unhealthy("XID 95"), gone)))
    recalled = machine.memory().recall().parts
    assert recalled == (there, part(0, 2))
