"""Pods that are older than what their claims come from: admission cannot know that they ask for GPUs."""

from typing import Any

import pytest

from booking.policy.fair_shares import FairShares
from cluster import names
from cluster.kube.resources import CLAIM_TEMPLATES, RESOURCE_CLAIMS
from tests.scenarios.claiming import BY_CLAIM, Claims, claim, claiming, devices_of_claims, rules, template
from tests.scenarios.person import NAMESPACE, Person
from tests.scenarios.seeing import is_back, runs, waits
from tests.scenarios.test_announced_shares import ALICE
from tests.scenarios.test_announced_shares import status as status_of
from tests.scenarios.world import World

NAMED = pytest.mark.parametrize("named", [False, True], ids=["template", "claim"])


def late(world: World, who: Person, *pods: str, named: bool = False) -> list[str]:
    """Pods of a class of their own, with claims of which nothing exists yet; their uids."""
    uids = []
    for name in pods:
        body = claiming(name, "late", named=named)
        body["spec"]["priorityClassName"] = "batch"
        uids.append(who.create(body))
        stored = world.pod(name)
        assert stored is not None
        assert stored.spec.priority_class_name == "batch"
        assert not stored.spec.scheduling_gates
    return uids


def appears(world: World, *, named: bool = False) -> None:
    """What the claims of late pods come from exists from now on."""
    if named:
        claim(world, "late")
    else:
        template(world, "late")


def why(world: World, name: str) -> str:
    found = status_of(world).why(ALICE, NAMESPACE, name)
    return " ".join((found.state, *found.because))


@NAMED
def test_a_late_pod_leaves_for_a_booked_one_and_comes_back_with_its_own_class(
    claims: Claims, *, named: bool
) -> None:
    world = claims(gpus=1)
    (uid,) = late(world, world.alice, "alice-1", named=named)
    world.until(lambda: waits(world, "alice-1"), "there is no claim")
    assert "not known what it asks for" in why(world, "alice-1")
    appears(world, named=named)
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    assert why(world, "alice-1").startswith("running, not booked It belongs to alice.")
    world.bob.book(model=BY_CLAIM)
    world.bob.create(claiming("bob-1"))
    world.until(lambda: runs(world, "bob-1"), "bob's pod runs")
    world.until(lambda: is_back(world, "alice-1", uid), "alice's pod is back")
    assert world.whole("alice-1").spec["priorityClassName"] == "batch"
    world.until(lambda: not rules(world), "no rule is left")


@NAMED
def test_a_late_pod_uses_its_owners_booking(claims: Claims, *, named: bool) -> None:
    world = claims(gpus=1)
    bob = world.bob.create(claiming("bob-1"))
    world.until(lambda: runs(world, "bob-1"), "bob's pod runs")
    booking = world.alice.book(model=BY_CLAIM)
    late(world, world.alice, "alice-1", named=named)
    world.run(30)
    assert runs(world, "bob-1"), "nobody leaves for what is not known"
    appears(world, named=named)
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    world.until(lambda: is_back(world, "bob-1", bob), "bob's pod is back")
    assert f"The booking {booking} of 1 x {BY_CLAIM} covers it" in why(world, "alice-1")
    world.until(lambda: not rules(world), "no rule is left")


@pytest.mark.parametrize("mode", ["order", "reclaim"])
@pytest.mark.parametrize("hers", ["late", "one-gpu"])
def test_who_holds_less_is_served_before_older_late_pods(claims: Claims, mode: Any, hers: str) -> None:
    world = claims(fair_shares=FairShares(mode=mode))
    for name in ("bob-1", "bob-2"):
        world.bob.create(claiming(name))
    world.until(lambda: runs(world, "bob-1", "bob-2"), "bob has both GPUs")
    late_pods = [f"late-{number}" for number in range(4)]
    late(world, world.bob, *late_pods)
    world.alice.create(claiming("alice-1", hers))
    appears(world)
    world.until(lambda: "It is in line" in why(world, "alice-1"), "she is in line")
    world.bob.delete("bob-1")
    world.until(lambda: runs(world, "alice-1"), "it is her turn")
    assert not any(runs(world, name) for name in late_pods)
    world.bob.delete("bob-2")
    world.until(lambda: any(runs(world, name) for name in late_pods), "now it is bob's")


def in_line(claims: Claims) -> World:
    """Bob has the only GPU, and alice's late pod waits for it."""
    world = claims(gpus=1)
    world.bob.create(claiming("bob-1"))
    world.until(lambda: runs(world, "bob-1"), "bob's pod runs")
    late(world, world.alice, "alice-1")
    appears(world)
    world.until(lambda: "in line without a scheduling gate" in why(world, "alice-1"), "she is in line")
    return world


def test_a_late_pod_in_line_gets_its_gpu_when_its_owner_books(claims: Claims) -> None:
    world = in_line(claims)
    world.alice.book(model=BY_CLAIM)
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")


def test_without_a_controller_no_late_pod_is_held_up(claims: Claims) -> None:
    world = in_line(claims)
    world.kill("controller-0", back_after=60)
    world.bob.delete("bob-1")
    world.run(50)
    assert runs(world, "alice-1")
    world.run(60)
    assert why(world, "alice-1").startswith("running, not booked")


@NAMED
def test_a_pod_is_not_late_because_a_watch_is_behind(claims: Claims, *, named: bool) -> None:
    world = claims(gpus=1)
    world.run(1)
    kind = RESOURCE_CLAIMS if named else CLAIM_TEMPLATES
    world.lag("controller-0", 5, kind=kind.plural)
    appears(world, named=named)
    world.alice.create(claiming("alice-1", "late", named=named))
    stored = world.pod("alice-1")
    assert stored is not None
    assert stored.spec.priority_class_name == names.OPPORTUNISTIC_CLASS
    world.lag("controller-0", 0, kind=kind.plural)
    world.until(lambda: runs(world, "alice-1"), "alice's pod runs")
    assert len(devices_of_claims(world)) == 1
