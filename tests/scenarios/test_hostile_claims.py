"""What kube-scheduler, administrators and force do to claims while a device is kept: nobody loses by it."""

import pytest

from cluster import names
from cluster.kube.resources import PODS, RESOURCE_CLAIMS, TAINT_RULES
from demo.simulation.claim_devices import claim_spec
from tests.scenarios.claiming import BY_CLAIM, Claims, claim, claiming, devices_of_claims, rules, stored
from tests.scenarios.person import NAMESPACE
from tests.scenarios.seeing import is_back, is_gone, runs, uid_of, waits
from tests.scenarios.world import World


def allocate(world: World, called: str, node: str, **more: object) -> None:
    """A claim has gpu-0 of a node, and is reserved for nobody."""
    result = {"request": "gpu", "driver": names.DRA_DRIVER, "pool": node, "device": "gpu-0", **more}
    body = {"status": {"allocation": {"devices": {"results": [result]}}}}
    world.kube.patch(RESOURCE_CLAIMS, called, body, namespace=NAMESPACE, subresource="status")


def full(world: World, *pods: str) -> dict[str, str]:
    """Bob's pods have all GPUs: name -> uid."""
    bobs = {name: world.bob.create(claiming(name)) for name in pods}
    world.until(lambda: runs(world, *bobs), "bob's pods run")
    return bobs


def gone(world: World, bobs: dict[str, str]) -> list[str]:
    """Who of them is not there any more as the pod that it was."""
    return [name for name, uid in bobs.items() if is_gone(world, name, uid)]


def kept(world: World) -> str:
    """The node of the only device that is kept."""
    (rule,) = world.kube.list(TAINT_RULES).items
    return rule.spec.device_selector.pool or ""


@pytest.mark.parametrize("has_left", [False, True], ids=["before", "after"])
def test_a_booked_pod_gets_what_is_kept_though_kube_scheduler_takes_another_device_from_its_claim(
    claims: Claims, *, has_left: bool
) -> None:
    """Its bind to n2 has failed, and the node is refused: PostFilter takes back what no pod has reserved."""
    world = claims(nodes=("n0", "n1", "n2"), gpus=1, notice_seconds=30)
    world.kill("agent n2", back_after=None)
    world.run(90)
    bobs = full(world, "bob-1", "bob-2")
    world.alice.book(model=BY_CLAIM)
    called = f"alice-1-gpu-{world.alice.create(claiming('alice-1'))}"
    world.until(lambda: rules(world), "a device is kept")
    before = rules(world)
    if has_left:
        world.kill("claims", back_after=None)  # so its device does not come free yet
        world.until(lambda: gone(world, bobs), "the victim has gone")
    allocate(world, called, "n2")
    world.until(lambda: stored(world, called).status.allocation is None, "it is taken back")
    world.bob.create(claiming("rival"))
    world.run(5)
    if has_left:
        assert rules(world) == before, "it is free as soon as Kubernetes says so, for her alone"
        world.start("claims")
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    world.run(60)
    assert len(gone(world, bobs)) == 1, "nobody else leaves"
    assert not rules(world)
    assert waits(world, "rival")


def test_a_pod_that_is_deleted_by_force_leaves_its_device_to_the_pod_for_which_it_is_kept(
    claims: Claims,
) -> None:
    world = claims(nodes=("n0", "n1"), gpus=1, notice_seconds=60)
    bobs = full(world, "bob-1", "bob-2")
    held = {device: claim.partition("-gpu-")[0] for device, (claim,) in devices_of_claims(world).items()}
    world.alice.book(model=BY_CLAIM)
    uid = world.alice.create(claiming("alice-1"))
    world.bob.create(claiming("rival"))
    world.until(lambda: rules(world), "a device is kept")
    device = f"{kept(world)}/gpu-0"
    world.run(10)
    world.bob.kube.delete(PODS, held[device], namespace=NAMESPACE, grace_seconds=0)
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    assert devices_of_claims(world)[device] == [f"alice-1-gpu-{uid}"]
    world.run(90)
    (stayed,) = bobs.keys() - {held[device]}
    assert uid_of(world, stayed) == bobs[stayed], "nobody else leaves"
    assert waits(world, "rival")
    assert not rules(world)


def test_a_claim_that_is_made_again_under_its_name_gets_what_is_kept_for_its_pod(claims: Claims) -> None:
    world = claims(gpus=1, notice_seconds=30)
    bobs = full(world, "bob-1")
    claim(world, "mine")
    world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1", "mine", named=True))
    world.bob.create(claiming("rival"))
    world.until(lambda: rules(world), "the device is kept")
    before = rules(world)
    world.bob.kube.delete(RESOURCE_CLAIMS, "mine", namespace=NAMESPACE)
    world.run(5)
    claim(world, "mine")
    world.run(5)
    assert rules(world) == before
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    assert devices_of_claims(world) == {"n0/gpu-0": ["mine"]}
    world.until(lambda: is_back(world, "bob-1", bobs["bob-1"]), "bob's pod is back")
    assert waits(world, "rival")


def test_an_administrators_access_holds_nothing_and_its_pod_never_leaves(claims: Claims) -> None:
    world = claims(gpus=1)
    bobs = full(world, "bob-1")
    spec = claim_spec()
    spec["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    world.bob.kube.create(RESOURCE_CLAIMS, {"metadata": {"name": "look"}, "spec": spec}, namespace=NAMESPACE)
    allocate(world, "look", "n0", adminAccess=True)
    looks = world.bob.create(claiming("looks", "look", named=True))
    world.until(lambda: runs(world, "looks"), "it runs beside bob's pod")
    world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1"))
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    world.until(lambda: is_back(world, "bob-1", bobs["bob-1"]), "bob's pod is back")
    assert uid_of(world, "looks") == looks
    assert runs(world, "looks")
    assert not rules(world)
