"""A measured part in a process of its own, so that it does not share Python's lock with its caller."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from devcluster.paths import CHECKOUT

_SECONDS = 10


@contextmanager
def child(module: str, *arguments: str) -> Iterator[str]:
    """Run ``python -m <module>``: its first line. At the end its standard input is closed, which ends it.

    Its log is discarded, but written as usual.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        try:
            line = process.stdout.readline().strip()
            if not line:
                raise RuntimeError(f"{module} ended before it was ready; run it by hand to see why.")
            yield line
        finally:
            process.stdin.close()
            try:
                process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def announce(line: str) -> None:
    """Print the child's first line, which says that it is ready."""
    print(line, flush=True)


def await_end() -> None:
    """Wait, in the child, until its standard input ends."""
    sys.stdin.read()
