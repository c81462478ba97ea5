"""The command line as people install it: the wheel with its extra ``cli``, in an environment of its own."""

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from booking.cli import server_connection
from booking.cli.__main__ import gpu
from tests.architecture.checkout import ROOT
from tests.booking.cli.conftest import Terminal

pytestmark = pytest.mark.component


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of that environment."""
    folder = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    python = folder / "venv/bin/python"
    lock = ["--constraint", str(ROOT / "requirements/cli.txt")]
    uv = [sys.executable, "-m", "uv", "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, str(folder / "venv")], check=True)
    subprocess.run([*uv, "pip", "install", "--python", str(python), f"{wheel}[cli]", *lock], check=True)
    subprocess.run([*uv, "pip", "check", "--python", str(python)], check=True)
    return python.parent


def commands(group: click.Group, *before: str) -> list[tuple[str, ...]]:
    """The words of every command and group."""
    found: list[tuple[str, ...]] = [before]
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command
        found += commands(command, *before, name) if isinstance(command, click.Group) else [(*before, name)]
    return found


def run(program: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    given = {"PATH": "/usr/bin:/bin", "KUBECONFIG": "/nowhere", **environ}
    return subprocess.run([program, *words], env=given, capture_output=True, text=True, check=False)


def test_every_command_has_its_help(programs: Path) -> None:
    for words in commands(gpu):
        if words == ("demo",):
            continue  # a program of its own, of the extra demo
        done = run(programs / "gpu-booking", *words, "--help")
        if words == ("demo",):  # of an extra of its own
            assert (done.returncode, "gpu-booking[demo]" in done.stderr) == (1, True)
            continue
        assert (done.returncode, done.stderr) == (0, ""), words
        assert "Usage: gpu-booking" in done.stdout


def test_bookings_are_listed_in_every_form(programs: Path, terminal: Terminal) -> None:
    given = {server_connection.URL: terminal.url, server_connection.TOKEN: "alice-token"}
    booked = run(programs / "gpu-booking", "book", "a100", "--for", "1d", "-o", "name", **given)
    for form in ("table", "wide", "json", "yaml", "name"):
        listed = run(programs / "kubectl-gpu", "bookings", "-o", form, **given)
        assert booked.stdout.strip().removeprefix("booking/") in listed.stdout, listed.stderr


def test_a_kubeconfig_is_read_and_a_policy_is_tested(programs: Path, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(json.dumps({"current-context": "lab", "contexts": []}))
    listed = run(programs / "gpu-booking", "bookings", KUBECONFIG=str(config))
    assert (listed.returncode, listed.stderr.count("Traceback")) == (1, 0)
    assert "lab" in listed.stderr
    tested = run(programs / "gpu-booking", "policy", "test", str(ROOT / "docs/examples/policy-cases.yaml"))
    assert tested.returncode == 0, tested.stderr


def test_nothing_of_a_server_is_installed(programs: Path) -> None:
    listing = [
        programs / "python",
        "-c",
        "import importlib.metadata as m; print(*(d.name for d in m.distributions()))",
    ]
    installed = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.lower().split()
    assert set(installed) >= {
        "click",
        "gpu-booking",
        "kubernetes",
        "msgspec",
        "pyyaml",
        "structlog",
        "urllib3",
    }
    assert set(installed).isdisjoint(
        {"cryptography", "flask", "grpcio", "peewee", "prometheus-client", "waitress"}
    )


def test_completion_answers_kubectl(programs: Path) -> None:
    done = run(programs / "kubectl_complete-gpu", "boo")
    assert done.stdout.split()[0] == "book", done.stderr
