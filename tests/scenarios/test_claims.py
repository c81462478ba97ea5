"""Claims can be booked: who leaves, what is kept meanwhile, and that no device is ever given twice."""

from typing import Any

import pytest

from booking.policy.fair_shares import FairShares
from cluster import names
from cluster.kube.resources import RESOURCE_CLAIMS
from tests.scenarios.claiming import (
    BY_CLAIM,
    LARGE,
    Claims,
    claim,
    claiming,
    devices_of_claims,
    exactly,
    rules,
    stored,
    template,
    template_of,
)
from tests.scenarios.person import NAMESPACE
from tests.scenarios.seeing import has_left, is_back, runs, waits
from tests.scenarios.test_announced_shares import ALICE
from tests.scenarios.test_announced_shares import status as status_of
from tests.scenarios.world import World

HUGE = LARGE.replace("60", "600")
UNKNOWN = "device.attributes['gpu.nvidia.com'].nosuch == 'x'"
"""No device has the attribute: kube-scheduler fails, and so do we."""


def full(world: World, of: str = "one-gpu") -> dict[str, str]:
    """Bob's pods have both GPUs: name -> uid."""
    bobs = {name: world.bob.create(claiming(name, of)) for name in ("bob-1", "bob-2")}
    world.until(lambda: runs(world, *bobs), "bob's pods run")
    return bobs


def test_a_pod_leaves_for_a_booked_pod_with_a_claim(claims: Claims) -> None:
    world = claims()
    bobs = full(world)
    world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1"))
    rivals = [world.bob.create(claiming(f"rival-{n}")) for n in range(3)]
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    world.until(lambda: any(is_back(world, name, uid) for name, uid in bobs.items()), "bob's pod is back")
    (left,) = [name for name, uid in bobs.items() if is_back(world, name, uid)]
    spec = world.whole(left).spec
    assert not spec.get("resourceClaims"), "it came back without its claim"
    assert not spec["containers"][0]["resources"].get("claims")
    assert len(rivals) == len([n for n in range(3) if waits(world, f"rival-{n}")])
    assert [len(held) for held in devices_of_claims(world).values()] == [1, 1]
    world.until(lambda: not rules(world), "no rule is left")


def test_pods_that_share_a_claim_leave_together(claims: Claims) -> None:
    world = claims(gpus=1)
    claim(world, "shared")
    pods = ("bob-1", "bob-2", "bob-3")
    bobs = {name: world.bob.create(claiming(name, "shared", named=True)) for name in pods}
    world.until(lambda: runs(world, *bobs), "all run on one GPU")
    world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1"))
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    assert all(has_left(world, name, uid) for name, uid in bobs.items())
    world.until(lambda: all(is_back(world, name, uid) for name, uid in bobs.items()), "all are back")
    assert stored(world, "shared").status.allocation is None, "the claim is bob's, and stays"


def test_pods_with_shares_of_a_gpu_leave_together_for_a_booked_pod(claims: Claims) -> None:
    world = claims(gpus=1, shared=True)
    for name, memory in (("ten", "10Gi"), ("much", "70Gi")):
        template_of(world, name, exactly=exactly(capacity={"requests": {"memory": memory}}))
    bobs = {name: world.bob.create(claiming(name, "ten")) for name in ("bob-1", "bob-2")}
    world.until(lambda: runs(world, *bobs), "both have a share of one GPU")
    world.bob.create(claiming("bob-3", "much"))
    world.until(lambda: waits(world, "bob-3"), "there is no room for a third one")
    (device,) = [device for node in status_of(world).now(ALICE).nodes for device in node.devices]
    assert device.shares is not None
    assert (device.shares.pods, device.shares.memory_mib) == (2, 20 * 1024)
    assert [one.share and one.share.memory_mib for one in device.pods] == [10 * 1024] * 2
    assert "10240 MiB there" in " ".join(status_of(world).why(ALICE, NAMESPACE, "bob-1").because)
    world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1"))
    world.until(lambda: runs(world, "alice-1"), "alice's pod has the whole GPU")
    world.until(lambda: all(is_back(world, name, uid) for name, uid in bobs.items()), "both are back")
    assert waits(world, "bob-3")
    world.until(lambda: not rules(world), "no rule is left")


