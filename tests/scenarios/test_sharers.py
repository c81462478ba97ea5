"""Shares of a GPU under bookings: sharers that leave for a booked pod, and shares that a booking covers."""

from typing import Any

from cluster import names
from tests.fakes.objects import shared_gpu
from tests.scenarios.acts import came_back, left, served, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import a_pod
from tests.scenarios.seeing import devices, uid_of, waits
from tests.scenarios.world import World

Json = dict[str, Any]

MIB = 80_000
"""What each GPU offers to shares."""


def a_share(name: str, memory: int, **more: Any) -> Json:
    """A pod that asks for a share in HAMi's words."""
    pod = a_pod(name, **more)
    resources = pod["spec"]["containers"][0]["resources"]
    for kind in ("limits", "requests"):
        resources[kind] = {**resources[kind], names.GPU_MEMORY: str(memory)}
    return pod


def a_world(new_world: Worlds, gpus: int = 1, **settings: Any) -> World:
    """One node with GPUs that may be shared."""
    return new_world({"n0": tuple(shared_gpu(n, memory=MIB) for n in range(gpus))}, **settings)


def sharing(world: World, *pods: tuple[str, int]) -> dict[str, str]:
    """Bob's pods with so many MiB each, which run; name -> uid."""
    for name, memory in pods:
        world.bob.create(a_share(name, memory))
    served(world, *(name for name, _ in pods))
    world.run(30)
    return {name: uid_of(world, name) for name, _ in pods}


def test_all_sharers_of_the_last_gpu_leave_with_notice_and_come_back_without_their_shares(
    new_world: Worlds,
) -> None:
    world = a_world(new_world, notice_seconds=30)
    bobs = sharing(world, ("bob-1", 20_000), ("bob-2", 20_000), ("bob-3", 20_000))
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    world.until(
        lambda: all((pod := world.pod(name)) and pod.metadata.annotation(names.NOTICE) for name in bobs),
        "all three are notified",
        within=10,
    )
    served(world, "alice-1")
    settled(world)
    assert left(world, bobs) == came_back(world, bobs) == sorted(bobs)
    for name in bobs:
        limits = world.whole(name).spec["containers"][0]["resources"].get("limits", {})
        assert not any(map(names.is_gpu_request, limits))


def test_the_gpu_of_the_sharers_who_lose_least_together_is_freed_and_no_other_sharer_leaves(
    new_world: Worlds,
) -> None:
    world = a_world(new_world, gpus=2)
    bobs = sharing(world, ("bob-1", 60_000), ("bob-2", 50_000), ("bob-3", 10_000))
    assert devices(world.pod("bob-1")) != devices(world.pod("bob-2"))
    first = devices(world.pod("bob-1"))
    expected = [name for name in bobs if devices(world.pod(name)) == devices(world.pod("bob-2"))]
    for name in expected:
        world.bob.checkpoint(name)
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    settled(world)
    assert left(world, bobs) == came_back(world, bobs) == expected
    assert devices(world.pod("alice-1")).isdisjoint(first)


def test_a_whole_booking_covers_its_owners_shares_and_the_fewest_sharers_leave_for_them(
    new_world: Worlds,
) -> None:
    world = a_world(new_world)
    bobs = sharing(world, ("bob-1", 40_000), ("bob-2", 20_000), ("bob-3", 10_000))
    world.bob.checkpoint("bob-2")
    world.alice.book()
    world.alice.create(a_share("alice-1", 30_000))
    served(world, "alice-1")
    settled(world)
    assert left(world, bobs) == came_back(world, bobs) == ["bob-2"]
    world.alice.create(a_share("alice-2", 50_000))
    served(world, "alice-2")
    settled(world)
    assert left(world, bobs) == came_back(world, bobs) == ["bob-1", "bob-2", "bob-3"]
    assert devices(world.pod("alice-1")) == devices(world.pod("alice-2"))


def test_shares_of_one_booking_are_together_and_another_one_is_not_put_there(new_world: Worlds) -> None:
    world = a_world(new_world, gpus=2)
    bobs = sharing(world, ("bob-1", 70_000), ("bob-2", 70_000))
    world.alice.book()
    world.bob.book()
    world.alice.create(a_share("alice-1", 20_000))
    world.alice.create(a_share("alice-2", 20_000))
    served(world, "alice-1", "alice-2")
    settled(world)
    assert devices(world.pod("alice-1")) == devices(world.pod("alice-2"))
    assert len(left(world, bobs)) == 1


def test_a_share_beyond_what_was_booked_waits_as_any_other_and_evicts_nobody(new_world: Worlds) -> None:
    world = a_world(new_world, gpus=2)
    bobs = sharing(world, ("bob-1", 70_000), ("bob-2", 70_000))
    world.alice.book()
    world.alice.create(a_share("alice-1", 50_000))
    served(world, "alice-1")
    world.alice.create(a_share("alice-2", 50_000))
    settled(world)
    assert waits(world, "alice-2")
    assert len(left(world, bobs)) == 1


def test_a_running_share_is_covered_where_it_is_and_its_neighbours_leave_only_when_needed(
    new_world: Worlds,
) -> None:
    world = a_world(new_world)
    bobs = sharing(world, ("bob-1", 20_000))
    world.alice.create(a_share("alice-1", 20_000))
    served(world, "alice-1")
    world.alice.book()
    world.until(lambda: is_booked(world, "alice-1"), "alice's share is booked")
    world.run(30)
    assert left(world, bobs) == []
    world.alice.create(a_share("alice-2", 60_000))
    served(world, "alice-2")
    settled(world)
    assert left(world, bobs) == came_back(world, bobs) == ["bob-1"]


def is_booked(world: World, name: str) -> bool:
    pod = world.pod(name)
    return pod is not None and pod.metadata.annotation(names.BOOKING) is not None
