"""The program in the images, built as it is for them and run as a process."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster import names
from devcluster.binaries.cache import cache_folder
from devcluster.binaries.golang import Go
from devcluster.binaries.progress import silent
from devcluster.binaries.toolchain import ensure_go
from devcluster.images import BUILD, SOURCE


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("probe") / "probe"
    toolchain = ensure_go(cache_folder(), silent)
    Go(toolchain, SOURCE, cgo=False).run("the build", [*BUILD, "-o", str(target), "."], lambda _line: False)
    return target


@contextmanager
def started(*command: str | Path, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env or {}) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: subprocess.Popen[str]) -> dict[str, object]:
    assert process.stdout is not None
    line: dict[str, object] = json.loads(process.stdout.readline())
    return line


def test_the_probe_prints_the_variables_about_gpus_and_no_others(program: Path) -> None:
    given = {
        names.VISIBLE_DEVICES_VARIABLE: "GPU-1,GPU-2",
        "GPU_BOOKING_NOTE": "a=b",
        "PATH": "/bin",
        "NVIDIA": "no",
    }
    with started(program, env=given) as process:
        printed = first_line(process)
    assert printed["env"] == {names.VISIBLE_DEVICES_VARIABLE: "GPU-1,GPU-2", "GPU_BOOKING_NOTE": "a=b"}


def test_the_probe_prints_every_nvidia_device_with_its_number(program: Path) -> None:
    present = sorted(path for path in Path("/dev").glob("nvidia*") if path.is_char_device())
    numbers = [path.stat().st_rdev for path in present]
    expected = [
        {"path": str(path), "major": os.major(number), "minor": os.minor(number)}
        for path, number in zip(present, numbers, strict=True)
    ]
    with started(program) as process:
        assert first_line(process)["devices"] == expected
