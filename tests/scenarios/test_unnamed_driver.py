"""Claims whose DeviceClass asks by attributes alone, and does not spell the name of a driver."""

from typing import Final

from cluster.kube.resources import DEVICE_CLASSES, PODS
from tests.scenarios.claiming import BY_CLAIM, Claims, claiming, exactly, rules, template_of
from tests.scenarios.person import NAMESPACE
from tests.scenarios.seeing import runs, uid_of, waits
from tests.scenarios.test_announced_shares import ALICE
from tests.scenarios.test_announced_shares import status as status_of
from tests.scenarios.world import World

ANY: Final = "any-gpu"
EXPRESSION: Final = "device.attributes[device.driver].type == 'gpu'"


def with_class(claims: Claims, expression: str = EXPRESSION, **more: int) -> World:
    world = claims(**more)
    spec = {"selectors": exactly(expression)["selectors"]}
    world.kube.create(DEVICE_CLASSES, {"metadata": {"name": ANY}, "spec": spec})
    template_of(world, ANY, exactly={"deviceClassName": ANY})
    world.run(1)
    return world


def why(world: World, name: str) -> str:
    return " ".join(status_of(world).why(ALICE, NAMESPACE, name).because)


def test_a_pod_that_has_a_gpu_by_such_a_class_leaves_for_a_booked_one(claims: Claims) -> None:
    world = with_class(claims)
    bobs = {name: world.bob.create(claiming(name, ANY)) for name in ("bob-1", "bob-2")}
    world.until(lambda: runs(world, *bobs), "bob's pods run")
    world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1"))
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    assert sum(uid_of(world, name) != uid for name, uid in bobs.items()) == 1


def test_it_is_said_of_a_pod_that_waits_for_such_a_class_and_nobody_leaves_for_it(claims: Claims) -> None:
    world = with_class(claims, gpus=1)
    bobs = world.bob.create(claiming("bob-1"))
    world.until(lambda: runs(world, "bob-1"), "bob's pod runs")
    world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1", ANY))
    world.run(60)
    assert waits(world, "alice-1")
    assert uid_of(world, "bob-1") == bobs
    assert not rules(world)
    assert "name no driver" in why(world, "alice-1")
    world.bob.kube.delete(PODS, "bob-1", namespace=NAMESPACE)
    world.until(lambda: runs(world, "alice-1"), "it gets what is free")
