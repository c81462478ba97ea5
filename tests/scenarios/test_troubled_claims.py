"""Claims that can be booked, and what goes wrong: dead parts, pods that never end, claims of two owners."""

import pytest

from booking.policy.fair_shares import FairShares
from cluster import names
from cluster.kube.resources import CLAIM_TEMPLATES, RESOURCE_CLAIMS, TAINT_RULES
from cluster.objects.claims import KNOWN_AFTER
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
)
from tests.scenarios.person import NAMESPACE
from tests.scenarios.seeing import has_left, is_back, is_gone, runs, uid_of, waits


def test_pods_to_which_one_device_was_given_have_it_one_after_the_other(claims: Claims) -> None:
    """Kube-scheduler's set has lost the device: the claims of two pods that wait have it, too."""
    world = claims(gpus=1, fair_shares=FairShares(mode="off"))
    world.bob.create(claiming("bob-1"))
    world.until(lambda: runs(world, "bob-1"), "bob's pod runs")
    waiting = {name: world.alice.create(claiming(name)) for name in ("first", "second")}
    world.until(lambda: all(waits(world, name) for name in waiting), "both wait")
    result = {"request": "gpu", "driver": names.DRA_DRIVER, "pool": "n0", "device": "gpu-0"}
    body = {"status": {"allocation": {"devices": {"results": [result]}}}}
    for name, uid in waiting.items():
        called = f"{name}-gpu-{uid}"
        world.kube.patch(RESOURCE_CLAIMS, called, body, namespace=NAMESPACE, subresource="status")
    world.run(10)
    assert runs(world, "bob-1")
    assert not any(runs(world, name) for name in waiting)
    world.bob.delete("bob-1")
    world.until(lambda: any(runs(world, name) for name in waiting), "one of them runs")
    world.run(10)
    (has_it,) = [name for name in waiting if runs(world, name)]
    assert len(devices_of_claims(world)["n0/gpu-0"]) == 2
    world.alice.delete(has_it)
    (other,) = waiting.keys() - {has_it}
    world.until(lambda: runs(world, other), "then the other one runs")


def test_nobody_gets_a_notice_before_kube_scheduler_knows_what_is_kept(claims: Claims) -> None:
    world = claims(gpus=1, notice_seconds=10)
    world.bob.create(claiming("bob-1"))
    world.until(lambda: runs(world, "bob-1"), "bob's pod runs")

    def has_notice() -> bool:
        pod = world.pod("bob-1")
        return pod is not None and pod.metadata.annotation(names.NOTICE) is not None

    world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1"))
    world.until(lambda: rules(world) or has_notice(), "it begins")
    since = world.loop.now
    assert not has_notice()
    world.until(has_notice, "bob's pod is told")
    assert world.loop.now - since >= KNOWN_AFTER
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")


def test_a_pod_with_a_claim_whose_container_could_not_be_started_comes_back_with_it(claims: Claims) -> None:
    world = claims(gpus=1)
    world.run(1)
    world.kubelets["n0"].is_runtime_away = True
    uid = world.bob.create(claiming("bob-1"))
    world.until(lambda: is_gone(world, "bob-1", uid), "it has failed, and goes")
    world.kubelets["n0"].is_runtime_away = False
    world.until(lambda: runs(world, "bob-1"), "it has come back")
    assert devices_of_claims(world)["n0/gpu-0"] == [f"bob-1-gpu-{uid_of(world, 'bob-1')}"]


def test_what_a_dead_controller_has_kept_is_given_to_nobody_and_comes_free_when_it_is_back(
    claims: Claims,
) -> None:
    world = claims(gpus=1, fair_shares=FairShares(mode="off"))
    world.bob.create(claiming("bob-1"))
    world.until(lambda: runs(world, "bob-1"), "bob's pod runs")
    booking = world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1"))
    world.bob.create(claiming("rival"))
    world.until(lambda: rules(world), "the device is kept")
    world.kill("controller-0", back_after=None)
    world.alice.delete("alice-1")
    world.alice.release(booking)
    world.bob.delete("bob-1")
    world.until(lambda: not devices_of_claims(world), "bob's pod has ended")
    world.run(60)
    assert rules(world)
    assert not devices_of_claims(world), "nobody has it"
    assert waits(world, "rival")
    world.start("controller-0")
    world.until(lambda: runs(world, "rival"), "the rival runs")
    assert not rules(world)


