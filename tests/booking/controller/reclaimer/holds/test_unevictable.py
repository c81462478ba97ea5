"""A pod that could not be evicted is left out of the plans, and asked about after growing pauses."""

from booking.controller.reclaimer.evictions.refusals import Blocker
from booking.controller.reclaimer.holds.unevictable import (
    RELAPSED_AT_MOST,
    SPARED_AT_MOST,
    SPARED_FOR,
    UnevictablePods,
)
from cluster.fake.clock import FakeClock

BUDGET = Blocker("the disruption budget team/keep protects it", ("team/keep",))
WEBHOOK = Blocker("the API server refuses its eviction")


def test_a_pod_is_excluded_until_it_may_be_evicted_and_asked_about_less_and_less_often() -> None:
    clock = FakeClock()
    excluded = UnevictablePods(clock)
    for pause in (SPARED_FOR, 2 * SPARED_FOR, 4 * SPARED_FOR, SPARED_AT_MOST, SPARED_AT_MOST):
        excluded.add("p", WEBHOOK)
        clock.advance(pause - 1)
        assert (excluded.uids, excluded.due) == ({"p"}, ())
        clock.advance(1)
        assert (excluded.uids, excluded.due) == ({"p"}, ("p",))
    excluded.lift("p")
    assert (excluded.uids, excluded.due, excluded.get("p")) == (frozenset(), (), None)


def test_a_pod_that_was_refused_though_its_dry_run_had_succeeded_is_asked_about_even_less_often() -> None:
    clock = FakeClock()
    excluded = UnevictablePods(clock)
    for _ in range(9):
        excluded.add("p", WEBHOOK)
        excluded.lift("p")
    excluded.add("p", WEBHOOK)
    clock.advance(RELAPSED_AT_MOST - 1)
    assert excluded.due == ()
    clock.advance(1)
    assert excluded.due == ("p",)


def test_pods_that_only_budgets_protect_are_distinguished() -> None:
    excluded = UnevictablePods(FakeClock())
    excluded.add("p", BUDGET)
    excluded.add("q", WEBHOOK)
    assert (excluded.protected, excluded.get("q")) == ({"p"}, WEBHOOK)


def test_the_record_of_a_pod_is_dropped_with_it() -> None:
    clock = FakeClock()
    excluded = UnevictablePods(clock)
    excluded.add("p", WEBHOOK)
    excluded.add("p", WEBHOOK)
    excluded.forget_all_but(frozenset())
    assert excluded.uids == frozenset()
    excluded.add("p", WEBHOOK)
    clock.advance(SPARED_FOR)
    assert excluded.due == ("p",)
