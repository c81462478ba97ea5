"""NUMA nodes and PCIe roots from sysfs."""

from pathlib import Path

from deviceplugin.nvml.numa import numa_from_sysfs, pcie_root_from_sysfs


def write(root: Path, text: str) -> None:
    folder = root / "bus/pci/devices/0000:07:00.0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "numa_node").write_text(text, encoding="ascii")


def test_the_number_in_sysfs_is_the_node(tmp_path: Path) -> None:
    write(tmp_path, "1\n")
    assert numa_from_sysfs(tmp_path)("0000:07:00.0") == 1


def test_minus_one_a_missing_and_an_unreadable_file_mean_an_unknown_node(tmp_path: Path) -> None:
    numa_of = numa_from_sysfs(tmp_path)
    assert numa_of("0000:07:00.0") is None
    for text in ("-1\n", "", "x"):
        write(tmp_path, text)
        assert numa_of("0000:07:00.0") is None


def test_the_root_is_the_one_that_the_devices_folder_is_below(tmp_path: Path) -> None:
    devices = tmp_path / "bus/pci/devices"
    devices.mkdir(parents=True)
    for number, place in enumerate(("pci0000:5d", "platform/1ea0000.pcie/pci10000:e0", "virtual")):
        address = f"0000:0{number}:00.0"
        (tmp_path / "devices" / place / "0000:00:01.1" / address).mkdir(parents=True)
        (devices / address).symlink_to(f"../../../devices/{place}/0000:00:01.1/{address}")
    root_of = pcie_root_from_sysfs(tmp_path)
    assert [root_of(f"0000:0{number}:00.0") for number in range(4)] == [
        "pci0000:5d",
        "pci10000:e0",
        None,
        None,
    ]
