"""Law L9 at the end of a world: all of our parts die at once and start again, and nothing has changed.

Compared where nothing is under way and nothing is about to happen by itself: what changes in the rest of a
story would not be a restart's fault.
"""

from typing import TYPE_CHECKING, Final

from demo.simulation.part import Part
from tests.laws.l9 import assert_unchanged

if TYPE_CHECKING:
    from tests.scenarios.world import World

RESTS: Final = 6.0
"""Seconds without a change, after which nothing is under way."""
TRIES: Final = 3
"""So often it is waited for."""
FIRST_ROUND: Final = 6.0
"""Seconds in which every part has done once what it does when it begins."""
WELL_AHEAD: Final = 30.0
"""Seconds in which nothing is due but the usual rounds: no booking begins or ends, no pod's work is done."""


def restarted(world: "World") -> bool:
    """Compare the cluster before and after; whether that could be done.

    Raises:
        LawBrokenError: the state after is not the state before.
    """
    world.interruptions.clear()
    if not _is_well(world) or not _rests(world):
        return False
    before = world.laws.fingerprint()
    ours = _ours(world)
    for part in ours:
        world.kill(part.name, back_after=None)
    for part in ours:
        world.start(part.name)
    world.until(world.is_ready, "every part is ready again")
    world.run(FIRST_ROUND)
    assert_unchanged(before, world.laws.fingerprint())
    return True


def _ours(world: "World") -> tuple[Part, ...]:
    return (world.server, *world.replicas, world.extender, *world.agents.values())


def _is_well(world: "World") -> bool:
    everybody = world.parts.values()
    is_undisturbed = all(part.life.alive and not part.is_troubled for part in everybody)
    return is_undisturbed and not world.is_away and world.server.problem is None


def _rests(world: "World") -> bool:
    """Whether it comes to rest."""
    for _ in range(TRIES):
        before = world.laws.fingerprint()
        world.run(RESTS)
        if world.laws.fingerprint() == before and world.is_resting(WELL_AHEAD):
            return True
    return False
