"""``python -m demo`` as people start it: one address, a command line beside it, a sentence for bad input."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.demo.demo_process import WITHIN, environ, started

pytestmark = pytest.mark.component

DEMO = (sys.executable, "-m", "demo", "--no-browser")
OLD = "import sys; sys.version_info = (3, 9, 2, 'final', 0); exec(sys.argv[1])"
WITHOUT_VENV = "import sys; sys.modules['ensurepip'] = None; exec(sys.argv[1])"


def failed(folder: Path, *words: str) -> str:
    """What a demo says that cannot be shown: one sentence or two, in one line."""
    done = subprocess.run(
        [*DEMO, *words],
        cwd=ROOT,
        env=environ(folder),
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


def test_the_command_line_works_by_the_printed_line_and_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    with started(tmp_path) as (process, printed):
        assert printed.count("/demo/enter?key=") == 1
        export = re.search(r"export (\S+)=(\S+) (\S+)=(\S+)", printed)
        assert export
        variables = {export[1]: export[2], export[3]: export[4], "KUBECONFIG": "/nowhere"}
        done = subprocess.run(
            [sys.executable, "-m", "booking.cli", "status"],
            cwd=ROOT,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "h100-01" in done.stdout
    assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_is_ended_before_it_listens_leaves_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    command = [*DEMO, "--port", "0", "--nodes", "300"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environ(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        while not any(tmp_path.glob("*/*")):
            assert process.poll() is None
        process.send_signal(number)
        printed, _ = process.communicate(timeout=WITHIN)
    assert process.returncode
    assert "http://" not in printed
    assert "Traceback" not in printed
    assert list(tmp_path.iterdir()) == []


def test_without_a_screen_the_address_is_to_be_opened_elsewhere(tmp_path: Path) -> None:
    with started(tmp_path) as (process, _):
        assert process.stdout
        process.stdout.readline()
        assert "No browser was found on this machine" in process.stdout.readline()


def test_a_kept_folder_has_the_database_alone_and_serves_one_demo_at_a_time(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with started(tmp_path, "--keep", str(kept), "--empty"):
        assert f"Another demo uses the folder {kept}" in failed(tmp_path, "--keep", str(kept), "--port", "0")
    assert {path.name for path in kept.iterdir()} <= {"bookings.db", "bookings.db-wal", "bookings.db-shm"}
    assert (kept / "bookings.db").exists()


def test_a_taken_port_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"Cannot listen on 127.0.0.1 port {port}" in failed(tmp_path, "--port", port)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    assert "cannot be written" in failed(tmp_path, "--port", "0", "--keep", "/proc/kept")
    (tmp_path / "file").touch()
    for kept in (tmp_path / "file", tmp_path / "file" / "kept"):
        assert "cannot be written" in failed(tmp_path, "--port", "0", "--keep", str(kept))


def refused_by_make(*variables: str) -> str:
    """What make says that cannot make the demo's virtual environment: one line."""
    done = subprocess.run(
        ["make", "demo", *variables], cwd=ROOT, capture_output=True, text=True, check=False, timeout=WITHIN
    )
    assert done.returncode == 2
    (printed,) = (line for line in done.stderr.splitlines() if not line.startswith("make"))
    return printed


@pytest.mark.parametrize(
    ("program", "sentence"),
    [(OLD, "needs Python 3.11 to 3.14"), (WITHOUT_VENV, "cannot make virtual environments")],
    ids=["old", "without ensurepip"],
)
def test_make_says_in_one_sentence_which_python_it_needs(tmp_path: Path, program: str, sentence: str) -> None:
    python = tmp_path / "python-of-this-machine"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{program}" "$2"\n')
    python.chmod(0o755)
    venv = tmp_path / "venv"
    assert sentence in refused_by_make(f"PYTHON={python}", f"DEMO={venv}")
    assert not venv.exists()


def test_make_says_in_one_sentence_that_the_checkout_cannot_be_written() -> None:
    assert "The folder /proc/venv cannot be written" in refused_by_make("DEMO=/proc/venv")