def test_for_a_victim_that_never_ends_another_one_leaves_and_its_device_stays_its_own(
    claims: Claims,
) -> None:
    world = claims(nodes=("n0", "n1"), gpus=1)
    bobs = {name: world.bob.create(claiming(name)) for name in ("bob-1", "bob-2")}
    world.until(lambda: runs(world, *bobs), "bob's pods run")
    held = devices_of_claims(world)
    world.alice.book(model=BY_CLAIM)
    world.alice.create(claiming("alice-1"))
    world.until(lambda: rules(world), "a device is kept")
    (rule,) = world.kube.list(TAINT_RULES).items
    node = rule.spec.device_selector.pool
    world.until(lambda: any(has_left(world, name, uid) for name, uid in bobs.items()), "its pod leaves")
    world.kill(f"kubelet {node}", back_after=None)
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs on the other node", within=900)
    alices = world.pod("alice-1")
    assert alices is not None
    assert alices.spec.node_name != node
    assert devices_of_claims(world)[f"{node}/gpu-0"] == held[f"{node}/gpu-0"]
    world.until(lambda: not rules(world), "no device is kept")
    world.start(f"kubelet {node}")
    world.until(lambda: all(is_back(world, name, uid) for name, uid in bobs.items()), "both are back")


def test_whoever_shares_the_claim_of_a_booked_pod_stays_as_long_as_that_has_it(claims: Claims) -> None:
    """They are one holder: none of them leaves while one of them may not (law L2)."""
    world = claims()
    claim(world, "shared")
    world.alice.book(model=BY_CLAIM, count=2)
    world.alice.create(claiming("alice-1", "shared", named=True))
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    mate = world.bob.create(claiming("bob-1", "shared", named=True))
    other = world.bob.create(claiming("bob-2"))
    world.until(lambda: runs(world, "bob-1", "bob-2"), "bob's pods run")
    world.alice.create(claiming("alice-2"))
    world.until(lambda: runs(world, "alice-2"), "her second pod runs")
    world.until(lambda: is_back(world, "bob-2", other), "the other one is back")
    world.alice.create(claiming("alice-3"))
    world.run(60)
    assert uid_of(world, "bob-1") == mate
    world.alice.delete("alice-1")
    world.until(lambda: runs(world, "alice-3"), "without her it is a pod like others")
    world.until(lambda: is_back(world, "bob-1", mate), "bob's pod is back")


def test_pods_that_share_a_claim_get_one_device_together(claims: Claims) -> None:
    """The scheduler has given the claim its device before its own watch has told it so."""
    world = claims(gpus=2)
    claim(world, "shared")
    together = [
        world.bob.create(claiming(name, "shared", named=True)) for name in ("bob-1", "bob-2", "bob-3")
    ]
    world.until(lambda: runs(world, "bob-1", "bob-2", "bob-3"), "they run")
    assert {one.uid for one in stored(world, "shared").status.reserved_for} == set(together)
    assert list(devices_of_claims(world).values()) == [["shared"]]


@pytest.mark.parametrize("mode", ["off", "order"])
@pytest.mark.parametrize("unbooked", ["queue", "strip"])
def test_a_pod_of_which_it_is_not_known_what_would_do_gets_what_is_free(
    claims: Claims, mode: str, unbooked: str
) -> None:
    world = claims(fair_shares=FairShares(mode=mode), unbooked_action=unbooked)
    requests = [{"name": "one", "exactly": exactly()}, {"name": "other", "exactly": exactly(LARGE)}]
    meta = {"name": "different", "namespace": NAMESPACE}
    devices = {"devices": {"requests": requests}}
    world.kube.put(CLAIM_TEMPLATES, {"metadata": meta, "spec": {"spec": devices}})
    world.run(1)
    world.bob.create(claiming("bob-1", "different"))
    world.until(lambda: runs(world, "bob-1"), "it runs")
    assert sorted(devices_of_claims(world)) == ["n0/gpu-0", "n0/gpu-1"]
