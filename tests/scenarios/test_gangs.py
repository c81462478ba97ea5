"""Gangs start and leave whole, or not at all."""

import pytest

from cluster import names
from cluster.objects.pods import Pod, is_live
from cluster.objects.scheduling_gates import is_queued
from demo.simulation.job_controller import BatchJob
from tests.scenarios.acts import fill, left, served, settled
from tests.scenarios.conftest import Policy
from tests.scenarios.person import NAMESPACE, Person, a_pod
from tests.scenarios.seeing import runs
from tests.scenarios.world import World


@pytest.fixture
def world(fair_world: World) -> World:
    return fair_world


def gang(owner: Person, name: str, size: int, *, gpus: int = 1, only: int | None = None) -> list[str]:
    """A gang's pods, or the one of a number; their names."""
    made = [f"{name}-{number}" for number in range(size) if only in (None, number)]
    for one in made:
        pod = a_pod(one, gpus)
        pod["metadata"]["annotations"] |= {names.GANG_SIZE: str(size), names.GANG: name}
        owner.create(pod)
    return made


def bound(world: World, *pods: str) -> int:
    there = (world.pod(name) for name in pods)
    return sum(bool(pod and pod.spec.node_name and is_live(pod)) for pod in there)


def never_in_part(world: World, pods: list[str], seconds: float) -> None:
    """At no time do some of them have a node for long while others have none."""
    for _ in range(round(seconds / 5)):
        world.run(5)
        if 0 < bound(world, *pods) < len(pods):
            world.until(lambda: bound(world, *pods) in (0, len(pods)), "all or none", within=5)


def test_a_gang_starts_when_all_of_its_pods_exist(world: World) -> None:
    pods = [*gang(world.alice, "g", 3, only=0), *gang(world.alice, "g", 3, only=1)]
    world.run(120)
    assert bound(world, *pods) == 0
    world.bob.create(a_pod("bob"))
    served(world, "bob")
    served(world, *pods, *gang(world.alice, "g", 3, only=2))
    settled(world)


def test_a_gang_waits_for_devices_for_all(world: World) -> None:
    fill(world)
    pods = gang(world.alice, "g", 2)
    for name in ("bob-1", "bob-2"):
        world.bob.delete(name)
        world.run(20)
        if name == "bob-1":
            assert bound(world, *pods) == 0
    served(world, *pods)
    settled(world)


def test_bob_gives_back_for_a_gang_of_alice(world: World, policy: Policy) -> None:
    policy.write(mode="reclaim", worth=0, min_runtime="PT0S", reclaim_after="PT1M")
    were = fill(world)
    pods = gang(world.alice, "g", 2)
    never_in_part(world, pods, 120)
    served(world, *pods)
    assert len(left(world, were)) == 2
    settled(world)


def test_a_gang_leaves_whole(world: World, policy: Policy) -> None:
    policy.write(mode="reclaim", turn_loss="none")
    pods = gang(world.bob, "g", 4)
    served(world, *pods)
    were = {name: world.pod(name).metadata.uid for name in pods}
    for number in range(4):
        world.alice.create(a_pod(f"alice-{number}"))
    world.until(lambda: len(left(world, were)) == 4, "all of the gang leaves", within=3 * 3600)
    served(world, "alice-0", "alice-1", "alice-2", "alice-3")
    assert all(is_queued(world.pod(name)) for name in pods)
    settled(world)


@pytest.mark.parametrize("when", ["held", "bound"])
def test_the_leader_dies_while_a_gang_starts(world: World, policy: Policy, when: str) -> None:
    policy.write(mode="reclaim", worth=0, min_runtime="PT0S", reclaim_after="PT0S")
    fill(world)
    for name in ("bob-1", "bob-2", "bob-3", "bob-4"):
        world.bob.annotate(name, notice="PT1M")
    pods = gang(world.alice, "g", 2)
    if when == "held":
        world.until(
            lambda: any(world.pod(name).metadata.annotation(names.HOLD) for name in pods), "devices are kept"
        )
    else:
        world.until(lambda: not all(is_queued(world.pod(name)) for name in pods), "one starts", within=120)
    world.kill("controller-0", back_after=300)
    world.until(lambda: runs(world, *pods), "the gang runs", within=400)
    settled(world)


