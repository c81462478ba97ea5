"""Pods that do not fit into a share get turns, paid for by the time that their users have waited."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from booking.eviction.settings import EvictionSettings
from booking.policy.fair_shares import FairShares
from booking.principals import Principal
from booking.server.cluster_status import ClusterStatus
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
    for _ in range(28 * 2):
        world.run(HOUR / 2)
        save(world)
        running = [name for name in had if runs(world, name)]
        for name in running:
            had[name] += 1
        if running and running != [last]:
            changes, last = changes + 1, running[0]
    assert changes == 3
    assert abs(had["alice"] - had["bob"]) <= 4 * 2
    settled(world)


def test_a_pod_of_eight_gpus_among_many_small_ones_gets_its_turn_when_it_was_said(
    new_world: Worlds, policy: Path
) -> None:
    world = eight(new_world, policy)
    for name in ("bob", "carol", "user-2"):
        for number in range(6):
            Person(world, name).create(a_pod(f"{name}-{number}"))
    world.run(60)
    world.alice.create(a_pod("alice", 8))
    for _ in range(3):
        world.run(HOUR)
        save(world)
    due = announced(world, "alice")
    assert due is not None
    # She deserves two GPUs and needs six more, for four hours: two withheld for twelve hours pay for that.
    assert abs(due - world.clock.now() - timedelta(hours=9)) < timedelta(minutes=2)
    while (left := (due - world.clock.now()).total_seconds()) > HOUR / 2:
        world.run(min(HOUR, left - 120))
        save(world)
    world.run(left - 60)
    assert abs((announced(world, "alice") or due) - due) < timedelta(minutes=1)
    assert not runs(world, "alice")
    save(world)
    world.until(lambda: runs(world, "alice"), "its turn has come", within=180)
    world.run(4 * HOUR - 300)
    assert runs(world, "alice")
    settled(world)


def announced(world: World, name: str) -> datetime | None:
    """When the queue says that the turn of a pod is due."""
    status = ClusterStatus(
        world.server.cache,
        world.kube,
        world.clock,
        EvictionSettings(),
        visibility=lambda: "names",
        unready_reason=lambda: None,
        fair_shares=lambda: FairShares(mode="reclaim"),
    )
    found = status.queue(Principal(user="alice", name="alice"))
    return next((one.turn_due for model in found.models for one in model.pods if one.name == name), None)


@pytest.mark.parametrize("seconds", [5.0, 200.0])
def test_another_leader_goes_on_with_a_turn_that_has_been_paid_for(
    new_world: Worlds, policy: Path, seconds: float
) -> None:
    nodes = {"n0": tuple(a100(number) for number in range(4))}
    world = new_world(nodes, policy_file=policy, replicas=2)
    world.bob.create(a_pod("bob", 4))
    world.until(lambda: runs(world, "bob"), "bob has all")
    world.bob.annotate("bob", notice="PT5M")
    world.alice.create(a_pod("alice", 4))
    for _ in range(7):
        world.run(HOUR / 2)
        save(world)
    world.until(lambda: kept(world), "its turn", within=HOUR)
    world.run(seconds)
    world.kill("controller-0", back_after=600)
    world.until(lambda: runs(world, "alice"), "alice has her turn", within=500)
    assert world.pod("alice").metadata.annotation(names.TURN) == str(4 * 3600)
    settled(world)


def kept(world: World) -> str | None:
    return world.pod("alice").metadata.annotation(names.HOLD)


def test_a_gang_larger_than_a_share_gets_its_turn_whole(new_world: Worlds, policy: Path) -> None:
    nodes = {name: tuple(a100(number, name) for number in range(2)) for name in ("n0", "n1")}
    world = new_world(nodes, policy_file=policy)
    for name in ("bob", "carol", "user-2"):
        for number in range(2):
            Person(world, name).create(a_pod(f"{name}-{number}"))
    world.run(60)
    gang = [f"g-{number}" for number in range(4)]
    for name in gang:
        pod = a_pod(name)
        pod["metadata"]["annotations"] |= {names.GANG: "g", names.GANG_SIZE: "4"}
        world.alice.create(pod)
    for _ in range(20):
        world.run(HOUR)
        save(world)
        there = sum(runs(world, name) for name in gang)
        assert there in (0, 4)
        if there:
            break
    assert runs(world, *gang)
    assert world.clock.now() - world.at() >= timedelta(hours=11.9)
    world.run(HOUR)
    assert runs(world, *gang)
    settled(world)
