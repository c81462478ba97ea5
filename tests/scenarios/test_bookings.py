"""Which pods are served by which booking, and at whose cost."""

from datetime import timedelta

import pytest

from booking.server.errors import RefusedError
from cluster import names
from cluster.objects.pods import asks_for_gpus
from tests.fakes.objects import A100, A6000, a100, a6000
from tests.scenarios.acts import came_back, fill, gpus, is_kept, left, served, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import Person, a_pod
from tests.scenarios.seeing import devices, is_back, runs, uid_of, waits
from tests.scenarios.world import World

LONG = timedelta(days=10)


def test_two_booked_pods_at_once_take_one_victim_each_and_no_more(world: World) -> None:
    bobs = fill(world)
    world.alice.book(2, topology="any")
    world.alice.create(a_pod("alice-1"))
    world.alice.create(a_pod("alice-2"))
    served(world, "alice-1", "alice-2")
    settled(world)
    assert len(left(world, bobs)) == 2
    assert came_back(world, bobs) == left(world, bobs)


def test_a_booking_of_two_gpus_takes_both_of_the_node_that_loses_least(world: World) -> None:
    bobs = fill(world)
    cheap = [name for name in bobs if (pod := world.pod(name)) and pod.spec.node_name == "n1"]
    for name in cheap:
        world.bob.checkpoint(name)
    world.alice.book(2)
    world.alice.create(a_pod("pair", 2))
    served(world, "pair")
    settled(world)
    assert left(world, bobs) == came_back(world, bobs) == sorted(cheap)
    assert gpus(world)["pair"] == 2


def test_a_booking_that_begins_adopts_the_pod_that_runs_already_and_ends_it_with_its_end(
    world: World,
) -> None:
    uid = world.alice.create(a_pod("early"))
    served(world, "early")
    world.alice.book(start=world.at(days=1), lasting=timedelta(days=2))
    bobs = {name: world.bob.create(a_pod(name)) for name in ("bob-1", "bob-2", "bob-3", "bob-4")}
    world.run(1.1 * 86400)
    pod = world.pod("early")
    assert pod is not None
    assert pod.metadata.uid == uid
    assert pod.metadata.annotation(names.BOOKING) is not None
    assert waits(world, "bob-4")
    world.until(lambda: is_back(world, "early", uid), "it ends with the booking", within=3 * 86400)
    assert world.clock.now() >= world.at(days=3)
    world.until(lambda: runs(world, *bobs), "bob's fourth pod has its GPU")
    settled(world)


def test_a_pod_that_was_created_before_its_booking_begins_is_served_when_it_begins(world: World) -> None:
    bobs = fill(world)
    world.alice.book(start=world.at(days=1), lasting=timedelta(days=1))
    world.alice.create(a_pod("alice-1"))
    world.run(86400 - 60)
    assert waits(world, "alice-1")
    assert left(world, bobs) == []
    world.until(lambda: runs(world, "alice-1"), "it is served", within=180)
    assert world.clock.now() >= world.at(days=1)
    settled(world)
    assert len(left(world, bobs)) == 1


def test_only_pods_of_the_booked_model_have_to_leave(new_world: Worlds) -> None:
    world = new_world({"n0": (a6000(0), a100(1), a6000(2))})
    bobs = {name: world.bob.create(a_pod(name, model=A6000)) for name in ("b-1", "b-2")}
    bobs["b-3"] = world.bob.create(a_pod("b-3", model=A100))
    served(world, *bobs)
    for name in ("b-1", "b-2"):
        world.bob.checkpoint(name)
    world.alice.book(model=A100)
    world.alice.create(a_pod("alice-1", model=None))
    served(world, "alice-1")
    settled(world)
    assert left(world, bobs) == ["b-3"]


def test_a_pod_that_requests_another_model_is_not_covered(new_world: Worlds) -> None:
    world = new_world({"n0": (a6000(0), a100(1))})
    bobs = {"b-1": world.bob.create(a_pod("b-1", model=A6000)), "b-2": world.bob.create(a_pod("b-2"))}
    served(world, *bobs)
    world.alice.book(model=A100)
    world.alice.create(a_pod("alice-1", model=A6000))
    settled(world, 600)
    assert waits(world, "alice-1")
    assert left(world, bobs) == []


def test_a_booked_pod_that_can_never_fit_waits_quietly_and_no_pod_leaves_for_it(world: World) -> None:
    bobs = fill(world)
    world.alice.book(4, topology="any")
    world.alice.create(a_pod("giant", 4))
    world.run(60)
    before = world.scheduler.attempts
    settled(world, 1800)
    assert waits(world, "giant")
    assert not is_kept(world, "giant")
    assert left(world, bobs) == []
    assert world.scheduler.attempts - before < 20, "The scheduler is not kept busy."


