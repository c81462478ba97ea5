"""Simulated GPUs as they are laid into a folder of a node: the way by which kind's nodes get them."""

import os
import stat
from pathlib import Path

import pytest

from devcluster.fakenvml import FakeNvml, gpus_of
from devcluster.fakenvml.__main__ import USAGE, main
from devcluster.fakenvml.build import SONAME


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    library = tmp_path / "compiled.so"
    library.write_bytes(b"first")
    return library


def lay_out(folder: Path, compiled: Path) -> None:
    assert main([str(folder), "worker", str(compiled)]) == 0


def test_a_node_gets_gpus_of_its_own_library_and_device_nodes(tmp_path: Path, compiled: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    lay_out(folder, compiled)
    assert FakeNvml(folder).uuids() == tuple(gpu.uuid for gpu in gpus_of("worker"))
    assert set(FakeNvml(folder).uuids()).isdisjoint(gpu.uuid for gpu in gpus_of("worker2"))
    assert (folder / SONAME).read_bytes() == b"first"
    found = {path.name: path.stat() for path in (folder / "dev").iterdir()}
    assert {"nvidiactl", "nvidia-uvm", *(f"nvidia{gpu.minor}" for gpu in gpus_of("worker"))} <= found.keys()
    assert all(stat.S_ISCHR(one.st_mode) and one.st_mode & 0o666 == 0o666 for one in found.values())
    assert os.minor(found["nvidia3"].st_rdev) == 3


def test_a_node_that_starts_again_keeps_its_gpus_as_they_are_and_gets_the_new_library(
    tmp_path: Path, compiled: Path
) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    lay_out(folder, compiled)
    FakeNvml(folder).lose(0)
    before = FakeNvml(folder).state.read_text()
    compiled.write_bytes(b"second")
    lay_out(folder, compiled)
    assert FakeNvml(folder).state.read_text() == before
    assert (folder / SONAME).read_bytes() == b"second"


@pytest.mark.parametrize("words", [[], ["folder"], ["folder", "node", "library", "more"]])
def test_invalid_arguments_are_answered_with_the_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert USAGE in capsys.readouterr().err
