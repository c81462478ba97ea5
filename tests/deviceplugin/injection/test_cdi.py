"""The CDI specification: its text, and how it is written to the disk."""

import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path

import pytest

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


def test_the_specification_is_written_atomically_and_only_when_it_has_changed(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "cdi"
    assert cdi.write(folder, b"{}\n")
    before = (folder / names.CDI_FILE).stat()
    assert not cdi.write(folder, b"{}\n")
    assert (folder / names.CDI_FILE).stat() == before
    assert cdi.write(folder, b'{"kind": 1}\n')
    assert [path.name for path in folder.iterdir()] == [f"{names.DOMAIN}-gpu.json"]
    assert (folder / names.CDI_FILE).read_bytes() == b'{"kind": 1}\n'


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """A disk that has this many bytes left for any file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_former_specification_whole_and_no_partial_file(tmp_path: Path) -> None:
    cdi.write(tmp_path, b"before")
    with no_file_longer_than(3), pytest.raises(OSError, match="File too large"):
        cdi.write(tmp_path, b"after")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {names.CDI_FILE: b"before"}
    assert cdi.write(tmp_path, b"after")
    assert (tmp_path / names.CDI_FILE).read_bytes() == b"after"


def test_an_unfinished_specification_is_hidden_from_the_runtime(tmp_path: Path) -> None:
    before = tmp_path / f".{names.CDI_FILE}.{os.getpid()}.tmp"
    before.write_bytes(b"half of what a killed process with this number wro")
    assert before.suffix not in {".json", ".yaml"}
    assert cdi.write(tmp_path, b"whole")
    assert [path.name for path in tmp_path.iterdir()] == [names.CDI_FILE]


def test_a_file_in_place_of_the_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "cdi").touch()
    with pytest.raises(OSError, match="cdi"):
        cdi.write(tmp_path / "cdi", b"text")


@pytest.mark.parametrize(
    ("there", "found"),
    [
        ((), False),
        (("nvidiactl", "nvidia-uvm-tools", "nvidia-modeset"), False),
        (("nvidia-uvm",), True),
    ],
    ids=["no node", "all but it", "it alone"],
)
def test_cuda_can_start_where_the_device_node_of_unified_memory_exists(
    tmp_path: Path, there: tuple[str, ...], *, found: bool
) -> None:
    dev = machine(tmp_path / "dev", *there)
    nodes = cdi.device_nodes({}, dev_root=dev, host_dev_root=Path("/dev"))
    assert cdi.has_unified_memory(nodes) is found


@pytest.mark.parametrize("missing", ["nvidia0", "nvidia-caps/nvidia-cap3", "nvidia-caps/nvidia-cap4"])
def test_a_mig_device_has_all_of_its_device_nodes_or_is_left_out(tmp_path: Path, missing: str) -> None:
    wanted = ("nvidia0", "nvidia-caps/nvidia-cap3", "nvidia-caps/nvidia-cap4")
    (tmp_path / "nvidia-caps").mkdir()
    for name in wanted:
        (tmp_path / name).touch()
    own = {"MIG-1": wanted}
    whole = cdi.device_nodes(own, dev_root=tmp_path, host_dev_root=Path("/host/dev"))
    assert whole.of_device["MIG-1"] == tuple(
        DeviceNode(f"/dev/{name}", f"/host/dev/{name}") for name in wanted
    )
    (tmp_path / missing).unlink()
    assert cdi.device_nodes(own, dev_root=tmp_path, host_dev_root=Path("/host/dev")).of_device == {}


def test_all_existing_common_device_nodes_are_given_in_a_fixed_order(tmp_path: Path) -> None:
    dev = machine(tmp_path / "dev", *reversed(cdi.COMMON_NODES))
    nodes = cdi.device_nodes({}, dev_root=dev, host_dev_root=Path("/dev"))
    assert [node.path for node in nodes.common] == [f"/dev/{name}" for name in cdi.COMMON_NODES]


def test_the_text_does_not_depend_on_the_order_of_the_devices() -> None:
    own = {name: (DeviceNode(f"/dev/{name}", f"/dev/{name}"),) for name in ("c", "a", "b")}
    texts = {cdi.specification(DeviceNodes(dict(order))) for order in permutations(own.items())}
    assert len(texts) == 1
    (text,) = texts
    assert [device["name"] for device in json.loads(text)["devices"]] == ["a", "b", "c"]
    assert text.endswith(b"}\n")


def test_hooks_are_given_unchanged_and_left_out_where_there_are_none() -> None:
    hook = {"hookName": "createContainer", "path": "/bin/sh", "args": ["sh"]}
    with_hook = json.loads(cdi.specification(DeviceNodes(), hooks=[hook]))
    assert with_hook["containerEdits"]["hooks"] == [hook]
    assert "hooks" not in json.loads(cdi.specification(DeviceNodes()))["containerEdits"]


@pytest.mark.parametrize(
    ("root", "host"),
    [("/", "/usr/lib/libcuda.so.580.1"), ("/run/driver", "/run/driver/usr/lib/libcuda.so.580.1")],
)
def test_a_mount_leads_from_the_driver_s_root_to_the_usual_path_in_the_container(
    root: str, host: str
) -> None:
    mounts = (Mount("/usr/lib/libcuda.so.1", "/usr/lib/libcuda.so.580.1"),)
    text = json.loads(cdi.specification(DeviceNodes(), mounts, driver_root=Path(root)))
    (mount,) = text["containerEdits"]["mounts"]
    assert (mount["hostPath"], mount["containerPath"]) == (host, "/usr/lib/libcuda.so.1")
    assert "ro" in mount["options"]
