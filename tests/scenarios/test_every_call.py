"""Each of our parts dies at each single call to the API server; the story ends the same.

Before the call, and when it has been done and its answer not been read. tests/long/scenarios plays every call
of other ways to take a GPU, ``tests/booking/controller/reclaimer`` every call of an eviction and its comeback
with other faults than death, tests/long/fire the same on a real cluster.
"""

import pytest

from tests.scenarios.conftest import Worlds
from tests.scenarios.dying import dies_at_each
from tests.scenarios.sampling import every
from tests.scenarios.takings import Taking, by_claim, first_act, given_back

LEAST = {"server": 20, "controller-0": 40, "extender": 5, "agent n0": 5, "agent n1": 5}
"""Part -> calls that it has at least; it dies at every sixth of them in the gate, at each in a soak."""


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("part", LEAST)
def test_a_part_that_dies_at_any_of_its_calls_changes_nothing(
    part: str, new_world: Worlds, *, is_done: bool
) -> None:
    calls = dies_at_each(first_act, part, new_world, is_done=is_done, which=lambda numbers: every(6, numbers))
    assert calls >= LEAST[part]


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("taking", [by_claim, given_back])
def test_a_controller_that_dies_while_it_takes_a_claim_changes_nothing(
    taking: Taking, new_world: Worlds, *, is_done: bool
) -> None:
    calls = dies_at_each(taking, "controller-0", new_world, is_done=is_done, which=lambda n: every(14, n))
    assert calls >= 20
