"""GPUs without a booking go to whoever holds least: the pictures of the article that the order follows."""

from pathlib import Path
from typing import Any

import pytest

from cluster import names
from cluster.objects.pods import is_live
from cluster.objects.scheduling_gates import is_queued
from tests.scenarios.acts import BOBS, fill, left, served, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import a_pod
from tests.scenarios.seeing import runs
from tests.scenarios.world import World


class Policy:
    """The policy file of a world."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write(mode="order")

    def write(self, **shares: Any) -> None:
        """Fair shares as they are from now on; the controller reads them within seconds."""
        lines = "".join(f"  {key}: {value}\n" for key, value in shares.items())
        self.path.write_text(f"fair_shares:\n{lines}")


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return Policy(tmp_path / "policy.yaml")


@pytest.fixture
def world(new_world: Worlds, policy: Policy) -> World:
    """Two nodes with two A100s each, two controllers."""
    return new_world(policy_file=policy.path, replicas=2)


def queued(world: World) -> set[str]:
    return {pod.metadata.name for pod in world.pods() if is_queued(pod)}


def running(world: World, user: str) -> int:
    mine = (pod for pod in world.pods() if is_live(pod) and pod.metadata.annotation(names.USER) == user)
    return sum(pod.status.phase == "Running" for pod in mine)


def twenty(world: World) -> list[str]:
    """Bob's pods have all GPUs, and twenty others of his wait."""
    fill(world)
    waiting = [f"b{number:02}" for number in range(20)]
    for name in waiting:
        world.bob.create(a_pod(name))
    world.run(2)
    return waiting


def test_nobody_waits_in_a_cluster_with_room(world: World) -> None:
    fill(world)
    writes = [call for call in world.kube.calls if call.verb == "PATCH" and "/pods/bob" in call.path]
    assert not any("schedulingGates" in str(call.body) for call in writes)
    assert not any(names.HOLD in str((call.body or {}).get("metadata")) for call in writes)
    settled(world)


def test_the_next_turn_is_alices_though_twenty_pods_of_bob_are_older(world: World) -> None:
    waiting = twenty(world)
    world.alice.create(a_pod("alice"))
    world.run(2)
    assert queued(world) == {*waiting, "alice"}
    world.bob.delete(BOBS[0])
    served(world, "alice")
    assert queued(world) == set(waiting)
    world.bob.delete(BOBS[1])
    served(world, waiting[0])
    assert queued(world) == set(waiting[1:])
    settled(world)


def test_what_becomes_free_goes_to_each_in_turn_until_both_have_the_same(world: World) -> None:
    waiting = twenty(world)
    for number in range(4):
        world.alice.create(a_pod(f"alice-{number}"))
    world.run(2)
    for name in BOBS:
        world.bob.delete(name)
    world.until(lambda: running(world, "alice") + running(world, "bob") == 4, "all GPUs are in use again")
    assert running(world, "alice") == running(world, "bob") == 2
    assert runs(world, "alice-0", "alice-1", *waiting[:2])
    settled(world)


def test_a_users_own_pods_are_served_by_their_priority(world: World) -> None:
    fill(world)
    for name, priority in {"low": "-5", "plain": None, "high": "7"}.items():
        pod = a_pod(name)
        if priority:
            pod["metadata"]["annotations"][names.PRIORITY] = priority
        world.alice.create(pod)
        world.run(1)
    for freed, name in zip(BOBS, ("high", "plain", "low"), strict=False):
        world.bob.delete(freed)
        served(world, name)
    settled(world)


def test_a_big_pod_that_does_not_fit_keeps_no_free_gpu_from_others(world: World) -> None:
    fill(world)
    world.alice.create(a_pod("big", 2))
    world.bob.create(a_pod("small"))
    world.run(2)
    on_first = [pod.metadata.name for pod in world.pods() if pod.spec.node_name == "n0"]
    world.bob.delete(on_first[0])
    served(world, "small")
    assert queued(world) == {"big"}
    settled(world)


def test_a_booked_pod_takes_what_is_kept_for_a_turn(world: World) -> None:
    waiting = twenty(world)
    world.kill("scheduler", back_after=None)
    world.bob.delete(BOBS[0])
    world.until(lambda: world.pod(waiting[0]).metadata.annotation(names.HOLD) is not None, "its turn")
    world.alice.book()
    world.alice.create(a_pod("alice"))
    world.until(lambda: bool(world.pod("alice").metadata.annotation(names.HOLD)), "bookings come first")
    world.start("scheduler")
    served(world, "alice")
    assert running(world, "bob") == 3
    settled(world)


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_turns_go_on_under_another_leader(world: World, seconds: float) -> None:
    waiting = twenty(world)
    world.alice.create(a_pod("alice"))
    world.run(2)
    world.bob.delete(BOBS[0])
    world.run(seconds)
    world.kill("controller-0", back_after=300)
    world.bob.delete(BOBS[1])
    served(world, "alice", waiting[0])
    settled(world)
    assert queued(world) == set(waiting[1:])


def test_off_lifts_everything(world: World, policy: Policy) -> None:
    waiting = twenty(world)
    world.kill("scheduler", back_after=None)
    world.bob.delete(BOBS[0])
    world.until(lambda: bool(world.pod(waiting[0]).metadata.annotation(names.HOLD)), "its turn")
    policy.write(mode="off")
    world.until(lambda: not queued(world), "no pod waits behind a gate")
    world.until(lambda: not world.pod(waiting[0]).metadata.annotation(names.HOLD), "no turn is left")
    world.start("scheduler")
    world.until(lambda: running(world, "bob") == 4, "the scheduler places whom it likes")
    settled(world)


def test_no_pod_of_a_running_one_is_taken_in_order(world: World) -> None:
    were = fill(world)
    for number in range(8):
        world.alice.create(a_pod(f"alice-{number}"))
    world.run(600)
    assert left(world, were) == []
    settled(world)
