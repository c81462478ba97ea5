"""The device nodes of a MIG device, as the driver reports them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devcluster.fakenvml import capabilities, default_gpus, mig
from deviceplugin.injection.mig_capabilities import capability_nodes


def test_both_instances_have_a_device_node(tmp_path: Path) -> None:
    first, second = mig(default_gpus(0)[0], ["3g.40gb", "1g.10gb"])
    capabilities.lay_out(tmp_path, 2, (first, second))
    own = capability_nodes(tmp_path / capabilities.PROC, 2, second.gi, second.ci)
    numbers = (capabilities.number(2, second.gi), capabilities.number(2, second.gi, second.ci))
    assert own == tuple(f"nvidia-caps/nvidia-cap{number}" for number in numbers)
    assert own != capability_nodes(tmp_path / capabilities.PROC, 2, first.gi, first.ci)


def machine(root: Path, *, gpu: bytes | None, compute: bytes | None) -> Path:
    """The driver's folder with its files for GPU instance 1 and compute instance 0 of GPU 0."""
    instance = root / "gpu0/mig/gi1"
    (instance / "ci0").mkdir(parents=True, exist_ok=True)
    for place, text in ((instance, gpu), (instance / "ci0", compute)):
        if text is not None:
            (place / "access").write_bytes(text)
    return root


GOOD = b"DeviceFileMinor: 12\nDeviceFileMode: 292\nDeviceFileModify: 1\n"


@pytest.mark.parametrize(
    ("content", "number"),
    [
        (GOOD, 12),
        (b"DeviceFileMinor: 7", 7),
        (b"DeviceFileMinor:7\n", 7),
        (b"DeviceFileMode: 292\nDeviceFileMinor: 300\n", 300),
        (b"DeviceFileMinor: 4\nDeviceFileMinor: 5\n", 4),
        (b"DeviceFileMinor: 0\n", 0),
    ],
    ids=["as the driver", "no line end", "no space", "on a later line", "twice", "zero"],
)
def test_the_minor_number_is_read_wherever_the_driver_writes_it(
    tmp_path: Path, content: bytes, number: int
) -> None:
    assert capability_nodes(machine(tmp_path, gpu=content, compute=GOOD), 0, 1, 0) == (
        f"nvidia-caps/nvidia-cap{number}",
        "nvidia-caps/nvidia-cap12",
    )


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"DeviceFileMinor: many\n",
        b"DeviceFileMinor:\n",
        b"DeviceFileMode: 292\n",
        b" DeviceFileMinor: 12\n",
        b"\xff\xfeDeviceFileMinor: 12\n",
    ],
    ids=["no file", "empty", "no number", "nothing after it", "another line", "indented", "not ASCII"],
)
@pytest.mark.parametrize("of", ["GPU instance", "compute instance"])
def test_neither_instance_has_a_device_node_where_the_driver_reports_only_one(
    tmp_path: Path, content: bytes | None, of: str
) -> None:
    gpu, compute = (content, GOOD) if of == "GPU instance" else (GOOD, content)
    assert capability_nodes(machine(tmp_path, gpu=gpu, compute=compute), 0, 1, 0) is None


@pytest.mark.parametrize(
    ("minor", "gi", "ci"),
    [(1, 1, 0), (0, 2, 0), (0, 1, 1)],
    ids=["another GPU", "another GPU instance", "another compute instance"],
)
def test_a_missing_instance_has_no_device_nodes(tmp_path: Path, minor: int, gi: int, ci: int) -> None:
    folder = machine(tmp_path, gpu=GOOD, compute=GOOD)
    assert capability_nodes(folder, 0, 1, 0) is not None
    assert capability_nodes(folder, minor, gi, ci) is None


def test_a_folder_in_place_of_the_file_is_ignored(tmp_path: Path) -> None:
    folder = machine(tmp_path, gpu=None, compute=GOOD)
    (folder / "gpu0/mig/gi1/access").mkdir()
    assert capability_nodes(folder, 0, 1, 0) is None


@given(
    minor=st.integers(0, 15),
    profiles=st.sampled_from([["7g.80gb"], ["3g.40gb", "3g.40gb"], ["1g.10gb"] * 7]),
)
def test_no_two_mig_devices_share_a_capability(
    tmp_path_factory: pytest.TempPathFactory, minor: int, profiles: list[str]
) -> None:
    root = tmp_path_factory.mktemp("machine")
    devices = mig(default_gpus(0)[0], profiles)
    capabilities.lay_out(root, minor, devices)
    found = [capability_nodes(root / capabilities.PROC, minor, one.gi, one.ci) for one in devices]
    nodes = [node for own in found for node in own or ()]
    assert len(set(nodes)) == len(nodes) == 2 * len(profiles)
