"""Where the threads of a Python process spend their processor time.

``python -m tests.bench.tracing FILE MODULE`` runs a module. SIGUSR1 starts the count (again), and at the
module's end FILE gets one line per stack: frames from the outermost, separated by ``;``, then nanoseconds.

Every call is traced. A sampling thread would see the others only where they release Python's lock, so that
all work would seem to be done by system calls.
"""

import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import BuiltinFunctionType, FrameType
from typing import Final

Stack = tuple[str, ...]
"""Frames, the outermost first: the thread's name without its number, then ``module.function``."""
CALIBRATING: Final = 10_000
"""The number of calls by which the cost of tracing one is measured."""


@dataclass(slots=True)
class Node:
    """A function under its callers."""

    spent: int = 0
    """Nanoseconds spent in itself, without its callees."""
    calls: "dict[str, Node]" = field(default_factory=dict)

    def under(self, name: str) -> "Node":
        """Its callee with this name."""
        found = self.calls.get(name)
        if found is None:
            found = self.calls[name] = Node()
        return found


class Tracer:
    """Traces threads that start after ``follow``, and counts once it has begun."""

    def __init__(self, clock: Callable[[], int] = time.thread_time_ns, cost: int = 0) -> None:
        """Args: clock: processor time of the calling thread; cost: of tracing one event, is subtracted."""
        self._clock = clock
        self._cost = cost
        self._root = Node()
        self._has_begun = False

    def follow(self) -> None:
        """Trace every thread that starts from now on."""
        threading.setprofile(self._idle)

    def _idle(self, _frame: FrameType, _what: str, _function: object) -> None:
        if self._has_begun:
            sys.setprofile(self.walk())

    def walk(self) -> "Callable[[FrameType, str, object], None]":
        """A function for ``sys.setprofile``, which traces the calling thread."""
        node = self._root.under(threading.current_thread().name.rstrip("-0123456789"))
        above, last = [node], self._clock()

        def event(frame: FrameType, what: str, function: object) -> None:
            nonlocal node, last
            node.spent += max(0, self._clock() - last - self._cost)
            if what in {"call", "c_call"}:
                above.append(node)
                node = node.under(_name(frame, function if what == "c_call" else None))
            elif len(above) > 1:
                node = above.pop()
            last = self._clock()

        return event

    def begin(self) -> None:
        """Count from now on; the thread that calls this is not traced."""
        self._has_begun = True
        for _, node in _all((), self._root):
            node.spent = 0

    @property
    def stacks(self) -> dict[Stack, int]:
        """Nanoseconds of processor time."""
        return {stack: node.spent for stack, node in _all((), self._root) if node.spent}


def cost() -> int:
    """Nanoseconds per event that tracing itself adds to what is counted here."""
    tracer, nothing = Tracer(), Node().under
    sys.setprofile(tracer.walk())
    for _ in range(CALIBRATING):
        nothing("")
    sys.setprofile(None)
    return sum(tracer.stacks.values()) // (2 * CALIBRATING)


def write(stacks: Mapping[Stack, int], path: Path) -> None:
    """Write one line per stack."""
    path.write_text("".join(f"{';'.join(stack)} {spent}\n" for stack, spent in stacks.items()))


def read(path: Path) -> dict[Stack, int]:
    """Read what ``write`` has written."""
    lines = [line.rpartition(" ") for line in path.read_text().splitlines()]
    return {tuple(stack.split(";")): int(spent) for stack, _, spent in lines}


def _all(stack: Stack, node: Node) -> Iterator[tuple[Stack, Node]]:
    for name, called in list(node.calls.items()):
        yield (*stack, name), called
        yield from _all((*stack, name), called)


def _name(frame: FrameType, builtin: object) -> str:
    if isinstance(builtin, BuiltinFunctionType):
        return f"{builtin.__module__ or 'builtins'}.{builtin.__qualname__}"
    if builtin is not None:
        return f"builtins.{type(builtin).__qualname__}"
    return f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}"


def main(path: Path, module: str) -> None:
    """Run the module as the main program; its exit code is ours."""
    tracer = Tracer(cost=cost())
    signal.signal(signal.SIGUSR1, lambda *_: tracer.begin())
    tracer.follow()
    sys.argv = [module]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        write(tracer.stacks, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
