"""Pods behind our scheduling gate: who gets what becomes free, whatever happens to those who lift it."""

from datetime import timedelta

import pytest

from booking.policy.fair_shares import FairShares
from cluster import names
from cluster.objects.pods import asks_for_gpus
from cluster.objects.scheduling_gates import is_queued
from tests.scenarios.acts import BOBS, fill, left, served, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import a_pod
from tests.scenarios.seeing import runs
from tests.scenarios.story import Story
from tests.scenarios.world import World

WAITING = tuple(f"waits-{number}" for number in range(8))


@pytest.fixture
def world(new_world: Worlds) -> World:
    """Two controllers, without fair shares."""
    return new_world(queue_gate=True, fair_shares=FairShares(mode="off"), replicas=2)


def queued(world: World) -> set[str]:
    return {pod.metadata.name for pod in world.pods() if is_queued(pod)}


def wait_in_line(world: World) -> None:
    """Bob's pods have all GPUs, and eight others of his wait, one ahead of its turn."""
    fill(world)
    for name in WAITING:
        world.bob.create(a_pod(name))
        world.run(1)
    assert queued(world) == set(WAITING[1:])


def test_a_freed_gpu_goes_to_the_next_pod_in_line(world: World) -> None:
    wait_in_line(world)
    for number, name in enumerate(BOBS):
        world.bob.delete(name)
        served(world, WAITING[number])
        assert not runs(world, WAITING[number + 1])
    settled(world)
    assert queued(world) == set(WAITING[5:])


@pytest.mark.parametrize("seconds", [0.0, 2.0, 30.0])
def test_the_line_waits_after_the_death_of_a_leader_until_another_leads(world: World, seconds: float) -> None:
    wait_in_line(world)
    world.bob.delete(BOBS[0])
    world.run(seconds)
    world.kill("controller-0", back_after=300)
    world.bob.delete(BOBS[1])
    served(world, *WAITING[:2])
    for name in BOBS[2:]:
        world.bob.delete(name)
    served(world, *WAITING[:4])
    settled(world)
    assert queued(world) == set(WAITING[5:])


def test_a_pod_in_line_gets_its_gpu_at_once_when_its_user_books(world: World) -> None:
    bobs = fill(world)
    world.bob.create(a_pod("first"))
    world.run(1)
    world.alice.create(a_pod("alice"))
    world.run(1)
    assert queued(world) == {"alice"}
    world.alice.book()
    served(world, "alice")
    settled(world)
    assert len(left(world, bobs)) == 1
    assert not runs(world, "first")


def test_a_victim_that_wants_its_gpu_again_comes_back_into_the_line(world: World) -> None:
    wait_in_line(world)
    for name in BOBS:
        world.bob.annotate(name, on_evict="requeue")
    world.alice.book()
    world.alice.create(a_pod("alice"))
    served(world, "alice")
    settled(world)
    (victim,) = [pod for pod in world.pods() if pod.metadata.annotation(names.RECREATED_FROM)]
    assert asks_for_gpus(victim)
    assert is_queued(victim)
    # It has its place of before, ahead of all others but the one that was let go.
    others = [name for name in BOBS if name != victim.metadata.name]
    for name in others[:2]:
        world.bob.delete(name)
    served(world, WAITING[0], victim.metadata.name)
    settled(world)


def test_a_pod_leaves_the_line_when_its_later_booking_begins(world: World) -> None:
    fill(world)
    world.bob.create(a_pod("first"))
    world.run(1)
    world.alice.book(start=world.clock.now() + timedelta(minutes=10))
    world.alice.create(a_pod("alice"))
    world.run(300)
    assert queued(world) == {"alice"}
    world.run(300)
    served(world, "alice")
    settled(world)


def test_the_story_ends_as_it_does_without_the_gate(new_world: Worlds) -> None:
    without = Story(new_world(fair_shares=FairShares(mode="off"))).play()
    assert Story(new_world(queue_gate=True, fair_shares=FairShares(mode="off"))).play() == without
    assert Story(new_world()).play() == without
