"""What each command loads: what it has no use for costs processor time at every call."""

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import click
import pytest

from booking.cli import server_connection
from booking.cli.__main__ import gpu
from booking.cli.connection_settings import ConnectionOptions
from booking.cli.stored_login import Login, StoredLogin
from cluster.fake.clock import FakeClock
from tests.architecture.checkout import PACKAGES, ROOT
from tests.booking.cli.conftest import Terminal

PROGRAM = """
import atexit, json, pathlib, sys
found, *words = sys.argv[1:]
atexit.register(lambda: pathlib.Path(found).write_text(json.dumps(sorted(sys.modules))))
sys.argv = ["gpu-booking", *words]
from booking.cli.entry import main
main()
"""
LIBRARIES = {"click", "msgspec", "urllib3"}
HEAVY = {
    "asyncio",
    "booking.cli.cluster_access",
    "cryptography",
    "flask",
    "kubernetes",
    "rich",
    "structlog",
    "yaml",
}
SHARED = {
    "booking.durations",
    "booking.share_sizes",
    "booking.wording",
    "cluster.names",
    "cluster.process.clock",
}
"""Modules outside booking.cli that a command with an address and a token at hand may load."""
VERBS = [verb for verb in gpu.list_commands(click.Context(gpu)) if verb != "demo"]
"""The demo is a program of its own."""
ASKING = (
    "bookings",
    "status",
    "status --next",
    "book a100 --for 1d --dry-run",
    "earliest a100 --for 1d",
    "why training-0 --namespace vision",
    "policy show",
    "admin audit",
)


def loaded(folder: Path, *words: str, **environ: str) -> set[str]:
    """The modules that a process of the command line has loaded when it ends, without Python's own."""
    found = folder / "modules.json"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(found), *words],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "KUBECONFIG": "/nowhere", **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    modules = set(json.loads(found.read_text()))
    return {name for name in modules if name.partition(".")[0] not in sys.stdlib_module_names}


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] in PACKAGES}


def outside(modules: set[str]) -> set[str]:
    """Modules of ours that are neither the command line's nor shared; not the packages that they are in."""
    packages = {name.rpartition(".")[0] for name in ours(modules)} | {"cluster", "booking"}
    return {name for name in ours(modules) - packages if not name.startswith("booking.cli.")} - SHARED


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_the_help_of_a_command_loads_no_other_command(tmp_path: Path, verb: str) -> None:
    modules = loaded(tmp_path, *([verb] if verb else []), "--help")
    assert len({name for name in modules if name.startswith("booking.cli.commands.")}) <= bool(verb)
    assert outside(modules) == set()


@pytest.mark.parametrize("command", ASKING)
def test_with_address_and_token_at_hand_nothing_but_the_server_s_client_is_loaded(
    tmp_path: Path, terminal: Terminal, command: str
) -> None:
    given = {server_connection.URL: terminal.url, server_connection.TOKEN: "alice-token"}
    modules = loaded(tmp_path, *command.split(), **given)
    assert outside(modules) == set()
    assert HEAVY.isdisjoint(modules)
    assert modules >= LIBRARIES


def test_with_a_stored_login_no_kubeconfig_is_parsed_and_no_client_of_kubernetes_loaded(
    tmp_path: Path, terminal: Terminal
) -> None:
    """Also where the context's namespace is needed."""
    config = tmp_path / "config"
    config.write_text("current-context: lab")
    given = {"KUBECONFIG": str(config), "HOME": str(tmp_path)}
    until = datetime.fromisoformat("9999-01-01T00:00:00Z")
    shown = "alice-token"
    login = Login(token=shown, until=until, url=terminal.url, namespace="vision")
    StoredLogin(ConnectionOptions(), given, FakeClock(), user=os.geteuid()).write(login)
    for command in ("bookings", "why training-0"):
        modules = loaded(tmp_path, *command.split(), **given)
        assert outside(modules) == set()
        assert HEAVY.isdisjoint(modules)


@pytest.mark.parametrize("library", ["click", "yaml"])
def test_without_the_extra_the_program_says_what_to_install(library: str) -> None:
    program = f"import sys; sys.modules[{library!r}] = None; from booking.cli.entry import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "policy", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if library == "click":
        assert done.returncode == 1
        assert "pipx install 'gpu-booking[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_policy_is_tested_without_any_client(tmp_path: Path) -> None:
    case = ROOT / "docs/examples/policy-cases.yaml"
    modules = loaded(tmp_path, "policy", "test", str(case))
    assert "booking.server.cases" in modules
    assert {"booking.cli.cluster_access", "flask", "peewee", "booking.server.store"}.isdisjoint(modules)
