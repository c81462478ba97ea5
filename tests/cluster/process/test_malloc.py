"""The C library's heaps, counted in a process of its own."""

import subprocess
import sys
from typing import Final

import pytest

_PROGRAM: Final = """
import ctypes, sys, threading
{before}
here = threading.Barrier({threads} + 1)

def work():
    kept = bytes(100_000)
    here.wait()
    here.wait()

threads = [threading.Thread(target=work) for _ in range({threads})]
for each in threads:
    each.start()
here.wait()
ctypes.CDLL(None).malloc_stats()
here.wait()
"""
_THREADS: Final = 6
_SERVER: Final = """
from booking.server import __main__ as server
assert server.main() == 2
"""
_AGENT: Final = """
from deviceplugin import __main__ as agent
assert agent.main() == 2
"""


def heaps(before: str = "") -> int:
    """The number of heaps while some threads keep an allocation each; glibc reports on standard error."""
    program = _PROGRAM.format(before=before, threads=_THREADS)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"GPU_BOOKING_DATABASE": "nonsense://"},
        check=True,
        capture_output=True,
        text=True,
    )
    return sum(line.startswith("Arena ") for line in done.stderr.splitlines())


def test_each_thread_has_its_own_heap_by_default() -> None:
    assert heaps() > 1


@pytest.mark.parametrize(
    "before", ["from cluster.process import malloc; assert malloc.use_one_malloc_arena()", _SERVER, _AGENT]
)
def test_all_threads_share_one_heap(before: str) -> None:
    assert heaps(before) == 1
