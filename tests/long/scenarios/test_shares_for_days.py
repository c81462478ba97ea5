"""Fair shares for days: everybody gets the same in the end, and nobody is taken too often."""

from collections import Counter
from pathlib import Path

import pytest

from cluster import names
from cluster.objects.pods import is_live
from tests.scenarios.acts import fill, settled
from tests.scenarios.conftest import Policy, Worlds
from tests.scenarios.person import Person, a_pod
from tests.scenarios.test_fair_shares import running
from tests.scenarios.test_shares_of_many import AT_ONCE, HOUR
from tests.scenarios.world import World


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return Policy(tmp_path / "policy.yaml")


@pytest.fixture
def world(new_world: Worlds, policy: Policy) -> World:
    """Two nodes with two A100s each."""
    return new_world(policy_file=policy.path)


def test_ten_users_of_four_gpus_have_the_same_after_three_days(world: World, policy: Policy) -> None:
    """Each always wants one GPU, for five hours at a time."""
    policy.write(mode="reclaim")
    people = [Person(world, f"user-{number}") for number in range(10)]
    had, numbers = Counter[str](), Counter[str]()
    for _ in range(3 * 24 * 4):
        live = [pod for pod in world.pods() if is_live(pod)]
        has = Counter(pod.metadata.annotation(names.USER) for pod in live)
        for person in (one for one in people if not has[one.name]):
            numbers[person.name] += 1
            person.create(a_pod(f"{person.name}-{numbers[person.name]}", seconds=5 * HOUR))
        world.run(HOUR / 4)
        had.update(
            pod.metadata.annotation(names.USER) or ""
            for pod in world.pods()
            if pod.spec.node_name and is_live(pod)
        )
    settled(world)
    assert len(had) == 10
    assert max(had.values()) <= 1.35 * min(had.values()), had


def test_short_pods_every_ten_minutes_take_nobody_more_than_three_times_a_day(
    world: World, policy: Policy
) -> None:
    """The law says so at each eviction."""
    policy.write(**AT_ONCE)
    fill(world)
    for number in range(24 * 6):
        for place in range(2):
            world.alice.create(a_pod(f"short-{number}-{place}", seconds=60))
        world.run(600)
    settled(world)
    assert running(world, "bob") >= 2
