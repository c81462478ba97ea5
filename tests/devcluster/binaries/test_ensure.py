import os
import shutil
from pathlib import Path

import pytest

from devcluster.binaries import BuildError, Progress, ensure, ensure_tool
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
