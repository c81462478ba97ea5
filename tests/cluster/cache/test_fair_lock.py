"""The lock of a cache: reentrant, and no thread is kept out by one that works in many small portions."""

import threading

import pytest

from cluster.cache.fair_lock import FairLock
from cluster.fake.clock import eventually


def test_the_holder_may_take_the_lock_again() -> None:
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


def test_a_waiting_thread_gets_the_lock_before_its_last_holder() -> None:
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


def test_an_error_while_the_lock_is_held_releases_it() -> None:
    turns, done = FairLock(), threading.Event()
    with pytest.raises(ZeroDivisionError), turns, turns:
        _ = 1 / 0

    def once() -> None:
        with turns:
            done.set()

    thread = threading.Thread(target=once)
    thread.start()
    assert done.wait(60)
    thread.join()


def test_many_threads_hold_the_lock_one_at_a_time() -> None:
    turns, inside, most, total = FairLock(), list[int](), list[int](), list[int]()

    def work(number: int) -> None:
        for _ in range(200):
            with turns, turns:
                inside.append(number)
                most.append(len(inside))
                total.append(number)
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (max(most), len(total)) == (1, 800)
