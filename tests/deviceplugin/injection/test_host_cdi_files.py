"""The host's own CDI specifications are used where they are fit for our GPUs."""

import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cluster import names
from deviceplugin.injection.host_cdi_files import HostFolders

SAMPLE = Path(__file__).with_name("nvidia.yaml")
DRIVER = "580.159.04"
OWN = {"GPU-0": frozenset({"/dev/nvidia0"}), "GPU-1": frozenset({"/dev/nvidia1"})}


class Host:
    """A machine with the two folders."""

    def __init__(self, root: Path) -> None:
        self.etc, self.run = root / "etc", root / "run"
        self.etc.mkdir()
        self.run.mkdir()
        self.folders = HostFolders((self.etc, self.run))
        self.driver: str | None = DRIVER

    def chosen(self, own: dict[str, frozenset[str]] | None = None) -> dict[str, str]:
        return dict(self.folders.read(OWN if own is None else own, self.driver))

    def why_not(self, own: dict[str, frozenset[str]] | None = None) -> str:
        with capture_logs() as lines:
            assert self.chosen(own) == {}
        (line,) = lines
        return str(line["message"])


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def spec(*devices: tuple[str, list[str]]) -> str:
    made = [
        {"name": name, "containerEdits": {"deviceNodes": [{"path": path} for path in paths]}}
        for name, paths in devices
    ]
    return json.dumps({"cdiVersion": "0.5.0", "kind": names.GPU_RESOURCE, "devices": made})


def test_devices_are_named_by_their_uuid_or_by_any_name_with_their_device_nodes(host: Host) -> None:
    (host.run / "nvidia.yaml").write_text(SAMPLE.read_text())
    assert host.chosen() == {"GPU-0": "nvidia.com/gpu=GPU-0", "GPU-1": "nvidia.com/gpu=1"}


def test_our_specification_is_used_where_the_host_s_lacks_or_confuses_a_gpu(host: Host) -> None:
    (host.run / "nvidia.json").write_text(
        spec(("GPU-0", ["/dev/nvidia1"]), ("all", ["/dev/nvidia0", "/dev/nvidia1"]))
    )
    assert host.why_not() == "It has no device with the nodes of GPU-0 and no others: ours is used."
    assert host.chosen({"GPU-9": frozenset({"/dev/nvidia1"})}) == {"GPU-9": "nvidia.com/gpu=GPU-0"}


def test_the_later_folder_takes_precedence_and_the_earlier_one_is_the_fallback(host: Host) -> None:
    one = {"GPU-0": OWN["GPU-0"]}
    (host.etc / "old.json").write_text(spec(("static", ["/dev/nvidia0"])))
    assert host.chosen(one) == {"GPU-0": "nvidia.com/gpu=static"}
    (host.run / "new.json").write_text(spec(("fresh", ["/dev/nvidia0"])))
    assert host.chosen(one) == {"GPU-0": "nvidia.com/gpu=fresh"}


@pytest.mark.parametrize(
    "text",
    ['{"kind": "nvidia.com/gpu", ', '{"kind": "nvidia.com/gpu", "devices": 7}', "kind: {nvidia.com/gpu}"],
)
def test_an_unreadable_file_is_reported_and_ours_is_used(host: Host, text: str) -> None:
    name = "nvidia.json" if text.startswith("{") else "nvidia.yaml"
    (host.run / name).write_text(text)
    assert host.why_not().startswith(f"{host.run} cannot be read: {name}: ")


def test_files_of_others_are_not_read(host: Host) -> None:
    (host.run / "other.yaml").write_text("kind: [vendor.com/nic]")
    (host.run / "huge.yaml").write_text("# nvidia.com/gpu\n" * 300_000)
    (host.run / "notes.txt").write_text(names.GPU_RESOURCE)
    assert host.chosen() == {}
