"""What a shell offers after the tab key."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from booking.cli import __main__ as program
from booking.cli import server_connection
from cluster import names
from tests.booking.cli.conftest import Terminal
from tests.fakes.objects import A100


def offered(terminal: Terminal, *words: str) -> list[str]:
    """Values that kubectl is told."""
    found = program.completions([*words], terminal.served.clock)
    return [item.value for item in found]


@pytest.fixture
def environment(terminal: Terminal) -> dict[str, str]:
    return {server_connection.URL: terminal.url, server_connection.TOKEN: "alice-token"}


def test_commands_and_options_are_offered(terminal: Terminal) -> None:
    assert offered(terminal, "rel") == ["release"]
    assert "--gpus" in offered(terminal, "book", "--g")
    assert offered(terminal, "bookings", "-o", "y") == ["yaml"]


def test_ones_own_bookings_are_offered(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    identifier = terminal.says("book", A100, "--for", "2d", "-o", "name").strip().removeprefix("booking/")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert offered(terminal, "release", "b-") == [identifier]


def test_nothing_is_offered_where_the_server_cannot_be_asked(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(server_connection.URL, "http://127.0.0.1:1")
    monkeypatch.setenv(server_connection.TOKEN, "alice-token")
    assert offered(terminal, "release", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(terminal: Terminal, shell: str) -> None:
    assert names.COMPLETION_VARIABLE in terminal.says("completion", shell)


def test_the_programs_that_kubectl_looks_for_are_installed() -> None:
    folder = Path(sys.executable).parent
    for name in ("gpu-booking", "kubectl-gpu", "kubectl_complete-gpu"):
        assert (folder / name).stat().st_mode & stat.S_IXUSR


def test_models_are_offered_by_a_part_of_their_name(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert offered(terminal, "book", "a100") == [A100]
    assert offered(terminal, "bookings", "--model", "NVIDIA-A") == [A100]


def test_contexts_are_those_of_the_kubeconfig_that_was_named(terminal: Terminal, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("contexts: [{name: lab, context: {}}, {name: prod, context: {}}]")
    assert offered(terminal, "bookings", "--kubeconfig", str(config), "--context", "l") == ["lab"]


def test_bash_completes_by_the_script_that_it_is_given() -> None:
    script = (
        "source <(gpu-booking completion bash)",
        "COMP_WORDS=(gpu-booking rel) COMP_CWORD=1",
        "_gpu_booking_completion gpu-booking",
        'echo "${COMPREPLY[@]}"',
    )
    programs = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("release\n", "")
