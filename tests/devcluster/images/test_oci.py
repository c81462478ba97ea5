import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from devcluster.binaries.errors import BuildError
from devcluster.images import PAUSE, PROBE, key
from devcluster.images.oci import architecture, write_image

PROGRAM = b"\x7fELF pretended"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    program = tmp_path / "program"
    program.write_bytes(PROGRAM)
    tar = tmp_path / "image.tar"
    write_image(tar, "localhost/gpu-booking/probe:1", program, called="probe", machine="x86_64")
    return tar


def content(tar: Path) -> dict[str, bytes]:
    with tarfile.open(tar) as archive:
        members = ((member.name, archive.extractfile(member)) for member in archive)
        return {name: stream.read() for name, stream in members if stream is not None}


def follow(files: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
    algorithm, _, digest = descriptor["digest"].partition(":")
    blob = files[f"blobs/{algorithm}/{digest}"]
    assert hashlib.sha256(blob).hexdigest() == digest
    assert len(blob) == descriptor["size"]
    return blob


def test_the_archive_is_an_oci_image_layout_whose_blobs_bear_their_digests(image: Path) -> None:
    files = content(image)
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads(files["index.json"])
    manifest = json.loads(follow(files, index["manifests"][0]))
    config = json.loads(follow(files, manifest["config"]))
    layer = follow(files, manifest["layers"][0])
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    assert len(files) == 5


def test_the_name_is_where_containerd_reads_it(image: Path) -> None:
    (described,) = json.loads(content(image)["index.json"])["manifests"]
    assert described["annotations"]["io.containerd.image.name"] == "localhost/gpu-booking/probe:1"
    assert described["annotations"]["org.opencontainers.image.ref.name"] == "1"
    assert described["platform"] == {"architecture": "amd64", "os": "linux"}


def test_the_image_holds_one_executable_program_and_runs_it(image: Path) -> None:
    files = content(image)
    manifest = json.loads(follow(files, json.loads(files["index.json"])["manifests"][0]))
    config = json.loads(follow(files, manifest["config"]))
    assert config["config"] == {"Entrypoint": ["/probe"]}
    with tarfile.open(fileobj=io.BytesIO(follow(files, manifest["layers"][0]))) as layer:
        (member,) = layer.getmembers()
        assert (member.name, member.mode, member.uid, member.mtime) == ("probe", 0o755, 0, 0)
        stream = layer.extractfile(member)
        assert stream is not None
        assert stream.read() == PROGRAM


def test_the_same_program_gives_the_same_bytes(image: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.tar"
    name = "localhost/gpu-booking/probe:1"
    write_image(again, name, tmp_path / "program", called="probe", machine="x86_64")
    assert again.read_bytes() == image.read_bytes()


def test_architectures_have_the_names_that_go_and_oci_give_them() -> None:
    assert architecture("x86_64") == "amd64"
    assert architecture("aarch64") == "arm64"
    with pytest.raises(BuildError, match="No image can be made for riscv64"):
        architecture("riscv64")


def test_the_key_changes_with_the_programs_source(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module x\n")
    (tmp_path / "main.go").write_text("package main\n")
    before = key(tmp_path)
    assert key(tmp_path) == before
    (tmp_path / "main.go").write_text("package main // changed\n")
    assert key(tmp_path) != before


def test_the_images_have_names_that_no_registry_is_asked_for() -> None:
    assert PAUSE.startswith("localhost/")
    assert PROBE.startswith("localhost/")
