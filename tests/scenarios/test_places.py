"""Bookings of several GPUs on one node, and pods that run where these are planned (law L5)."""

from datetime import timedelta

from cluster import names
from tests.fakes.objects import a100
from tests.scenarios.acts import gpus, served, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import a_pod
from tests.scenarios.seeing import devices, is_gone, runs, uid_of
from tests.scenarios.world import World


def _alice_runs_on_the_pair(new_world: Worlds) -> World:
    """n0 has two GPUs and n1 one; alice's pod without a booking is on n0."""
    world = new_world({"n0": (a100(0), a100(1)), "n1": (a100(0, "n1"),)})
    world.bob.create(a_pod("filler"))
    served(world, "filler")
    filler = world.pod("filler")
    if filler is not None and filler.spec.node_name != "n1":
        world.bob.create(a_pod("second"))
        served(world, "second")
    world.alice.create(a_pod("early"))
    served(world, "early")
    for name in ("filler", "second"):
        if world.pod(name) is not None:
            world.bob.delete(name)
    world.run(60)
    early = world.pod("early")
    assert early is not None
    assert early.spec.node_name == "n0"
    return world


def test_l5_a_pod_that_runs_in_the_place_of_others_is_not_adopted_and_goes_to_its_own(
    new_world: Worlds,
) -> None:
    world = _alice_runs_on_the_pair(new_world)
    uid = uid_of(world, "early")
    world.alice.book(start=world.at(days=1), lasting=timedelta(days=3))
    world.bob.book(2, start=world.at(days=2), lasting=timedelta(days=1))

    world.run(1.5 * 86400)
    early = world.pod("early")
    assert early is not None
    assert (early.metadata.uid, early.metadata.annotation(names.BOOKING)) == (uid, None)

    world.run(0.6 * 86400)
    world.bob.create(a_pod("pair", 2))
    served(world, "pair")
    world.until(lambda: is_gone(world, "early", uid) and runs(world, "early"), "alice's is back")
    back = world.pod("early")
    assert back is not None
    assert back.spec.node_name == "n1"
    assert back.metadata.annotation(names.BOOKING) is not None
    assert gpus(world) == {"early": 1, "pair": 2}
    settled(world)


def test_a_pod_that_is_not_adopted_is_not_ended_with_that_booking(new_world: Worlds) -> None:
    world = _alice_runs_on_the_pair(new_world)
    uid = uid_of(world, "early")
    world.alice.book(start=world.at(days=1), lasting=timedelta(days=3))
    world.bob.book(2, start=world.at(days=2), lasting=timedelta(days=3))
    world.run(4.2 * 86400)
    early = world.pod("early")
    assert early is not None
    assert (early.metadata.uid, len(devices(early))) == (uid, 1)
    settled(world)


def test_a_pod_is_adopted_as_soon_as_its_place_is_no_longer_planned_for_others(new_world: Worlds) -> None:
    world = _alice_runs_on_the_pair(new_world)
    uid = uid_of(world, "early")
    mine = world.alice.book(start=world.at(days=1), lasting=timedelta(days=3))
    bobs = world.bob.book(2, start=world.at(days=2), lasting=timedelta(days=1))
    world.run(1.5 * 86400)
    world.bob.cancel(bobs)
    world.run(60)
    early = world.pod("early")
    assert early is not None
    assert (early.metadata.uid, early.metadata.annotation(names.BOOKING)) == (uid, mine)
    settled(world)