def test_a_booking_for_one_namespace_covers_no_pod_elsewhere(world: World) -> None:
    bobs = fill(world)
    world.alice.book(namespace="elsewhere")
    world.alice.create(a_pod("here"))
    settled(world, 600)
    assert waits(world, "here")
    assert left(world, bobs) == []
    world.alice.create(a_pod("there"), namespace="elsewhere")
    world.until(lambda: gpus(world, namespace="elsewhere") == {"there": 1}, "the other pod is served")
    settled(world)
    assert len(left(world, bobs)) == 1


def test_two_users_with_bookings_are_both_served_at_the_cost_of_a_third(world: World) -> None:
    bobs = fill(world)
    carol = Person(world, "kubernetes-admin")
    world.alice.book(2, topology="any")
    carol.book(2, topology="any")
    with pytest.raises(RefusedError, match="GPU"):
        world.bob.book()
    for number in (1, 2):
        world.alice.create(a_pod(f"alice-{number}"))
        carol.create(a_pod(f"carol-{number}"))
    served(world, "alice-1", "alice-2", "carol-1", "carol-2")
    settled(world)
    assert came_back(world, bobs) == sorted(bobs)


def test_a_booked_pod_never_leaves_for_another_users_booking(world: World) -> None:
    world.bob.book(2, topology="any")
    bobs = fill(world)
    booked = {n for n in bobs if (pod := world.pod(n)) and pod.metadata.annotation(names.BOOKING)}
    assert len(booked) == 2
    for name in bobs:
        world.bob.checkpoint(name)
    world.alice.book(2, topology="any")
    world.alice.create(a_pod("alice-1"))
    world.alice.create(a_pod("alice-2"))
    served(world, "alice-1", "alice-2")
    settled(world)
    assert set(left(world, bobs)) == set(bobs) - booked


def test_pods_that_belong_to_no_user_leave_like_any_other_without_a_booking(world: World) -> None:
    nobody = Person(world, "system:serviceaccount:team:builder")
    theirs = {f"job-{n}": nobody.create(a_pod(f"job-{n}")) for n in range(4)}
    served(world, *theirs)
    pod = world.pod("job-0")
    assert pod is not None
    assert pod.metadata.annotation(names.USER) is None
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    settled(world)
    assert len(left(world, theirs)) == 1
    assert came_back(world, theirs) == left(world, theirs)


def test_two_large_booked_pods_share_the_nodes_without_conflict(world: World) -> None:
    bobs = fill(world)
    world.alice.book(4, topology="any")
    world.alice.create(a_pod("left", 2))
    world.alice.create(a_pod("right", 2))
    served(world, "left", "right")
    settled(world)
    assert came_back(world, bobs) == sorted(bobs)
    first, second = world.pod("left"), world.pod("right")
    assert not devices(first) & devices(second)


def test_a_free_gpu_is_taken_before_any_pod_leaves(world: World) -> None:
    bobs = {name: world.bob.create(a_pod(name)) for name in ("bob-1", "bob-2", "bob-3")}
    served(world, *bobs)
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    settled(world)
    assert left(world, bobs) == []


def test_a_pod_beyond_the_booked_count_waits_and_displaces_no_other(world: World) -> None:
    bobs = fill(world)
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    world.alice.create(a_pod("alice-2"))
    settled(world, 600)
    assert waits(world, "alice-2")
    assert len(left(world, bobs)) == 1


def test_bookings_follow_one_another_and_each_pod_ends_with_its_own(new_world: Worlds) -> None:
    world = new_world()
    bobs = fill(world)
    world.alice.book(lasting=LONG)
    hers = world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    world.until(lambda: is_back(world, "alice-1", hers), "it ends", within=1.1 * LONG.total_seconds())
    with pytest.raises(RefusedError) as refused:
        world.alice.book()
    earliest = refused.value.earliest_start
    assert earliest is not None
    assert {v.rule for v in refused.value.violations} == {"cooldown"}
    world.alice.book(start=earliest, lasting=timedelta(days=1))
    world.alice.delete("alice-1")
    world.alice.create(a_pod("alice-2"))
    world.until(lambda: runs(world, "alice-2"), "the free GPU is hers at once")
    world.run((earliest - world.clock.now()).total_seconds() + 60)
    pod = world.pod("alice-2")
    assert pod is not None
    assert pod.metadata.annotation(names.BOOKING) is not None
    second = uid_of(world, "alice-2")
    world.until(lambda: is_back(world, "alice-2", second), "it ends, too", within=2 * 86400)
    settled(world)
    assert len(left(world, bobs)) == 1
    stored = world.pod("alice-2")
    assert stored is not None
    assert not asks_for_gpus(stored)
