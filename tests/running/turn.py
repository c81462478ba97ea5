"""One run at a time: runs that start clusters take turns on a machine, whichever checkout they are of.

Two of them on two cores make each other slow and red. A run waits at a file lock and reports for which; the
kernel lets go of the lock with the process that has it, however it ends. A process of a run whose turn it is
belongs to it, which the environment says.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TextIO

import pytest

from cluster.process.clock import Clock, SystemClock
from devcluster.paths import CHECKOUT, LOCKS, make_root

Say = Callable[[str], None]
FILE: Final = LOCKS / "turn"
SIDE_BY_SIDE: Final = "SIDE_BY_SIDE"
"""Set to anything, a run does not wait: for machines that are large enough."""
TAKEN: Final = "TURN_TAKEN"
"""Set by a run whose turn it is, for the processes that it starts."""
ON_CLUSTERS: Final = ("e2e", "controlplane", "gpu")
"""Marks of tests that start a cluster, or use the machine's GPUs."""
EVERY: Final = 0.5
REMIND: Final = 60.0
"""Seconds after which a run that waits reports it again."""


def starts_clusters(session: pytest.Session) -> bool:
    """Whether this process of pytest will start any: it has such tests, and plays what it has collected."""
    option = session.config.option
    if option.collectonly or option.setupplan or hasattr(session.config, "workerinput"):
        return False
    return any(item.get_closest_marker(mark) for item in session.items for mark in ON_CLUSTERS)


@contextlib.contextmanager
def turn(what: str, say: Say, *, file: Path = FILE, clock: Clock | None = None) -> Iterator[None]:
    """Inside, no other run of this machine starts clusters; waits until that is so.

    Args:
        what: this run, for others that wait for it.
        say: called with what it waits for.
        file: the lock.
        clock: to wait by.
    """
    starts_none = file == FILE and os.geteuid() != 0  # only root can start a cluster
    if starts_none or os.environ.get(SIDE_BY_SIDE) or os.environ.get(TAKEN):
        yield
        return
    make_root(file.parent)
    with file.open("a+") as stream:
        _wait(stream, say, clock or SystemClock())
        stream.truncate(0)
        stream.write(f"process {os.getpid()} ({what} in {CHECKOUT})")
        stream.flush()
        os.environ[TAKEN] = str(os.getpid())
        try:
            yield
        finally:
            del os.environ[TAKEN]
            stream.truncate(0)


def _wait(stream: TextIO, say: Say, clock: Clock) -> None:
    never, reminded = threading.Event(), clock.monotonic() - REMIND
    while True:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.monotonic() - reminded >= REMIND:
                stream.seek(0)
                holder = stream.read() or "another run"
                say(f"waits for {holder}: one run that starts clusters at a time ({SIDE_BY_SIDE}=1 lifts it)")
                reminded = clock.monotonic()
            clock.wait(never, EVERY)
        else:
            return
