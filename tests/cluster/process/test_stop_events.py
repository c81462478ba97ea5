"""Loops that wait for work end when they are stopped."""

import threading

from cluster.process.stop_events import wake_at


def test_a_loop_that_waits_for_work_is_woken_at_the_end() -> None:
    stop, wake = threading.Event(), threading.Event()
    wake_at(stop, wake)
    assert not wake.is_set()
    stop.set()
    assert wake.wait(60)


def test_a_loop_that_begins_to_wait_after_the_end_is_woken_at_once() -> None:
    stop, wake = threading.Event(), threading.Event()
    stop.set()
    wake_at(stop, wake)
    assert wake.wait(60)
