"""Prints the story: a line for each thing that happens, with the seconds since the start."""

import sys
import threading
from datetime import datetime
from typing import TextIO

from cluster.process.clock import SystemClock
from devcluster.wait import Stopwatch


class StepError(Exception):
    """A step of the story did not happen.

    step: which one. expected and seen: messages without a full stop.
    """

    def __init__(self, step: str, *, expected: str, seen: str) -> None:
        super().__init__(f"The step did not happen: {step}.\n  expected: {expected}\n  seen:     {seen}")


class Reporter:
    """Writes lines ``seconds since the start | who | what``, from any thread."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._watch = Stopwatch()
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """Seconds since the story began."""
        return self._watch.seconds

    @property
    def now(self) -> datetime:
        """The wall clock, aware UTC."""
        return SystemClock().now()

    def say(self, who: str, what: str) -> None:
        """Print one thing that happened, and to whom."""
        with self._lock:
            self._out.write(f"{self.seconds:7.2f} s  {who:<12} {what}\n")
            self._out.flush()

    def chapter(self, text: str) -> None:
        """Print a heading for what comes next."""
        with self._lock:
            self._out.write(f"\n{text}\n")
            self._out.flush()
