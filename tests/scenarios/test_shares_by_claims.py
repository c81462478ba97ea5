"""Shares of a GPU by claims: who has room, what is booked of it, and who leaves for that."""

from typing import Any

import pytest

from cluster.kube.resources import RESOURCE_CLAIMS
from tests.scenarios.acts import came_back, left, settled
from tests.scenarios.claiming import (
    BY_CLAIM,
    Claims,
    claiming,
    devices_of_claims,
    exactly,
    rules,
    template_of,
)
from tests.scenarios.person import NAMESPACE, Person
from tests.scenarios.seeing import runs, uid_of, waits
from tests.scenarios.world import World

GIB = 1024


def asking(gibibytes: int) -> dict[str, Any]:
    return exactly(capacity={"requests": {"memory": f"{gibibytes}Gi"}})


@pytest.fixture
def shared(claims: Claims) -> Claims:
    """Makes worlds whose GPUs are given in shares by claims."""

    def make(gpus: int = 1) -> World:
        world = claims(gpus=gpus, shared=True)
        for size in (10, 20, 30, 40, 70):
            template_of(world, f"s{size}", exactly=asking(size))
        return world

    return make


def share(world: World, name: str, size: int) -> None:
    """A pod of bob's has so many GiB."""
    world.bob.create(claiming(name, f"s{size}"))
    world.until(lambda: runs(world, name), f"{name} runs")


def uids(world: World, *pods: str) -> dict[str, str]:
    return {name: uid_of(world, name) for name in pods}


def device_of(world: World, pod: str) -> str:
    """What the claim of a pod has."""
    held = devices_of_claims(world)
    return next(device for device, claims in held.items() if any(pod in claim for claim in claims))


@pytest.mark.parametrize("memory", [20 * GIB, None])
def test_only_who_frees_what_is_missing_leaves_for_a_booked_share(shared: Claims, memory: int | None) -> None:
    """Booked is a share, or a whole GPU of which its owner wants a share."""
    world = shared()
    for name, size in (("bob-1", 40), ("bob-2", 20), ("bob-3", 10)):
        share(world, name, size)
    bobs = uids(world, "bob-1", "bob-2", "bob-3")
    world.alice.book(model=BY_CLAIM, memory=memory)
    world.alice.create(claiming("alice-1", "s20"))
    for number in range(3):
        world.bob.create(claiming(f"rival-{number}", "s10"))
    world.until(lambda: runs(world, "alice-1"), "alice's pod has its share")
    settled(world)
    assert left(world, bobs) == came_back(world, bobs) == ["bob-3"]
    assert not rules(world)


def test_pods_that_have_a_share_together_leave_together_for_a_booked_one(shared: Claims) -> None:
    world = shared()
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": asking(50)}]}}
    world.bob.kube.create(
        RESOURCE_CLAIMS, {"metadata": {"name": "shared"}, "spec": spec}, namespace=NAMESPACE
    )
    for name in ("bob-1", "bob-2"):
        world.bob.create(claiming(name, "shared", named=True))
    world.until(lambda: runs(world, "bob-1", "bob-2"), "both have one share")
    share(world, "bob-3", 10)
    bobs = uids(world, "bob-1", "bob-2", "bob-3")
    world.alice.book(model=BY_CLAIM, memory=40 * GIB)
    world.alice.create(claiming("alice-1", "s40"))
    world.until(lambda: runs(world, "alice-1"), "alice's pod has its share")
    settled(world)
    assert left(world, bobs) == came_back(world, bobs) == ["bob-1", "bob-2"]


def test_a_share_is_kept_until_kubernetes_takes_it_from_the_claim_of_who_has_left(shared: Claims) -> None:
    world = shared()
    for name, size in (("bob-1", 40), ("bob-2", 20), ("bob-3", 10)):
        share(world, name, size)
    bobs = uids(world, "bob-1", "bob-2", "bob-3")
    world.alice.book(model=BY_CLAIM, memory=20 * GIB)
    world.alice.create(claiming("alice-1", "s20"))
    world.until(lambda: rules(world), "the GPU is kept")
    world.kill("claims", back_after=None)
    world.until(lambda: left(world, bobs), "bob's pod has gone")
    world.run(10)
    assert rules(world)
    assert not runs(world, "alice-1")
    world.start("claims")
    world.until(lambda: runs(world, "alice-1"), "alice's pod has its share")
    assert left(world, bobs) == ["bob-3"]


def test_a_booking_of_a_share_covers_none_that_is_larger_and_no_whole_gpu(shared: Claims) -> None:
    world = shared()
    share(world, "bob-1", 70)
    bobs = uids(world, "bob-1")
    world.alice.book(model=BY_CLAIM, memory=20 * GIB)
    for name, of in (("alice-1", "s30"), ("alice-2", "one-gpu")):
        world.alice.create(claiming(name, of))
    world.run(60)
    assert left(world, bobs) == []
    assert all(waits(world, name) for name in ("alice-1", "alice-2"))


def test_a_booked_share_comes_to_its_booking_s_gpu_though_another_has_room(shared: Claims) -> None:
    """kube-scheduler would take the first GPU with room, which another booking is for."""
    world = shared(gpus=2)
    carol = Person(world, "carol")
    carol.create(claiming("carol-1", "s70"))
    world.until(lambda: runs(world, "carol-1"), "the first GPU is taken")
    world.alice.book(model=BY_CLAIM, memory=20 * GIB)
    world.alice.create(claiming("alice-1", "s20"))
    world.until(lambda: runs(world, "alice-1"), "alice has her share")
    assert device_of(world, "alice-1") != device_of(world, "carol-1")
    carol.delete("carol-1")
    world.until(lambda: world.pod("carol-1") is None, "the first GPU is free")
    carol.book(model=BY_CLAIM)
    world.bob.book(model=BY_CLAIM, memory=20 * GIB)
    world.bob.create(claiming("bob-1", "s20"))
    world.until(lambda: runs(world, "bob-1"), "bob has his share")
    assert device_of(world, "bob-1") == device_of(world, "alice-1")
    carol.create(claiming("carol-2"))
    world.until(lambda: runs(world, "carol-2"), "carol has the other GPU, whole")
    settled(world)
    assert not rules(world)