def test_for_two_booked_pods_of_one_claim_one_pod_leaves(claims: Claims) -> None:
    world = claims()
    bobs = full(world)
    claim(world, "shared")
    world.alice.book(model=BY_CLAIM)
    for name in ("alice-1", "alice-2"):
        world.alice.create(claiming(name, "shared", named=True))
    world.until(lambda: runs(world, "alice-1", "alice-2"), "alice's pods run")
    world.run(10)
    world.alice.delete("alice-2")
    world.until(lambda: world.pod("alice-2") is None, "one has the device alone")
    assert [is_back(world, name, uid) for name, uid in bobs.items()].count(True) == 1


def test_for_a_booked_pod_with_two_named_claims_two_pods_leave(claims: Claims) -> None:
    """Each of its claims tolerates another value, and gets the device that is kept under it."""
    world = claims()
    bobs = full(world)
    for name in ("first", "second"):
        claim(world, name)
    pod = claiming("alice-1", "first", named=True)
    pod["spec"]["resourceClaims"].append({"name": "more", "resourceClaimName": "second"})
    pod["spec"]["containers"][0]["resources"]["claims"].append({"name": "more"})
    world.alice.book(model=BY_CLAIM, count=2)
    world.alice.create(pod)
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    world.until(lambda: all(is_back(world, name, uid) for name, uid in bobs.items()), "both are back")
    assert sorted(devices_of_claims(world).values()) == [["first"], ["second"]]
    world.until(lambda: not rules(world), "no rule is left")


ASKS: dict[str, tuple[dict[str, Any], int]] = {
    "the last of eight alternatives": (
        {"firstAvailable": [*(exactly(HUGE, name=f"a{n}") for n in range(7)), exactly(name="b")]},
        1,
    ),
    "all devices of a node": ({"exactly": exactly(allocationMode="All")}, 2),
    "an amount that a whole device has": (
        {"exactly": exactly(capacity={"requests": {"memory": "60Gi"}})},
        1,
    ),
}


@pytest.mark.parametrize("asks", ASKS)
def test_pods_leave_for_what_is_certain_to_do(claims: Claims, asks: str) -> None:
    world = claims()
    request, gpus = ASKS[asks]
    template_of(world, "certain", **request)
    bobs = full(world)
    world.alice.book(model=BY_CLAIM, count=gpus)
    world.alice.create(claiming("alice-1", "certain"))
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    world.run(30)
    assert [is_back(world, name, uid) for name, uid in bobs.items()].count(True) == gpus


def test_nobody_leaves_for_an_amount_that_no_device_has(claims: Claims) -> None:
    world = claims()
    template_of(world, "much", exactly=exactly(capacity={"requests": {"memory": "600Gi"}}))
    full(world)
    world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1", "much"))
    world.run(60)
    assert runs(world, "bob-1", "bob-2")


def test_nobody_leaves_for_a_claim_that_cannot_be_judged(claims: Claims) -> None:
    world = claims()
    template(world, "odd", UNKNOWN)
    full(world)
    world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1", "odd"))
    world.run(60)
    assert runs(world, "bob-1", "bob-2")
    assert not rules(world)


def test_nobody_leaves_whose_device_the_claim_does_not_accept(claims: Claims) -> None:
    world = claims()
    template(world, "huge", HUGE)
    full(world, "large-gpu")
    world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1", "huge"))
    world.run(60)
    assert runs(world, "bob-1", "bob-2")


def test_a_claim_of_another_driver_has_our_scheduler_and_nothing_else(claims: Claims) -> None:
    """One scheduler allocates all claims, or two give the same device away."""
    world = claims()
    nic = claiming("nic", "of-another-driver")
    nic["spec"]["schedulerName"] = "of-bob"
    world.bob.create(nic)
    pod = world.pod("nic")
    assert pod is not None
    assert pod.spec.scheduler_name == names.SCHEDULER_NAME
    assert (pod.metadata.annotation(names.USER), pod.spec.priority_class_name) == ("bob", None)


