"""A busy machine: processes that do nothing but take its processors."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

PROCESSES: Final = 2
_PROGRAM: Final = """
import sys, threading
def spin():
    while True:
        pass
threading.Thread(target=spin, daemon=True).start()
sys.stdin.read()
"""
"""Ends when nobody holds the other end of its standard input any more, however its owner ended."""


@contextlib.contextmanager
def busy(processes: int = PROCESSES) -> Iterator[list[int]]:
    """Inside, so many processes are busy: their PIDs. They end with this, and with this process."""
    with contextlib.ExitStack() as stack:
        started = []
        for _ in range(processes):
            # A session of its own: what interrupts this process leaves it to us to end them.
            process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, start_new_session=True
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            started.append(process.pid)
        yield started
