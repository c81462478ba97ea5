"""A MIG profile is booked: its own devices are freed for it, and nobody's whole GPU."""

from cluster import names
from tests.fakes.objects import A100, a100
from tests.scenarios.acts import came_back, left, served, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import Json, a_pod
from tests.scenarios.seeing import devices, runs, uid_of, waits
from tests.scenarios.world import World

PROFILE = "1g.10gb"
SLICE = f"{A100}{names.MIG_MODEL}{PROFILE}"
RESOURCE = f"{names.MIG_RESOURCE_PREFIX}{PROFILE}"
PARTS = frozenset({"MIG-1", "MIG-2"})


def a_sliced_node(new_world: Worlds) -> World:
    """One GPU is cut into two parts, the two others are whole."""
    parts = [
        a100(0, uuid=part, model=SLICE, memory=9728, parent="GPU-n0-0", profile=PROFILE)
        for part in sorted(PARTS)
    ]
    return new_world({"n0": (*parts, a100(1), a100(2))})


def a_slice(name: str) -> Json:
    """A pod that asks for one part of a GPU."""
    pod = a_pod(name, model=None)
    amounts = {"cpu": "1", RESOURCE: "1"}
    pod["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}
    return pod


def test_a_booked_profile_is_freed_of_a_pod_on_that_profile_and_whole_gpus_stay_with_their_pods(
    new_world: Worlds,
) -> None:
    world = a_sliced_node(new_world)
    for name in ("whole-1", "whole-2"):
        world.bob.create(a_pod(name))
    for name in ("slice-1", "slice-2"):
        world.bob.create(a_slice(name))
    bobs = ("slice-1", "slice-2", "whole-1", "whole-2")
    served(world, *bobs)
    world.run(30)
    world.bob.checkpoint("slice-2")
    were = {name: uid_of(world, name) for name in bobs}
    freed = devices(world.pod("slice-2"))

    world.alice.book(model=SLICE)
    world.alice.create(a_slice("alice-1"))
    served(world, "alice-1")
    settled(world)
    assert devices(world.pod("alice-1")) == freed <= PARTS
    assert left(world, were) == came_back(world, were) == ["slice-2"]
    assert runs(world, "slice-1", "slice-2", "whole-1", "whole-2")


def test_a_booking_of_a_profile_covers_no_whole_gpu(new_world: Worlds) -> None:
    world = a_sliced_node(new_world)
    for name in ("whole-1", "whole-2"):
        world.bob.create(a_pod(name))
    served(world, "whole-1", "whole-2")
    were = {name: uid_of(world, name) for name in ("whole-1", "whole-2")}
    world.alice.book(model=SLICE)
    world.alice.create(a_pod("alice-1", model=None))
    world.until(lambda: waits(world, "alice-1"), "nothing is freed for her")
    settled(world)
    assert waits(world, "alice-1")
    assert left(world, were) == []
