"""No process of a unit test outlives it: it would take the processors from every test after it.

Looked at when a module is over: what its fixtures own has ended then as well. Whoever began it is named.
A process whose parent has ended becomes a child of the process of the tests, so that it is seen as well.
"""

import ctypes
import os
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

from devcluster.procstat import lives
from devcluster.wait import poll

ELSEWHERE: Final = ("component", "controlplane", "e2e", "gpu")
"""Marks of tests whose servers, browsers and clusters may serve several modules."""
ENDS_WITHIN: Final = 10.0
_PR_SET_CHILD_SUBREAPER: Final = 36
"""linux/prctl.h"""


class Leftovers:
    """A plugin of pytest: fails the last test of a module that leaves processes behind."""

    def __init__(self, ends_within: float = ENDS_WITHIN) -> None:
        """Args: ends_within: seconds that what was killed may take to end."""
        self._ends_within = ends_within
        self._before: frozenset[int] | None = None
        self._begun: dict[int, str] = {}
        """Child -> the test after which it was there first; empty where it may serve several modules."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """What is there before the first test of a module is not its own."""
        if self._before is None:
            self._before = frozenset(children_of_this_process())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, None, None]:
        """Look when all fixtures are gone that no later test of the module needs."""
        yield
        before = self._before or frozenset()
        serves_others = any(item.get_closest_marker(mark) for mark in ELSEWHERE)
        for child in children_of_this_process().keys() - before:
            self._begun.setdefault(child, "" if serves_others else item.nodeid)
        if nextitem is not None and nextitem.path == item.path:
            return
        begun = {child: test for child, test in self._begun.items() if test}
        self._begun, self._before = {}, None
        poll(lambda: not begun.keys() & children_of_this_process().keys(), seconds=self._ends_within)
        left = children_of_this_process()
        lines = [
            f"{test} has left process {pid} behind: {left[pid]}" for pid, test in begun.items() if pid in left
        ]
        if lines:
            pytest.fail("\n".join(lines), pytrace=False)


def adopt_orphans() -> None:
    """Children of children become this process's own when their parent ends; OSError where they cannot."""
    kernel = ctypes.CDLL(None, use_errno=True)
    if kernel.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def children_of_this_process() -> dict[int, str]:
    """Process id -> command line of every child that has not ended."""
    found: dict[int, str] = {}
    for thread in Path("/proc/self/task").iterdir():
        try:
            pids = (thread / "children").read_text().split()
        except OSError:  # the thread has just ended; its children are another's now
            continue
        for pid in map(int, pids):
            if command := _command(pid):
                found[pid] = command
    return found


def _command(pid: int) -> str | None:
    """The command line of a process; None where it has ended."""
    process = Path(f"/proc/{pid}")
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    return None if not lives(pid) else b" ".join(words).decode(errors="replace").strip() or "a nameless one"