def test_a_gang_that_cannot_start_whole_is_let_go_whole(world: World) -> None:
    """One of its pods is deleted while it starts, and bob's pod is next in line."""
    pods = gang(world.alice, "g", 2, gpus=2)
    served(world, *pods)
    world.bob.create(a_pod("bob", 2))
    world.alice.delete("g-1")
    served(world, "bob")
    gang(world.alice, "g", 2, gpus=2, only=1)
    world.run(30)
    assert runs(world, "g-0")
    world.until(
        lambda: all(is_queued(world.pod(name)) for name in pods if world.pod(name)), "both wait", within=120
    )
    assert bound(world, *pods) == 0
    world.bob.delete("bob")
    served(world, *pods)
    settled(world)


def test_a_gang_that_has_run_for_long_is_not_stopped_for_a_pod_that_it_lost(world: World) -> None:
    pods = gang(world.alice, "g", 2, gpus=2)
    served(world, *pods)
    world.run(900)
    world.bob.create(a_pod("bob", 2))
    world.alice.delete("g-1")
    served(world, "bob")
    gang(world.alice, "g", 2, gpus=2, only=1)
    world.run(300)
    assert runs(world, "g-0")
    world.bob.delete("bob")
    served(world, "g-1")
    settled(world)


def test_a_booked_pod_takes_a_gang_whole(world: World) -> None:
    pods = gang(world.bob, "g", 4)
    served(world, *pods)
    were = {name: world.pod(name).metadata.uid for name in pods}
    world.alice.book()
    world.alice.create(a_pod("alice"))
    served(world, "alice")
    world.run(60)
    assert len(left(world, were)) == 4
    settled(world)


def test_off_lets_the_pods_of_gangs_go(world: World, policy: Policy) -> None:
    pods = gang(world.alice, "g", 3)[:2]
    world.alice.delete("g-2")
    pods = [name for name in pods if world.pod(name)]
    policy.write(mode="off")
    served(world, *pods)
    settled(world)


def test_the_pods_of_a_job_are_a_gang_without_a_name(world: World, policy: Policy) -> None:
    policy.write(mode="reclaim", turn_loss="none")
    template = a_pod("template")
    template["metadata"]["annotations"][names.GANG_SIZE] = "4"
    ignored = {"action": "Ignore", "onPodConditions": [{"type": names.DISRUPTION_TARGET, "status": "True"}]}
    world.controllers.run_job(BatchJob("train", NAMESPACE, 4, template, rules=[ignored]))

    def jobs() -> list[Pod]:
        return [pod for pod in world.pods() if is_live(pod) and pod.metadata.controller]

    world.until(lambda: sum(pod.status.phase == "Running" for pod in jobs()) == 4, "the Job runs")
    were = {pod.metadata.name: pod.metadata.uid for pod in jobs()}
    for number in range(4):
        world.alice.create(a_pod(f"alice-{number}"))
    world.until(lambda: len(left(world, were)) == 4, "all of the gang leaves", within=3 * 3600)
    served(world, "alice-0", "alice-1", "alice-2", "alice-3")
    world.until(lambda: sum(map(is_queued, jobs())) == 4, "four new pods wait")
    for number in range(3):
        world.alice.delete(f"alice-{number}")
        world.run(30)
        assert not any(pod.spec.node_name for pod in jobs())
    world.alice.delete("alice-3")
    world.until(lambda: sum(pod.status.phase == "Running" for pod in jobs()) == 4, "the Job runs again")
    settled(world)
