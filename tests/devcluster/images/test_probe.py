"""The program in the images, built as it is for them and run as a process."""

import json
import os
import signal
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


def test_the_probe_runs_until_it_is_terminated_and_then_ends_well(program: Path) -> None:
    with started(program) as process:
        first_line(process)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.parametrize(("arguments", "status"), [(["0.01"], 0), (["0.01", "3"], 3)])
def test_the_probe_ends_by_itself_with_the_requested_status(
    program: Path, arguments: list[str], status: int
) -> None:
    with started(program, *arguments) as process:
        first_line(process)
        assert process.wait(30) == status


def test_the_probe_ends_with_the_requested_status_when_it_is_stopped_before(program: Path) -> None:
    with started(program, "100000", "75") as process:
        first_line(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 75


@pytest.mark.parametrize("arguments", [["soon"], ["-1"], ["1", "256"], ["1", "2", "3"]])
def test_invalid_arguments_are_answered_with_the_usage(program: Path, arguments: list[str]) -> None:
    answer = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert answer.stderr.startswith("usage: probe")
    assert answer.stdout == ""


@pytest.mark.parametrize("called", ["probe pause", "pause"])
def test_pause_waits_for_a_signal_by_either_name(program: Path, tmp_path: Path, called: str) -> None:
    name, *arguments = called.split()
    link = tmp_path / name
    link.symlink_to(program)
    with started(link, *arguments) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
