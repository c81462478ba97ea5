"""Two kube-schedulers have given one device to two claims: it is told, and nobody else gets it meanwhile."""

import pytest

from booking.policy.fair_shares import FairShares
from cluster import event_reasons, names
from cluster.kube.resources import EVENTS, RESOURCE_CLAIMS
from tests.scenarios.claiming import BY_CLAIM, Claims, claiming, devices_of_claims, rules, stored
from tests.scenarios.person import NAMESPACE
from tests.scenarios.seeing import runs, waits
from tests.scenarios.world import World


@pytest.fixture
def world(claims: Claims) -> World:
    """Two nodes with a GPU each, where nobody waits in line."""
    return claims(nodes=("n0", "n1"), gpus=1, fair_shares=FairShares(mode="off"))


def full(world: World) -> dict[str, str]:
    """Bob's pods have both GPUs: device -> name."""
    for name in ("bob-1", "bob-2"):
        world.bob.create(claiming(name))
    world.until(lambda: runs(world, "bob-1", "bob-2"), "bob's pods run")
    return {device: claim.partition("-gpu-")[0] for device, (claim,) in devices_of_claims(world).items()}


def give_too(world: World, called: str | None = None) -> str:
    """Another kube-scheduler gives gpu-0 of n0, which is in use, to a pod of alice's: its claim."""
    called = called or waiting(world)
    result = {"request": "gpu", "driver": names.DRA_DRIVER, "pool": "n0", "device": "gpu-0"}
    body = {"status": {"allocation": {"devices": {"results": [result]}}}}
    world.kube.patch(RESOURCE_CLAIMS, called, body, namespace=NAMESPACE, subresource="status")
    return called


def waiting(world: World) -> str:
    """A pod of alice's waits: the name of its claim."""
    uid = world.alice.create(claiming("lost"))
    world.until(lambda: waits(world, "lost"), "it waits")
    return f"lost-gpu-{uid}"


def told(world: World) -> set[str]:
    """Names of the pods that were told."""
    found = world.kube.list(EVENTS).items
    twice = (one.metadata for one in found if one.reason == event_reasons.GPU_GIVEN_TWICE)
    about = (world.kube.raw(EVENTS, meta.name, namespace=meta.namespace)["involvedObject"] for meta in twice)
    return {str(one["name"]) for one in about}


def test_who_lost_gets_another_device_and_newcomers_are_spared_until_the_first_is_free(world: World) -> None:
    on = full(world)
    lost = give_too(world)
    world.until(lambda: told(world) == {on["n0/gpu-0"], "lost"}, "both are told")
    world.until(lambda: stored(world, lost).status.allocation is None, "kube-scheduler takes the device back")
    world.bob.delete(on["n1/gpu-0"])
    world.until(lambda: runs(world, "lost"), "the one that lost runs elsewhere")
    world.bob.create(claiming("newcomer"))
    world.run(30)
    assert runs(world, on["n0/gpu-0"]), "whoever was first keeps it"
    assert len(devices_of_claims(world)["n0/gpu-0"]) == 1, (
        "kube-scheduler counts it as free, and is kept away"
    )
    assert len(rules(world)) == 1
    world.bob.delete(on["n0/gpu-0"])
    world.until(lambda: runs(world, "newcomer"), "now it is free")
    world.until(lambda: not rules(world), "and nothing is left of it")


def test_a_dead_controller_keeps_such_a_device_from_nobody_and_a_new_one_does_at_once(
    world: World,
) -> None:
    on, lost = full(world), waiting(world)
    world.kill("controller-0", back_after=None)
    give_too(world, lost)
    world.run(60)
    assert len(devices_of_claims(world)["n0/gpu-0"]) == 2, "it waits for that device, as nobody is kept away"
    assert not runs(world, "lost")
    world.start("controller-0")
    world.bob.delete(on["n1/gpu-0"])
    world.until(lambda: runs(world, "lost"), "it runs elsewhere")
    world.kill("controller-0")
    world.run(60)
    assert len(rules(world)) == 1, "another process knows what the first one has begun"
    world.bob.delete(on["n0/gpu-0"])
    world.until(lambda: not rules(world), "it is free")


def test_a_booked_pod_that_lost_gets_the_device_of_a_pod_that_leaves_for_it(world: World) -> None:
    on = full(world)
    lost = give_too(world)
    world.alice.book(model=BY_CLAIM)
    world.until(lambda: runs(world, "lost"), "alice's pod runs")
    assert stored(world, lost).status.allocation is not None
    assert all(len(found) == 1 for found in devices_of_claims(world).values())
    assert runs(world, on["n0/gpu-0"]) != runs(world, on["n1/gpu-0"])
