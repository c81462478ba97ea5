from concurrent.futures import ThreadPoolExecutor

from cluster.fake.clock import FakeClock
from extender.binding.keyed_lock import KeyedLock

LONG = 10.0


def test_the_second_holder_for_a_pod_waits_for_the_first() -> None:
    clock, order = FakeClock(), list[str]()
    keyed_lock = KeyedLock(clock)

    def work(name: str) -> None:
        with keyed_lock.held("uid", LONG) as is_held:
            assert is_held
            order.append(name)

    with ThreadPoolExecutor(2) as pool:
        with keyed_lock.held("uid", LONG):
            later = [pool.submit(work, "second")]
            clock.until_waiting(1)
            later.append(pool.submit(work, "third"))
            clock.until_waiting(2)
            order.append("first")
        for one in later:
            one.result(10)

    assert order == ["first", "second", "third"]


def test_a_caller_that_times_out_goes_without_the_lock_and_does_not_block_others() -> None:
    clock = FakeClock()
    keyed_lock = KeyedLock(clock)

    def work(within: float) -> bool:
        with keyed_lock.held("uid", within) as is_held:
            return is_held

    with ThreadPoolExecutor(2) as pool:
        with keyed_lock.held("uid", LONG):
            hasty = pool.submit(work, 1.0)
            clock.until_waiting(1)
            patient = pool.submit(work, LONG)
            clock.until_waiting(2)
            clock.advance(1.0)
            assert not hasty.result(10)
        assert patient.result(10)


def test_no_lock_is_kept_for_pods_that_are_done() -> None:
    keyed_lock = KeyedLock(FakeClock())
    with keyed_lock.held("a", LONG):
        pass

    assert not keyed_lock._lines
