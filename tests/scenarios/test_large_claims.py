"""Claims as large as Kubernetes allows: 32 devices, all of which are kept, taken and given together."""

import pytest

from tests.scenarios.acts import settled
from tests.scenarios.claiming import (
    BY_CLAIM,
    Claims,
    claiming,
    devices_of_claims,
    exactly,
    rules,
    template,
    template_of,
)
from tests.scenarios.seeing import is_back, runs, uid_of, waits
from tests.scenarios.test_configured_claims import why
from tests.scenarios.world import World

MOST = 32
"""Devices that Kubernetes gives to one claim at most."""


def ones(world: World, count: int) -> dict[str, str]:
    """Bob's pods have so many devices, each one of them: name -> uid."""
    bobs = {name: world.bob.create(claiming(name)) for name in (f"bob-{n:02}" for n in range(count))}
    world.until(lambda: runs(world, *bobs), "bob's pods run")
    return bobs


def test_32_pods_leave_for_a_booked_claim_of_32_devices(claims: Claims) -> None:
    world = claims(gpus=MOST)
    template(world, "most", count=MOST)
    bobs = ones(world, MOST)
    world.alice.book(model=BY_CLAIM, count=MOST)
    uid = world.alice.create(claiming("alice-1", "most"))
    world.bob.create(claiming("rival"))
    world.until(lambda: len(rules(world)) == MOST, "each device is kept")
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    world.until(lambda: all(is_back(world, name, was) for name, was in bobs.items()), "all are back")
    settled(world)
    assert list(devices_of_claims(world).values()) == [[f"alice-1-gpu-{uid}"]] * MOST
    assert waits(world, "rival")
    assert not rules(world)


@pytest.mark.parametrize("more", [{"count": MOST + 1}, {"allocationMode": "All"}], ids=["count", "all"])
def test_nobody_leaves_for_a_claim_that_is_larger_than_kubernetes_allows(
    claims: Claims, more: dict[str, object]
) -> None:
    world = claims(gpus=MOST + 1)
    template_of(world, "larger", exactly=exactly(**more))
    bobs = ones(world, MOST + 1)
    world.alice.book(model=BY_CLAIM, count=MOST + 1)
    world.alice.create(claiming("alice-1", "larger"))
    world.run(60)
    assert {name: uid_of(world, name) for name in bobs} == bobs
    assert not rules(world)
    assert f"more than {MOST} devices" in why(world, "alice-1")
