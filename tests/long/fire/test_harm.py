"""The moments at which the crash tests strike are random and reproducible."""

from tests.long.fire.harm import LONGEST_DOWN, drawn, share
from tests.long.fire.short_story import LASTS, MOMENTS

TARGETS = ("extender", "booking-server")


def test_a_seed_gives_the_same_moments_each_time_and_another_seed_gives_others() -> None:
    assert drawn("a", TARGETS, LASTS) == drawn("a", TARGETS, LASTS)
    assert drawn("a", TARGETS, LASTS) != drawn("b", TARGETS, LASTS)


def test_a_target_is_struck_at_the_same_moment_whatever_else_is_struck() -> None:
    alone, both = drawn("a", TARGETS[:1], LASTS), drawn("a", TARGETS, LASTS)
    assert alone == both[:1]


def test_moments_lie_anywhere_between_two_of_the_story() -> None:
    blows = [blow for number in range(2000) for blow in drawn(str(number), TARGETS, LASTS)]
    assert {blow.moment for blow in blows} == set(LASTS)
    assert all(0 <= blow.after < LASTS[blow.moment] + 1e-9 for blow in blows)
    assert all(0 <= blow.down < LONGEST_DOWN for blow in blows)
    assert len({blow.after for blow in blows}) > len(blows) / 2


def test_every_moment_of_the_story_but_the_last_has_its_length() -> None:
    assert tuple(LASTS) == MOMENTS[:-1]


def test_shares_are_spread_evenly() -> None:
    shares = sorted(share(str(number), "when") for number in range(1000))
    assert all(abs(one - number / 1000) < 0.06 for number, one in enumerate(shares))
