"""The laws, watched on a cluster that another program starts and ends.

What is left over at the end (law L4) is not judged here: the program ends its cluster as soon as its story is
over. Then nobody can be asked any more, and what was seen last may be a comeback before its last step. The
story itself waits for every comeback, and its end is judged where a test plays it in its own process
(tests/long/test_story.py, tests/long/security/test_least_privilege.py).
"""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from cluster.process.clock import Clock, SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.errors import ClusterError
from tests.laws.broken import LawBrokenError
from tests.laws.live import LiveWatch, checkpoints_of

CHECK_EVERY: Final = 0.2
"""Seconds between two checks."""


class Attached:
    """Watches while it is entered, from when a cluster of this name is up until that is gone."""

    def __init__(self, name: str, clock: Clock | None = None) -> None:
        self._name = name
        self._clock = clock or SystemClock()
        self._over = threading.Event()
        self._checks = 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="attached-laws")
        self._watching: Future[None] | None = None

    def __enter__(self) -> Self:
        self._watching = self._pool.submit(self._run)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The program has ended.

        Raises:
            LawBrokenError: a law was broken.
            AssertionError: there was no cluster, or its laws could not be watched.
        """
        self._over.set()
        self._pool.shutdown()
        problem = self._watching.exception() if self._watching else None
        if isinstance(problem, LawBrokenError) or (problem and kind is None):
            raise problem
        assert kind or self._checks, f"Nobody has seen cluster {self._name}: its laws were not watched."

    def has_failed(self) -> bool:
        """Whether a law was broken, or the laws cannot be watched any more."""
        return bool(self._watching and self._watching.done() and self._watching.exception())

    def _run(self) -> None:
        """In a thread: find the cluster, then watch it."""
        while not self._clock.wait(self._over, CHECK_EVERY):
            with suppress(ClusterError):
                self._watch(Cluster.attach(self._name))
                return

    def _watch(self, cluster: Cluster) -> None:
        with LiveWatch(administrator(cluster), self._clock, checkpoints_of(cluster)) as laws:
            while True:
                is_over = self._clock.wait(self._over, CHECK_EVERY)
                laws.check()
                self._checks += 1
                if is_over:
                    return
