"""The life of a process: named threads, one way to stop, closers in reverse order.

Every ``__main__`` of ours builds a ``Process``, adds its threads and closers, and exits with what ``run``
returns. It may be PID 1: it handles SIGTERM itself, which the kernel would otherwise ignore there.
"""

import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final

import structlog

from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class _End:
    """Why the process ends."""

    reason: str
    error: BaseException | None = None
    failed: bool = False


class Process:
    """Threads that live and end together.

    A thread that raises, or returns before ``stop`` is set, ends the process with exit code 1.
    """

    def __init__(self, name: str, clock: Clock, *, grace: float = 20.0) -> None:
        """Args: name: for the log; grace: seconds that all closers and threads together have to end."""
        self._name = name
        self._clock = clock
        self._grace = grace
        self._threads: list[threading.Thread] = []
        self._closers: list[tuple[str, Callable[[], None]]] = []
        # A signal handler may interrupt the main thread anywhere: SimpleQueue.put is reentrant,
        # Event.set is not.
        self._ends: queue.SimpleQueue[_End] = queue.SimpleQueue()
        self.stop: Final = threading.Event()
        """Set when the process ends; every thread's target gets it."""

    def thread(self, name: str, target: Callable[[threading.Event], None]) -> None:
        """Add a thread, which ``run`` starts. ``target`` must return soon after ``stop``, and not before."""
        self._threads.append(
            threading.Thread(target=self._guarded, args=(name, target), name=name, daemon=True)
        )

    def closing(self, name: str, close: Callable[[], None]) -> None:
        """Add a closer for the end, after ``stop`` is set: the last one added is called first."""
        self._closers.append((name, close))

    def end(self, reason: str) -> None:
        """End the process normally, from any thread."""
        self._ends.put(_End(reason))

    def run(self) -> int:
        """Start the threads, block until the end, call the closers; returns the exit code.

        Signals are handled only if the main thread calls it.
        """
        with self._signals():
            for thread in self._threads:
                thread.start()
            ends = [self._ends.get()]
            self._log_end(ends[0])
            self.stop.set()
            in_time = self._finish()
            while not self._ends.empty():
                ends.append(self._ends.get())
                self._log_end(ends[-1])
        return 0 if in_time and not any(end.failed for end in ends) else 1

    def _log_end(self, end: _End) -> None:
        write = log.error if end.failed else log.info
        write("process ends", process=self._name, reason=end.reason, exc_info=end.error)

    def _guarded(self, name: str, target: Callable[[threading.Event], None]) -> None:
        try:
            target(self.stop)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the process must not live on without it
            self._ends.put(_End(f"the thread {name!r} crashed", error, failed=True))
            return
        if not self.stop.is_set():
            self._ends.put(_End(f"the thread {name!r} ended by itself", failed=True))

    def _finish(self) -> bool:
        """Close and join within the grace; returns whether everything ended."""
        deadline = self._clock.monotonic() + self._grace
        closing = threading.Thread(target=self._close_all, name="closing", daemon=True)
        closing.start()
        late = []
        for thread in [closing, *self._threads]:
            thread.join(max(0.0, deadline - self._clock.monotonic()))
            if thread.is_alive():
                late.append(thread.name)
        if late:
            log.error(
                "threads did not end within the grace period",
                process=self._name,
                threads=late,
                grace_seconds=self._grace,
            )
        return not late

    def _close_all(self) -> None:
        for name, close in reversed(self._closers):
            try:
                close()
            except Exception:
                log.exception("a part could not be closed", process=self._name, part=name)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._ends.put(_End(f"received {signal.Signals(number).name}"))
