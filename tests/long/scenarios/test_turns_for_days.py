"""More users than GPUs, for days: all of them have the same in the end."""

from pathlib import Path

from tests.scenarios.acts import settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import Person, a_pod
from tests.scenarios.seeing import runs
from tests.scenarios.test_turns_of_large_pods import HOUR, eight, policy, save

__all__ = ["policy"]


def test_ten_users_of_four_gpus_have_the_same_within_three_days(new_world: Worlds, policy: Path) -> None:
    world = eight(new_world, policy, 4)
    people = [Person(world, f"user-{number}") for number in range(10)]
    for one in people:
        one.create(a_pod(one.name))
        world.run(5)
    had = dict.fromkeys((one.name for one in people), 0.0)
    for _ in range(3 * 24):
        world.run(HOUR)
        save(world)
        for name in had:
            had[name] += 1 if runs(world, name) else 0
    equal = 4 * 72 / 10
    assert all(0.9 * equal <= hours <= 1.1 * equal for hours in had.values())
    assert sum(had.values()) >= 0.98 * 4 * 72
    settled(world)
