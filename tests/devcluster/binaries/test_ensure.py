import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.binaries import Binaries, BuildError, Progress, ensure, ensure_tool
from devcluster.binaries.pins import KWOK, TOOLS

ROOT = Path(__file__).parents[3]
NAMES = [
    "kubebox",
    "etcd",
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "runc",
    "helm",
    "bridge",
    "host-local",
    "portmap",
]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose go is a fake and whose cache is empty. Returns the log of the calls to go."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "go").symlink_to(ROOT / "tests" / "fakes" / "go")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("GPU_BOOKING_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_GO_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def folders(tmp_path: Path) -> list[Path]:
    shelf = tmp_path / "cache" / "binaries"
    return sorted(path for path in shelf.iterdir() if path.is_dir() and not path.name.endswith(".draft"))


def built(log: Path) -> list[str]:
    """The tools that go was asked to build since the log was last emptied."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [line.removeprefix("build ") for line in lines if line.startswith("build ")]


@pytest.mark.usefixtures("log")
def test_everything_a_cluster_needs_is_built_below_the_cache_under_our_names(tmp_path: Path) -> None:
    binaries = ensure()
    assert binaries.root.parent == tmp_path / "cache" / "binaries"
    assert all(os.access(binaries.path(name), os.X_OK) for name in NAMES)
    assert binaries.path("etcd").read_text() == "etcd\n"


@pytest.mark.usefixtures("log")
def test_every_kubernetes_program_is_a_link_to_the_one_executable() -> None:
    binaries = ensure()
    kubebox = binaries.path("kubebox").resolve()
    assert binaries.path("kubelet").resolve() == kubebox
    assert binaries.path("kubectl").resolve() == kubebox


def test_the_second_time_go_is_not_called_and_nothing_is_reported(log: Path) -> None:
    first = ensure()
    log.unlink()
    reported: list[Progress] = []
    assert ensure(reported.append) == first
    assert not log.exists()
    assert reported == []


def test_each_tool_is_cached_separately_and_only_a_missing_one_is_built(tmp_path: Path, log: Path) -> None:
    binaries = ensure()
    assert len(folders(tmp_path)) == len(TOOLS) + 1
    log.unlink()
    shutil.rmtree(binaries.path("helm").resolve().parent)
    assert ensure() == binaries
    assert built(log) == ["helm"]
    assert binaries.path("helm").read_text() == "helm\n"


def test_a_tool_that_no_cluster_needs_is_built_alone_and_only_when_asked_for(log: Path) -> None:
    ensure()
    assert "kwok" not in built(log)
    log.unlink()
    program = ensure_tool(KWOK) / "kwok"
    assert built(log) == ["kwok"]
    assert program.read_text() == "kwok\n"
    log.unlink()
    assert ensure_tool(KWOK) == program.parent
    assert not log.exists()


def test_the_cache_of_an_older_checkout_stays_as_it_is(tmp_path: Path, log: Path) -> None:
    old = tmp_path / "cache" / "binaries" / "38c0b5ab9edce1d3"
    old.mkdir(parents=True)
    (old / "kubebox").write_text("old")
    ensure()
    assert log.exists()
    assert [file.read_text() for file in old.iterdir()] == ["old"]


def test_the_whole_cache_can_be_moved(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = ensure()
    log.unlink()
    (tmp_path / "cache").rename(tmp_path / "moved")
    monkeypatch.setenv("GPU_BOOKING_CACHE", str(tmp_path / "moved"))
    after = ensure()
    assert after.root.name == before.root.name
    assert after.path("kubelet").read_text() == "kubernetes\n"
    assert not log.exists()


@pytest.mark.usefixtures("log")
def test_progress_goes_from_fetching_through_compiling_and_linking_to_done() -> None:
    reported: list[Progress] = []
    ensure(reported.append)
    steps = [str(progress) for progress in reported if progress.subject.startswith("runc ")]
    subject = steps[0].partition(":")[0]
    assert [step.removeprefix(f"{subject}: ") for step in steps] == [
        "reading packages",
        next(step for step in steps if "fetching modules 1 of at most" in step).removeprefix(f"{subject}: "),
        "compiling 0 of 1 (1 more from Go's cache)",
        "linking",
        "done",
    ]


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(BuildError, match=r"No executable 'kubeadm' .* kubelet"):
        Binaries(Path("/nowhere")).path("kubeadm")


def test_a_failed_build_reports_why_and_leaves_nothing_unfinished(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GO", "fail")
    with pytest.raises(
        BuildError,
        match=r"^Building etcd v\S+ failed with exit status 1. Memory ran out.*:\n    link: signal: killed$",
    ):
        ensure()
    assert folders(tmp_path) == []
    assert "build etcd" in log.read_text()


@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS])
def test_a_tool_that_fails_to_build_names_itself_and_is_built_alone_the_next_time(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    monkeypatch.setenv("FAKE_GO", f"fail-{tool}")
    with pytest.raises(BuildError, match=rf"^Building {tool} v\S+ failed with exit status 1\. "):
        ensure()
    before = built(log)
    assert before[-1] == tool
    assert [folder.name.split("-v")[0] for folder in folders(tmp_path)] == sorted(before[:-1])
    monkeypatch.delenv("FAKE_GO")
    ensure()
    after = built(log)[len(before) :]
    assert after[0] == tool
    assert not set(after) & set(before[:-1])


def test_the_command_ends_with_the_message_that_names_the_tool(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GO", "fail-helm")
    with start() as builder:
        printed, stderr = builder.communicate()
    assert (builder.returncode, printed) == (1, "")
    assert "Building helm v" in stderr
    assert "Memory ran out" in stderr
    assert "Traceback" not in stderr
    assert built(log)[-1] == "helm"


def start() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "devcluster.binaries"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def hanging_build(log: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """A builder that hangs when it builds Kubernetes; its go is killed in the end."""
    monkeypatch.setenv("FAKE_GO", "hang")
    with start() as builder:
        for _ in range(600):
            content = log.read_text() if log.exists() else ""
            if "hanging" in content:
                break
            assert builder.poll() is None, builder.communicate()
            time.sleep(0.05)  # noqa: TID251 - another process has to get there
        monkeypatch.delenv("FAKE_GO")
        yield builder
        builder.kill()
        os.kill(int(log.read_text().split("hanging ")[1].split()[0]), signal.SIGKILL)


def test_a_killed_build_keeps_the_finished_tools_and_nothing_unfinished(
    tmp_path: Path, log: Path, hanging_build: subprocess.Popen[str]
) -> None:
    hanging_build.kill()
    hanging_build.wait()
    finished = [folder.name.split("-v")[0] for folder in folders(tmp_path)]
    assert finished == sorted(tool.name for tool in TOOLS if tool.name != "kubernetes")
    before = len(built(log))
    assert ensure().path("kubebox").is_file()
    assert built(log)[before:] == ["kubernetes"]
    assert not list((tmp_path / "cache" / "binaries").glob("*.draft"))


def test_two_builders_at_once_build_once(log: Path) -> None:
    builders = [start(), start()]
    answers = [builder.communicate() for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0], answers
    assert len({printed for printed, _ in answers}) == 1
    assert Counter(built(log)) == {tool.name: 1 for tool in TOOLS}
