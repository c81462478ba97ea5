"""The lock of a cache: reentrant, and no thread is kept out by one that works in many small portions."""

import threading

from cluster.cache.fair_lock import FairLock
from cluster.fake.clock import eventually


def test_its_holder_may_take_it_again() -> None:
    turns, done = FairLock(), threading.Event()

    def once() -> None:
        with turns:
            done.set()

    with turns, turns:
        thread = threading.Thread(target=once)
        thread.start()
        with turns:
            assert not done.is_set()
    assert done.wait(60)
    thread.join()


def test_a_waiting_thread_has_it_before_its_holder_has_it_again() -> None:
    turns, waits, order = FairLock(), threading.Event(), list[str]()

    def other() -> None:
        waits.set()
        with turns:
            order.append("other")

    thread = threading.Thread(target=other)
    with turns:
        thread.start()
        assert waits.wait(60)
        eventually(turns._gate.locked, deadline=60)
    for _ in range(100):
        with turns:
            order.append("holder")
    thread.join()
    assert order[0] == "other"
