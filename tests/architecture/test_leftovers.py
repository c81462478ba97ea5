"""Processes that a unit test leaves behind are found, and whose they are; those of fixtures end in time."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.fake.clock import eventually
from tests.architecture.checkout import ROOT
from tests.leftovers import children_of_this_process

PLUGIN = """
import subprocess
import sys

import pytest

from tests.leftovers import Leftovers, adopt_orphans

SLEEPS = [sys.executable, "-c", "open('LIFELINE').read()"]


def pytest_configure(config):
    adopt_orphans()
    config.pluginmanager.register(Leftovers(ends_within=0.1))
    config.addinivalue_line("markers", "component: has servers")
"""
HEAD = "import subprocess\nimport pytest\nfrom conftest import SLEEPS\n"
LEAVES = HEAD + "def test_a(): pass\ndef test_b(): subprocess.Popen(SLEEPS)\ndef test_c(): pass\n"
OWNS = (
    HEAD
    + """
@pytest.fixture(scope="module")
def server():
    with subprocess.Popen(SLEEPS) as process:
        yield
        process.kill()
def test_a(server): pass
def test_b(): pass
"""
)
ORPHANS = (
    HEAD
    + """
import sys
def test_a():
    program = f"import subprocess; subprocess.Popen({SLEEPS!r})"
    subprocess.run([sys.executable, "-c", program], check=True)
def test_b(): pass
"""
)
SERVERS = HEAD + "@pytest.mark.component\ndef test_a(): subprocess.Popen(SLEEPS)\ndef test_b(): pass\n"


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def test_a_child_is_seen_until_it_has_ended(sleeping: subprocess.Popen[bytes]) -> None:
    # Its command line is not there at once.
    eventually(lambda: "time.sleep(600)" in children_of_this_process()[sleeping.pid], deadline=60)
    sleeping.kill()
    sleeping.wait()
    assert sleeping.pid not in children_of_this_process()


def played(folder: Path, **modules: str) -> tuple[int, str]:
    """Pytest's exit status for these modules, and its output; what was left behind ends with this."""
    lifeline = folder / "lifeline"
    os.mkfifo(lifeline)
    (folder / "conftest.py").write_text(PLUGIN.replace("LIFELINE", str(lifeline)))
    for name, text in modules.items():
        (folder / f"test_{name}.py").write_text(text)
    words = ["-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    held = os.open(lifeline, os.O_RDWR)  # its readers end when it is closed
    try:
        done = subprocess.run(
            [sys.executable, *words, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
        )
    finally:
        os.close(held)
    return done.returncode, done.stdout


def test_a_test_that_leaves_a_process_behind_is_named(tmp_path: Path) -> None:
    status, output = played(tmp_path, leaves=LEAVES, owns=OWNS)
    assert status == 1
    assert "test_leaves.py::test_b has left process" in output
    assert ".read()" in output
    assert "5 passed, 1 error" in output


def test_a_process_whose_parent_has_ended_is_seen_as_well(tmp_path: Path) -> None:
    status, output = played(tmp_path, orphans=ORPHANS)
    assert status == 1
    assert "test_orphans.py::test_a has left process" in output


def test_processes_of_module_fixtures_and_of_other_stages_are_left_alone(tmp_path: Path) -> None:
    status, output = played(tmp_path, owns=OWNS, servers=SERVERS)
    assert status == 0, output
