"""Bookings of shares, from the booking server to the pods that leave for them."""

from datetime import timedelta

from booking.server.records import BookingRequest
from tests.fakes.objects import A100
from tests.scenarios.acts import came_back, left, served, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import Person, a_pod
from tests.scenarios.seeing import devices, waits
from tests.scenarios.test_sharers import a_share, a_world, is_booked, sharing


def book_share(person: Person, memory: int, count: int = 1) -> str:
    """A booking of shares of so many MiB, from now on; its id, when it is in the cluster."""
    world = person._world
    end = world.clock.now() + timedelta(days=2)
    request = BookingRequest(model=A100, count=count, end=end, memory=memory)
    return person._changed(lambda: world.server.book(person.name, request))


def test_a_booked_share_is_served_by_the_fewest_and_stays_while_a_whole_gpu_is_taken(
    new_world: Worlds,
) -> None:
    world = a_world(new_world, gpus=2, notice_seconds=30)
    bobs = sharing(world, ("bob-1", 40_000), ("bob-2", 40_000))
    bobs |= sharing(world, ("bob-3", 60_000), ("bob-4", 20_000))
    world.bob.checkpoint("bob-2")
    book_share(world.alice, 30_000)
    world.alice.create(a_share("alice-1", 30_000))
    served(world, "alice-1")
    settled(world)
    assert left(world, bobs) == came_back(world, bobs) == ["bob-2"]
    carol = Person(world, "carol")
    carol.book()
    carol.create(a_pod("whole"))
    served(world, "whole")
    settled(world)
    assert devices(world.pod("whole")).isdisjoint(devices(world.pod("alice-1")))
    assert is_booked(world, "alice-1")


def test_shares_of_two_users_in_one_lane_are_on_one_gpu_and_leave_the_other_to_a_whole_booking(
    new_world: Worlds,
) -> None:
    world = a_world(new_world, gpus=2)
    bobs = sharing(world, ("bob-1", 50_000), ("bob-2", 50_000))
    book_share(world.alice, 40_000)
    book_share(world.bob, 40_000)
    world.alice.create(a_share("alice-1", 40_000))
    served(world, "alice-1")
    world.run(30)
    world.bob.create(a_share("bobs", 40_000))
    served(world, "bobs")
    carol = Person(world, "carol")
    carol.book()
    carol.create(a_pod("whole"))
    served(world, "whole")
    settled(world)
    assert left(world, bobs) == ["bob-1", "bob-2"]


def test_a_share_that_is_larger_than_booked_or_a_whole_gpu_waits_and_evicts_nobody(
    new_world: Worlds,
) -> None:
    world = a_world(new_world)
    bobs = sharing(world, ("bob-1", 70_000))
    book_share(world.alice, 30_000)
    world.alice.create(a_share("larger", 30_001))
    world.alice.create(a_pod("whole"))
    settled(world)
    for name in ("larger", "whole"):
        world.until(lambda name=name: waits(world, name), f"{name} waits")
    assert left(world, bobs) == []
