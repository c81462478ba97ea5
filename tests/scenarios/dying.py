"""A part that dies at one of its calls to the API server, whatever the scenario is."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from demo.simulation.part import Part
from demo.simulation.part_client import Killed
from tests.scenarios.conftest import Worlds
from tests.scenarios.takings import Taking, world_of


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


def dies_at_each(
    taking: Taking,
    part: str,
    new_world: Worlds,
    *,
    is_done: bool,
    which: Callable[[range], Iterable[int]] = lambda numbers: numbers,
) -> int:
    """Play it again and again, and compare how it ends; how many calls the part has.

    Args:
        taking: the scenario.
        part: who dies.
        new_world: makes worlds.
        is_done: whether the call has been done when it dies.
        which: of its calls.

    Raises:
        AssertionError: it ended otherwise.
    """

    def ended(death: DiesAt) -> object:
        world = world_of(taking, new_world)
        world.interruptions.append(death)
        return taking(world)

    counted = DiesAt(part, 0, is_done)
    end = ended(counted)
    for number in which(range(1, counted.calls + 1)):
        death = DiesAt(part, number, is_done)
        assert ended(death) == end, death
        assert death.calls >= number, death
    return counted.calls
