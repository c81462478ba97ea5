"""The stages of the gate: one after the other, each a process of its own with a time limit."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cluster.runtime.clock import Clock

Say = Callable[[str], None]
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
    stages: Sequence[Stage], command: Callable[[Stage], Sequence[str]], *, clock: Clock, say: Say
) -> list[Outcome]:
    """Play stages until one is red.

    Args:
        stages: in their order.
        command: the command line of a stage.
        clock: to time them by.
        say: told where a stage begins, and how it ends.

    Returns:
        the outcomes of those that were played; the last one is red, or all are green.
    """
    outcomes: list[Outcome] = []
    for stage in stages:
        say(f"stage {stage.name} (at most {stage.seconds:.0f} s)")
        begin = clock.monotonic()
        code = run(command(stage), stage.seconds)
        outcomes.append(Outcome(stage, code, clock.monotonic() - begin))
        say(str(outcomes[-1]))
        if not outcomes[-1].is_green:
            break
    return outcomes


def run(words: Sequence[str], seconds: float) -> int | None:
    """Run a command in a process group of its own; its exit status, None where its time was up.

    However this ends, by a signal too, nothing of the group is alive afterwards.

    Raises:
        KeyboardInterrupt: this process was interrupted or told to terminate.
    """
    with (
        _terminating_interrupts(),
        subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True) as process,
    ):
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let it tidy up for a while, then kill what is left of its group."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
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
