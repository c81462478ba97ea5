"""A pod that could not be evicted is left out of the plans, each time for longer."""

from booking.reclaimer.holds.unevictable import SPARED_AT_MOST, SPARED_FOR, UnevictablePods
from cluster.fake.clock import FakeClock


def test_a_pod_is_excluded_for_longer_each_time() -> None:
    clock = FakeClock()
    excluded = UnevictablePods(clock)
    for pause in (SPARED_FOR, 2 * SPARED_FOR, 4 * SPARED_FOR):
        excluded.add("p")
        clock.advance(pause - 1)
        assert excluded.uids == {"p"}
        clock.advance(1)
        assert excluded.uids == frozenset()


def test_no_exclusion_exceeds_the_longest() -> None:
    clock = FakeClock()
    excluded = UnevictablePods(clock)
    for _ in range(20):
        excluded.add("p")
    clock.advance(SPARED_AT_MOST)
    assert excluded.uids == frozenset()


def test_the_record_of_a_pod_is_dropped_with_it() -> None:
    clock = FakeClock()
    excluded = UnevictablePods(clock)
    excluded.add("p")
    excluded.add("p")
    excluded.forget_all_but(frozenset())
    assert excluded.uids == frozenset()
    excluded.add("p")
    clock.advance(SPARED_FOR)
    assert excluded.uids == frozenset()
