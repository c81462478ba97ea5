"""Claims that have devices for nobody, where no other node suits their pod: the devices are given back."""

from typing import Any

from booking.policy.fair_shares import FairShares
from tests.scenarios.acts import settled
from tests.scenarios.claiming import BY_CLAIM, Claims, claiming, devices_of_claims, give, rules, stored
from tests.scenarios.seeing import runs, waits

OFF = FairShares(mode="off")


def two_claims(name: str) -> dict[str, Any]:
    """A pod with two claims for a GPU each."""
    pod = claiming(name)
    pod["spec"]["resourceClaims"].append({"name": "second", "resourceClaimTemplateName": "one-gpu"})
    pod["spec"]["containers"][0]["resources"]["claims"].append({"name": "second"})
    return pod


def test_a_pod_that_waits_its_turn_keeps_no_device_from_those_before_it(claims: Claims) -> None:
    world = claims(gpus=1)
    world.run(1)
    world.kill("scheduler", back_after=None)
    uid = world.bob.create(claiming("bob-1"))
    give(world, f"bob-1-gpu-{uid}")
    world.run(1)
    world.alice.create(claiming("alice-1"))
    world.run(1)
    world.start("scheduler")
    world.until(lambda: runs(world, "alice-1") or runs(world, "bob-1"), "one of them runs")


def test_a_booked_pod_of_whose_claims_one_has_a_device_gets_both(claims: Claims) -> None:
    world = claims(gpus=2, fair_shares=OFF)
    bobs = {name: world.bob.create(claiming(name)) for name in ("bob-1", "bob-2")}
    world.until(lambda: runs(world, *bobs), "bob's pods run")
    uid = world.alice.create(two_claims("alice-1"))
    world.until(lambda: waits(world, "alice-1"), "alice's waits")
    (device,) = [at for at, (one,) in devices_of_claims(world).items() if one.startswith("bob-1")]
    world.bob.delete("bob-1")
    world.until(lambda: len(devices_of_claims(world)) == 1, "its device is free")
    give(world, f"alice-1-gpu-{uid}", device.partition("/")[2])
    world.alice.book(model=BY_CLAIM, count=2)
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    assert stored(world, f"alice-1-gpu-{uid}").status.allocation is not None
    settled(world)
    assert not rules(world)


def test_a_pod_that_is_never_evicted_keeps_no_device_that_is_booked_by_another(claims: Claims) -> None:
    """It was to be bound before anybody had booked; from then on filter keeps it off the node."""
    world = claims(gpus=1, fair_shares=OFF)
    world.run(1)
    world.kill("scheduler", back_after=None)
    protected = claiming("bob-1")
    protected["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "everywhere", "uid": "d", "controller": True}
    ]
    uid = world.bob.create(protected)
    give(world, f"bob-1-gpu-{uid}")
    world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1"))
    world.start("scheduler")
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    assert waits(world, "bob-1")