def test_a_user_cannot_tolerate_what_is_kept_for_another(claims: Claims) -> None:
    world = claims()
    forged = [{"operator": "Exists"}, {"key": names.HELD_TAINT, "operator": "Exists"}]
    exactly = {"deviceClassName": names.DRA_DRIVER, "count": 1, "tolerations": forged}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "alice-1", "uid": "of-alice", "controller": True}
    body = {
        "metadata": {"name": "forged", "ownerReferences": [owner]},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
    world.bob.kube.create(RESOURCE_CLAIMS, body, namespace=NAMESPACE)
    (request,) = stored(world, "forged").spec.devices.requests
    assert request.exactly is not None
    assert [(one.key, one.value) for one in request.exactly.tolerations] == [
        (names.HELD_TAINT, f"{NAMESPACE}.forged")
    ]


def test_a_device_is_kept_until_kubernetes_takes_it_from_the_claim(claims: Claims) -> None:
    """A victim that is gone may still have its device: its claim has it until Kubernetes says otherwise."""
    world = claims(gpus=1)
    uid = world.bob.create(claiming("bob-1"))
    world.until(lambda: runs(world, "bob-1"), "bob's pod runs")
    held = devices_of_claims(world)
    world.alice.book(model=BY_CLAIM)
    world.kill("claims", back_after=None)
    # Made by hand, since nobody makes claims now: as the controller would have made it.
    world.alice.create(claiming("alice-1"))
    world.start("claims")
    world.until(lambda: rules(world), "the device is kept")
    world.kill("claims", back_after=None)
    world.until(lambda: world.pod("bob-1") is None or is_back(world, "bob-1", uid), "bob's pod has gone")
    world.run(5)
    assert devices_of_claims(world) == held, "the claim has it still"
    assert rules(world), "so it is kept"
    assert not runs(world, "alice-1")
    world.start("claims")
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")


def test_nobody_leaves_while_a_claim_that_no_pod_has_is_about_to_give_its_device_back(claims: Claims) -> None:
    world = claims()
    bobs = full(world)
    claim(world, "alices")
    world.kill("claims", back_after=None)
    world.bob.delete("bob-1")
    world.until(lambda: world.pod("bob-1") is None, "bob has ended one")
    world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1", "alices", named=True))
    world.run(20)
    world.start("claims")
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    assert not is_back(world, "bob-2", bobs["bob-2"])


def test_a_pod_whose_device_another_claim_has_is_not_bound(claims: Claims) -> None:
    """kube-scheduler's set has lost a device that two claims had: it gives it to a third pod, we do not."""
    world = claims(gpus=1, fair_shares=FairShares(mode="off"))
    world.bob.create(claiming("bob-1"))
    world.until(lambda: runs(world, "bob-1"), "bob's pod runs")
    (bobs,) = devices_of_claims(world)["n0/gpu-0"]
    claim(world, "shadow")
    allocation = {"devices": {"results": [_result()]}}
    for status in ({"allocation": allocation}, {"allocation": None}):
        body = {"status": status}
        world.kube.patch(RESOURCE_CLAIMS, "shadow", body, namespace=NAMESPACE, subresource="status")
    world.run(1)  # the controller never sees both claims with it
    assert not rules(world)
    world.alice.create(claiming("third"))
    world.until(lambda: len(devices_of_claims(world)["n0/gpu-0"]) == 2, "kube-scheduler has given it twice")
    world.run(5)
    third = world.pod("third")
    assert third is not None
    assert third.spec.node_name is None
    assert runs(world, "bob-1")
    assert bobs in devices_of_claims(world)["n0/gpu-0"]
    world.bob.delete("bob-1")
    world.until(lambda: runs(world, "third"), "it is bound once the device is its own")


def test_no_part_of_ours_ever_writes_an_allocation(claims: Claims) -> None:
    """One without ``allocationTimestamp`` blocks its pod for ever, and a second one of a device breaks L1."""
    world = claims()
    bobs = full(world)
    world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1"))
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    world.until(lambda: any(is_back(world, name, uid) for name, uid in bobs.items()), "bob's pod is back")
    writes = [call for call in world.kube.calls if call.verb != "GET" and "/resourceclaims/" in call.path]
    assert {call.user for call in writes} <= {
        "system:kube-scheduler",
        "system:serviceaccount:kube-system:resource-claim-controller",
    }


def _result() -> dict[str, str]:
    return {"request": "gpu", "driver": names.DRA_DRIVER, "pool": "n0", "device": "gpu-0"}
