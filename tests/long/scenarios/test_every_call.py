"""Each of our parts dies at each single call to the API server, whichever way a booked pod takes a GPU."""

from itertools import product

import pytest

from tests.scenarios.conftest import Worlds
from tests.scenarios.dying import dies_at_each
from tests.scenarios.takings import WORLDS, Taking, given_back, refused

PARTS = ("server", "controller-0", "extender", "agent n0", "agent n1")


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("taking", "part"),
    [
        pytest.param(taking, part, id=f"{taking.__name__}-{part}")
        for taking, part in product(WORLDS, PARTS)
        if part != "agent n1" or taking not in (refused, given_back)  # it dies there anyway, or is not there
    ],
)
def test_a_part_that_dies_at_any_of_its_calls_changes_nothing(
    taking: Taking, part: str, new_world: Worlds, *, is_done: bool
) -> None:
    assert dies_at_each(taking, part, new_world, is_done=is_done) > 1
