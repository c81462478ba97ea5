"""The pace of virtual time: one thread drives the simulation as fast as a visitor wants.

Virtual time never runs ahead of the work: where a computer cannot keep up with 60 times real time, time goes
as fast as it can, and nothing becomes stale by that. A leap of a day is gone through in the same way, every
renewal and every pass included.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

import structlog

from cluster.process.clock import Clock
from demo.simulation.simulation import Simulation

log = structlog.get_logger(__name__)

R = TypeVar("R")

TICK: Final = 0.1
"""Seconds of real time between two steps."""
LATE: Final = 0.5
"""Seconds of real time that a step makes up for at most: a laptop that has slept goes on where it was."""
LEAP_STEP: Final = 900.0
"""Virtual seconds after which a leap lets others have their turn."""
ANSWERS_WITHIN: Final = 60.0
"""Seconds of real time that a visitor waits for an answer."""


class Pace:
    """Drives a simulation. ``run`` is the body of its thread; everything else is thread-safe."""

    def __init__(self, simulation: Simulation, clock: Clock) -> None:
        """Args: clock: of the real time."""
        self._simulation = simulation
        self._clock = clock
        self._requests: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._ahead = 0.0
        self.speed = 1.0
        """Virtual seconds for each real one."""

    @property
    def is_leaping(self) -> bool:
        """Whether a leap is being gone through."""
        return self._ahead > 0

    def leap(self, seconds: float) -> None:
        """Go so far ahead, as fast as possible."""
        self._ahead += seconds
        self._wake.set()

    def soon(self, action: Callable[[], object]) -> None:
        """Let the simulation's thread do something."""
        self._requests.put(action)
        self._wake.set()

    def call(self, action: Callable[[], R]) -> R:
        """Let the simulation's thread do something, and wait for its result.

        Raises:
            TimeoutError: there was none in time.
        """
        result: Future[R] = Future()

        def act() -> None:
            try:
                result.set_result(action())
            except Exception as error:  # noqa: BLE001 - it is raised again where it belongs
                result.set_exception(error)

        self.soon(act)
        return result.result(ANSWERS_WITHIN)

    def run(self, stop: threading.Event) -> None:
        """Let time pass until ``stop`` is set."""
        before = self._clock.monotonic()
        while not stop.is_set():
            self._answer()
            now = self._clock.monotonic()
            passed, before = min(now - before, LATE), now
            if self._ahead > 0:
                step = min(self._ahead, LEAP_STEP)
                self._simulation.go_on(step)
                self._ahead = max(0.0, self._ahead - step)
                continue
            self._simulation.go_on(passed * self.speed)
            self._clock.wait(self._wake, TICK)
            self._wake.clear()

    def _answer(self) -> None:
        while not self._requests.empty():
            self._requests.get()()
