"""Claims that configure what the driver does not give: nobody leaves for them, and they take nothing."""

import pytest

from cluster import names
from cluster.kube.resources import DEVICE_CLASSES
from tests.scenarios.claiming import (
    BY_CLAIM,
    Claims,
    claiming,
    devices_of_claims,
    exactly,
    rules,
    sharing,
    template_of,
)
from tests.scenarios.person import NAMESPACE
from tests.scenarios.seeing import runs, uid_of, waits
from tests.scenarios.test_announced_shares import ALICE
from tests.scenarios.test_announced_shares import status as status_of
from tests.scenarios.world import World


def why(world: World, name: str) -> str:
    return " ".join(status_of(world).why(ALICE, NAMESPACE, name).because)


def test_nobody_leaves_for_a_claim_that_wants_mps_and_its_pod_is_told(claims: Claims) -> None:
    world = claims()
    template_of(world, "mps", config=(sharing("MPS"),), exactly=exactly())
    bobs = {name: world.bob.create(claiming(name)) for name in ("bob-1", "bob-2")}
    world.until(lambda: runs(world, *bobs), "bob's pods run")
    world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1", "mps"))
    world.run(60)
    assert {name: uid_of(world, name) for name in bobs} == bobs
    assert waits(world, "alice-1")
    assert not rules(world)
    assert "no sharing by MPS" in why(world, "alice-1")


@pytest.mark.parametrize("of", ["mps", "of-class"])
def test_a_free_gpu_stays_free_where_it_would_be_given_in_vain(claims: Claims, of: str) -> None:
    world = claims(gpus=1)
    template_of(world, "mps", config=(sharing("MPS"),), exactly=exactly())
    spec = {
        "selectors": exactly("device.driver == 'gpu.nvidia.com'")["selectors"],
        "config": [sharing("MPS")],
    }
    world.kube.create(DEVICE_CLASSES, {"metadata": {"name": "mps.example.com"}, "spec": spec})
    template_of(world, "of-class", exactly={"deviceClassName": "mps.example.com"})
    world.run(1)
    world.bob.create(claiming("bob-1", of))
    world.run(30)
    assert waits(world, "bob-1")
    assert not devices_of_claims(world)
    assert "no sharing by MPS" in why(world, "bob-1")
    world.alice.create(claiming("alice-1"))
    world.until(lambda: runs(world, "alice-1"), "another pod gets it")


def test_a_class_that_is_configured_otherwise_lets_its_pods_go_on(claims: Claims) -> None:
    world = claims(gpus=1)
    world.kube.patch(DEVICE_CLASSES, names.DRA_DRIVER, {"spec": {"config": [sharing("MPS")]}})
    world.run(1)
    world.bob.create(claiming("bob-1"))
    world.run(30)
    assert waits(world, "bob-1")
    world.kube.patch(DEVICE_CLASSES, names.DRA_DRIVER, {"spec": {"config": [sharing("TimeSlicing")]}})
    world.until(lambda: runs(world, "bob-1"), "it runs")
