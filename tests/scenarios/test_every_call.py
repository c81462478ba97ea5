"""Each of our parts dies at each single call to the API server; the story ends the same.

Before the call, and when it has been done and its answer not been read. ``tests/booking/reclaimer`` has every
call of an eviction and its comeback with other faults than death, tests/long/fire the same on a real cluster.
"""

from dataclasses import dataclass

import pytest

from tests.scenarios.conftest import Worlds
from tests.scenarios.part import Part
from tests.scenarios.reaching import Killed
from tests.scenarios.sampling import every
from tests.scenarios.story import Story

LEAST = {"server": 20, "controller-0": 40, "extender": 5, "agent n0": 5}
"""Part -> calls that it has at least; it dies at every third of them in the gate, at each in a soak."""


@dataclass
class DiesAt:
    """An ``Interruption``: a process dies once.

    Args:
        name: of the part.
        number: of its call, from 1; 0: it lives.
        is_done: whether that call has been done.
    """

    name: str
    number: int
    is_done: bool
    calls: int = 0
    """That have come so far."""

    def __call__(self, part: Part, call: str, *, done: bool) -> None:
        """Count, and die."""
        if part.name == self.name and done == self.is_done:
            self.calls += 1
            if self.calls == self.number:
                raise Killed(f"{part.name} at call {self.number}, {call}")


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("part", LEAST)
def test_a_part_that_dies_at_any_of_its_calls_changes_nothing(
    part: str, new_world: Worlds, *, is_done: bool
) -> None:
    def ended(death: DiesAt) -> object:
        world = new_world()
        world.interruptions.append(death)
        return Story(world).play_first_act()

    counted = DiesAt(part, 0, is_done)
    end = ended(counted)
    assert counted.calls >= LEAST[part]
    for number in every(3, range(1, counted.calls + 1)):
        death = DiesAt(part, number, is_done)
        assert ended(death) == end, death
        assert death.calls >= number, death
