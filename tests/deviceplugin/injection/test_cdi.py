"""The CDI specification: its text, and how it comes to the disk."""

import json
from pathlib import Path

from cluster import names
from deviceplugin.device_nodes import DeviceNode, DeviceNodes
from deviceplugin.injection import cdi
from deviceplugin.injection.driver import Mount

GOLDEN = {
    "cdiVersion": "0.6.0",
    "kind": names.CDI_KIND,
    "devices": [
        {
            "name": "GPU-0",
            "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0", "hostPath": "/sim/dev/nvidia0"}]},
        },
        {
            "name": "GPU-1",
            "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia3", "hostPath": "/sim/dev/nvidia3"}]},
        },
    ],
    "containerEdits": {
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
        "deviceNodes": [
            {"path": "/dev/nvidiactl", "hostPath": "/sim/dev/nvidiactl"},
            {"path": "/dev/nvidia-uvm", "hostPath": "/sim/dev/nvidia-uvm"},
        ],
        "mounts": [
            {
                "hostPath": "/run/driver/usr/lib/libcuda.so.580.1",
                "containerPath": "/usr/lib/libcuda.so.1",
                "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"],
            }
        ],
    },
}


def machine(folder: Path, *nodes: str) -> Path:
    folder.mkdir()
    for node in nodes:
        (folder / node).touch()
    return folder


def test_the_specification_is_complete(tmp_path: Path) -> None:
    dev = machine(tmp_path / "dev", "nvidia0", "nvidia3", "nvidiactl", "nvidia-uvm")
    nodes = cdi.device_nodes(
        {"GPU-1": ("nvidia3",), "GPU-0": ("nvidia0",)}, dev_root=dev, host_dev_root=Path("/sim/dev")
    )
    mounts = (Mount("/usr/lib/libcuda.so.1", "/usr/lib/libcuda.so.580.1"),)
    assert json.loads(cdi.specification(nodes, mounts, driver_root=Path("/run/driver"))) == GOLDEN


def test_a_device_whose_node_is_missing_is_left_out(tmp_path: Path) -> None:
    dev = machine(tmp_path / "dev", "nvidia0")
    nodes = cdi.device_nodes({"GPU-0": ("nvidia0",), "GPU-1": ("nvidia1",)}, dev_root=dev, host_dev_root=dev)
    assert list(nodes.of_device) == ["GPU-0"]
    assert nodes.common == ()


def test_nothing_is_said_of_mounts_where_there_are_none() -> None:
    spec = json.loads(cdi.specification(DeviceNodes({"A": (DeviceNode("/dev/nvidia0", "/dev/nvidia0"),)})))
    assert spec["containerEdits"] == {"env": ["NVIDIA_VISIBLE_DEVICES=void"]}


def test_it_is_written_whole_and_only_when_it_has_changed(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "cdi"
    assert cdi.write(folder, b"{}\n")
    before = (folder / names.CDI_FILE).stat()
    assert not cdi.write(folder, b"{}\n")
    assert (folder / names.CDI_FILE).stat() == before
    assert cdi.write(folder, b'{"kind": 1}\n')
    assert [path.name for path in folder.iterdir()] == [f"{names.DOMAIN}-gpu.json"]
    assert (folder / names.CDI_FILE).read_bytes() == b'{"kind": 1}\n'
