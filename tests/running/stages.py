"""The stages of the gate: one after the other, each a process of its own with a time limit."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from cluster.process.clock import Clock
from tests.running.summary import COLUMNS

Say = Callable[[str], None]
_WITH_US: Final = ("setpriv", "--pdeathsig", "TERM", "--", "env", "--default-signal=INT")
"""Before a command line: SIGTERM comes when the thread that has started it ends, and SIGINT counts, which a
shell lets the commands in its background ignore."""
GRACE_SECONDS: Final = 20.0
"""How long a stage that is past its time may take to end by itself."""


@dataclass(frozen=True)
class Stage:
    """A part of the gate.

    Args:
        name: that of its goal in the Makefile.
        seconds: after which it is ended; well above what it takes on two busy cores.
    """

    name: str
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """How a stage ended: ``code`` is its exit status, None where its time was up."""

    stage: Stage
    code: int | None
    seconds: float

    @property
    def is_green(self) -> bool:
        """Whether the next stage may begin."""
        return self.code == 0

    def __str__(self) -> str:
        """One line, as it is printed."""
        name, took = self.stage.name, f"{self.seconds:.0f} s"
        if self.is_green:
            return f"green: {name} ({took})"
        if self.code is None:
            return f"RED: {name} did not end within its {self.stage.seconds:.0f} s and was ended"
        return f"RED: {name} failed after {took} with exit status {self.code}"


def play(
    stages: Sequence[Stage],
    command: Callable[[Stage], Sequence[str]],
    *,
    clock: Clock,
    say: Say,
    logs: Path | None = None,
) -> list[Outcome]:
    """Play stages until one is red.

    Args:
        stages: in their order.
        command: the command line of a stage.
        clock: to time them by.
        say: called where a stage begins, and with how it ends.
        logs: a folder where what each stage prints is written to a file, too (``log_of``).

    Returns:
        the outcomes of those that were played; the last one is red, or all are green.
    """
    outcomes: list[Outcome] = []
    for stage in stages:
        say(f"stage {stage.name} (at most {stage.seconds:.0f} s)")
        begin = clock.monotonic()
        code = run(command(stage), stage.seconds, log=log_of(stage, logs) if logs else None)
        outcomes.append(Outcome(stage, code, clock.monotonic() - begin))
        say(str(outcomes[-1]))
        if not outcomes[-1].is_green:
            break
    return outcomes


def log_of(stage: Stage, logs: Path) -> Path:
    """Where what a stage prints is written."""
    return logs / f"{stage.name}.log"


def run(
    words: Sequence[str],
    seconds: float,
    *,
    log: Path | None = None,
    cwd: Path | None = None,
    grace: float = GRACE_SECONDS,
) -> int | None:
    """Run a command in a process group of its own; its exit status, None where its time was up.

    However this ends, by a signal too, nothing of the group is alive afterwards. Where this process is killed
    and can end nothing any more, the kernel terminates the command.

    Args:
        words: the command line.
        seconds: that it may take.
        log: a file to which everything that it prints is written while it is shown.
        cwd: where it runs; here, where none is given.
        grace: seconds that it may take to tidy up when it is ended.

    Raises:
        KeyboardInterrupt: this process was interrupted or terminated.
    """
    with (
        _terminating_interrupts(),
        subprocess.Popen(
            [*_WITH_US, *words],
            cwd=cwd,
            env={**os.environ, "COLUMNS": str(COLUMNS)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if log else None,
            stderr=subprocess.STDOUT if log else None,
            start_new_session=True,
        ) as process,
        _written(process.stdout, log, grace),
    ):
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process, grace)


@contextlib.contextmanager
def _written(pipe: IO[bytes] | None, log: Path | None, grace: float) -> Iterator[None]:
    """What comes out of a pipe is shown and written to a file; at the end, all that the group has printed."""
    if pipe is None or log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    reader = threading.Thread(target=_copy, args=(pipe, log), daemon=True)
    reader.start()
    try:
        yield
    finally:
        reader.join(grace)  # a process that has left the group may hold the pipe for as long as it lives


def _copy(pipe: IO[bytes], log: Path) -> None:
    with log.open("wb") as file, contextlib.suppress(OSError, ValueError):
        while data := os.read(pipe.fileno(), 65536):
            file.write(data)
            file.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.flush()


def _end(process: subprocess.Popen[bytes], grace: float) -> None:
    """Let it tidy up for a while, then kill what is left of its group."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def _terminating_interrupts() -> Iterator[None]:
    """SIGTERM ends this process as Ctrl-C does: it would not reach a stage, which is of another session."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
