"""Pods that do not fit into a share get turns, paid for by the time that their users have waited."""

from pathlib import Path

import pytest

from cluster import names
from cluster.objects.pods import is_live
from tests.fakes.objects import a100
from tests.scenarios.acts import settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import Person, a_pod
from tests.scenarios.seeing import runs
from tests.scenarios.world import World

HOUR = 3600.0


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text("fair_shares:\n  mode: reclaim\n")
    return path


def eight(new_world: Worlds, policy: Path, gpus: int = 8) -> World:
    """One node."""
    return new_world({"n0": tuple(a100(number) for number in range(gpus))}, policy_file=policy)


def save(world: World) -> None:
    """Everybody's work is safe up to now."""
    for pod in world.pods():
        if is_live(pod) and pod.status.phase == "Running":
            Person(world, pod.metadata.annotation(names.USER) or "").checkpoint(pod.metadata.name)


def test_two_pods_of_eight_gpus_take_turns_and_do_not_chase_each_other(
    new_world: Worlds, policy: Path
) -> None:
    world = eight(new_world, policy)
    world.bob.create(a_pod("bob", 8))
    world.until(lambda: runs(world, "bob"), "bob has all")
    world.alice.create(a_pod("alice", 8))
    had, changes, last = {"alice": 0, "bob": 0}, 0, "bob"
    for _ in range(28 * 4):
        world.run(HOUR / 4)
        save(world)
        running = [name for name in had if runs(world, name)]
        for name in running:
            had[name] += 1
        if running and running != [last]:
            changes, last = changes + 1, running[0]
    assert abs(had["alice"] - had["bob"]) <= 17
    assert changes <= 12
    settled(world)
