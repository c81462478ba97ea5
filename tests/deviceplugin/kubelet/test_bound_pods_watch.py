"""Our own watch begins where the kubelet does not list its pods, and nowhere else."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from cluster.fake.clock import FakeClock, eventually
from deviceplugin.kubelet.bound_pods_watch import CHECK_EVERY, CHECKS, RECHECK_EVERY, BoundPodsWatch
from tests.threads import running


class Kubelet:
    """A kubelet that needs the watch when the test wants it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.unresponsive: bool | None = False
        self.checked = 0
        self.watching = threading.Event()

    def is_unresponsive(self) -> bool | None:
        self.checked += 1
        return self.unresponsive

    def watch(self, stop: threading.Event) -> None:
        self.watching.set()
        stop.wait()

    @contextmanager
    def followed(self) -> Iterator[None]:
        stop = threading.Event()
        with running([partial(BoundPodsWatch(self.watch, self.is_unresponsive, self.clock).run, stop)], stop):
            yield

    def check(self, after: float = RECHECK_EVERY) -> None:
        """Let it check once more."""
        before = self.checked
        self.clock.until_waiting()
        self.clock.advance(after)
        eventually(lambda: self.checked > before)


def test_no_watch_runs_while_the_kubelet_lists_its_pods() -> None:
    kubelet = Kubelet()
    with kubelet.followed():
        for _ in range(5):
            kubelet.check()
        assert not kubelet.watching.is_set()


def test_a_kubelet_that_lists_its_pods_is_asked_once_a_minute() -> None:
    kubelet = Kubelet()
    with kubelet.followed():
        for _ in range(5):
            kubelet.clock.until_waiting()
            kubelet.clock.advance(RECHECK_EVERY - 1)
            assert kubelet.checked == 1
            kubelet.check(1)
            kubelet.checked = 1


def test_no_watch_starts_for_a_kubelet_that_is_unresponsive_for_a_moment() -> None:
    kubelet = Kubelet()
    with kubelet.followed():
        for _ in range(2):
            kubelet.unresponsive = True
            kubelet.check()
            kubelet.unresponsive = False
            kubelet.check(CHECK_EVERY)
        assert not kubelet.watching.is_set()


def test_the_first_answer_of_a_kubelet_is_not_waited_for_a_minute() -> None:
    kubelet = Kubelet()
    kubelet.unresponsive = None
    with kubelet.followed():
        for answer in (None, *[True] * CHECKS):
            kubelet.unresponsive = answer
            kubelet.check(CHECK_EVERY)
        assert kubelet.watching.wait(60)


def test_a_watch_starts_for_a_kubelet_that_stays_unresponsive() -> None:
    kubelet = Kubelet()
    with kubelet.followed():
        kubelet.unresponsive = True
        kubelet.check()
        for _ in range(CHECKS - 1):
            kubelet.check(CHECK_EVERY)
        assert kubelet.watching.wait(60)
