"""A demo in a process of its own, as people start it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.architecture.checkout import ROOT

WITHIN = 120.0
"""Seconds that anything may take on a busy machine."""


def environ(folder: Path) -> dict[str, str]:
    """Everything temporary lies in this folder, and there is no screen."""
    kept = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    return {**kept, "TMPDIR": str(folder)}


@contextmanager
def started(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A demo on a free port, and what it has printed; Ctrl-C ends it."""
    command = [sys.executable, "-m", "demo", "--port", "0", *words]
    with subprocess.Popen(
        command, cwd=ROOT, env=environ(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout
        printed = ""
        while "status" not in printed and (line := process.stdout.readline()):
            printed += line
        try:
            yield process, printed
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(WITHIN)
