"""What befalls a churn is drawn so that every kind occurs, and no target is struck twice at once."""

from itertools import pairwise
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from tests.long.churn.ground import CONTROLLERS
from tests.long.churn.strikes import BEGINS, LEADER, LEAST_WRONG, PARTS, QUIET, Kind, drawn

NODES = tuple(f"n{number}" for number in range(5))
SEEDS = st.text("0123456789abcdef", min_size=8, max_size=8)
MINUTE = 60.0


@given(SEEDS)
def test_a_seed_means_the_same_each_time(seed: str) -> None:
    assert drawn(seed, MINUTE, NODES) == drawn(seed, MINUTE, NODES)


@given(SEEDS)
def test_a_minute_has_room_for_everything_but_some_kills(seed: str) -> None:
    strikes = drawn(seed, MINUTE, NODES)
    assert {strike.kind for strike in strikes} == set(get_args(Kind))
    assert len([one for one in strikes if one.kind == "killed"]) >= len(PARTS) - 2
    assert all(strike.at >= BEGINS and strike.end <= MINUTE - QUIET for strike in strikes)


@given(SEEDS)
def test_no_target_is_struck_twice_at_a_time(seed: str) -> None:
    for targets in ({LEADER, *CONTROLLERS}, *({one} for one in (*PARTS, *NODES))):
        struck = [one for one in drawn(seed, MINUTE, NODES) if one.target in targets]
        assert all(before.end < after.at for before, after in pairwise(struck))


@given(SEEDS)
def test_a_wrong_clock_is_wrong_enough_to_matter(seed: str) -> None:
    (wrong,) = [one for one in drawn(seed, MINUTE, NODES) if one.kind == "clock wrong"]
    assert abs(wrong.amount) >= LEAST_WRONG
