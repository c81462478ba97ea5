"""Bookings given back and pods deleted by their users, at every stage of an eviction."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from cluster import names
from cluster.kube.errors import NotFound
from cluster.objects.pods import asks_for_gpus, is_terminating
from tests.scenarios.acts import came_back, fill, gpus, is_kept, left, served, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import a_pod
from tests.scenarios.sampling import every
from tests.scenarios.seeing import devices, has_left, is_back, is_gone, runs, uid_of
from tests.scenarios.world import World

VICTIM = "bob-3"
STAGES: dict[str, Callable[[World, str], object]] = {
    "asked": lambda world, _uid: world.pod("alice-1"),
    "kept": lambda world, _uid: is_kept(world, "alice-1"),
    "notified": lambda world, _uid: is_notified(world) or not is_kept(world, "alice-1"),
    "leaving": lambda world, uid: has_left(world, VICTIM, uid),
    "gone": lambda world, uid: is_gone(world, VICTIM, uid),
    "returning": lambda world, uid: (pod := world.pod(VICTIM)) and pod.metadata.uid != uid,
    "bound": lambda world, _uid: devices(world.pod("alice-1")),
    "running": lambda world, _uid: runs(world, "alice-1"),
    "back": lambda world, uid: is_back(world, VICTIM, uid),
}


def is_notified(world: World) -> bool:
    pod = world.pod(VICTIM)
    return pod is not None and pod.metadata.annotation(names.NOTICE) is not None


def until_stage(world: World, stage: str) -> tuple[dict[str, str], str]:
    """Alice has booked and asks; time goes on to a stage of ``VICTIM``'s leaving: bob's uids, her booking."""
    bobs = fill(world, cheap=VICTIM)
    booking = world.alice.book()
    world.alice.create(a_pod("alice-1"))
    for name, reached in STAGES.items():
        world.until(partial(reached, world, bobs[VICTIM]), name)
        if name == stage:
            break
    return bobs, booking


def all_gpus_are_used(world: World) -> bool:
    return sum(gpus(world).values()) == 4


@pytest.mark.parametrize("stage", STAGES)
def test_a_victim_that_need_not_leave_any_more_stays_and_one_that_has_left_comes_back(
    stage: str, new_world: Worlds
) -> None:
    world = new_world(notice_seconds=3)
    bobs, booking = until_stage(world, stage)
    world.alice.release(booking)
    settled(world)
    gone = left(world, bobs)
    assert gone in ([], [VICTIM])
    assert came_back(world, bobs) == gone
    assert (stage in ("asked", "kept", "notified")) == (gone == [])
    assert not any(world.pod(n).metadata.annotation(names.NOTICE) for n in bobs)
    assert all_gpus_are_used(world) or gone


@pytest.mark.parametrize("stage", every(2, STAGES))
def test_a_user_who_deletes_the_pod_that_leaves_wins(stage: str, new_world: Worlds) -> None:
    world = new_world(notice_seconds=3)
    bobs, _ = until_stage(world, stage)
    pod = world.pod(VICTIM)
    if pod is None or (is_terminating(pod) and pod.metadata.uid == bobs[VICTIM]):
        # It is leaving by our hand: a deletion of what is being deleted says nothing.
        world.until(lambda: is_back(world, VICTIM, bobs[VICTIM]), "it is back")
    world.bob.delete(VICTIM)
    settled(world)
    assert world.pod(VICTIM) is None
    assert left(world, bobs) == [VICTIM]
    assert runs(world, "alice-1")


@pytest.mark.parametrize("stage", every(2, STAGES))
def test_the_gpus_of_a_deleted_booked_pod_are_available_to_any_pod(stage: str, new_world: Worlds) -> None:
    world = new_world(notice_seconds=3)
    bobs, _ = until_stage(world, stage)
    world.alice.delete("alice-1")
    world.bob.create(a_pod("bob-5"))
    settled(world)
    assert world.pod("alice-1") is None
    gone = left(world, bobs)
    assert (stage in ("asked", "kept", "notified")) == (gone == [])
    assert came_back(world, bobs) == gone
    assert all_gpus_are_used(world)


@pytest.mark.parametrize("stage", every(3, STAGES))
def test_a_pod_created_again_under_its_name_is_served_like_the_first(stage: str, new_world: Worlds) -> None:
    world = new_world(notice_seconds=3)
    bobs, _ = until_stage(world, stage)
    uid = uid_of(world, "alice-1")
    world.alice.delete("alice-1")
    world.until(lambda: is_gone(world, "alice-1", uid), "the first is gone")
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    settled(world)
    assert len(left(world, bobs)) == 1
    assert came_back(world, bobs) == left(world, bobs)


def test_a_booking_that_is_cancelled_before_its_start_affects_no_pod(world: World) -> None:
    bobs = fill(world)
    booking = world.alice.book(start=world.at(hours=1), lasting=timedelta(days=1))
    world.alice.create(a_pod("alice-1"))
    world.run(1800)
    world.alice.cancel(booking)
    settled(world, 7200)
    assert left(world, bobs) == []
    assert not list(world.bookings())


def test_a_booking_may_be_given_back_at_the_moment_at_which_it_begins(world: World) -> None:
    bobs = fill(world)
    begin = world.clock.now() + timedelta(seconds=60)
    booking = world.alice.book(start=begin.replace(microsecond=0), lasting=timedelta(days=1))
    world.alice.create(a_pod("alice-1"))
    world.until(lambda: world.clock.now() >= begin.replace(microsecond=0), "it begins")
    world.alice.release(booking)
    settled(world)
    assert came_back(world, bobs) == left(world, bobs)


def test_a_pod_that_ends_by_itself_during_its_notice_does_not_come_back(new_world: Worlds) -> None:
    world = new_world(notice_seconds=20)
    world.bob.create(a_pod("short", seconds=60.0))
    for name in ("bob-1", "bob-2", "bob-4"):
        world.bob.create(a_pod(name))
    served(world, "short", "bob-1", "bob-2", "bob-4")
    world.run(45)
    world.bob.checkpoint("short")
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    world.until(
        lambda: (pod := world.pod("short")) and pod.metadata.annotation(names.NOTICE),
        "it is notified",
        within=5,
    )
    served(world, "alice-1")
    settled(world)
    done = world.pod("short")
    assert done is not None
    assert (done.status.phase, done.metadata.annotation(names.RECREATED_FROM)) == ("Succeeded", None)
    assert asks_for_gpus(done)


def test_a_missing_pod_cannot_be_deleted(world: World) -> None:
    with pytest.raises(NotFound):
        world.alice.delete("nobody")
