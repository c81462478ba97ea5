"""Others' pods that may not be evicted: budgets, which count for a while, and webhooks, which always do."""

import pytest

from cluster import event_reasons, names
from cluster.fake.server import Attributes
from cluster.kube.errors import Refusal, Request, refused
from cluster.kube.resources import DISRUPTION_BUDGETS, EVENTS, PODS
from demo.simulation.controllers import Workload
from tests.scenarios.acts import BOBS, came_back, fill, is_kept, left, served, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import NAMESPACE, Json, a_pod
from tests.scenarios.seeing import runs, uid_of
from tests.scenarios.world import World

LIMIT = 300
"""Seconds for which budgets count by default."""


def budget(world: World, name: str = "keep", *, allowed: int = 0) -> None:
    """Bob's budget for all pods labelled ``app: web``, and what the disruption controller says of it."""
    metadata = {"name": name, "namespace": NAMESPACE}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 0}
    status = {"disruptionsAllowed": allowed}
    world.kube.put(DISRUPTION_BUDGETS, {"metadata": metadata, "spec": spec, "status": status})


def deployment(world: World, replicas: int = 4) -> dict[str, str]:
    """Pods of one Deployment of bob's; with what runs already they have all A100s. Name -> uid."""
    template = a_pod("template")
    template["metadata"]["labels"] = {"app": "web"}
    world.controllers.run(Workload("web", NAMESPACE, replicas, template))
    world.until(lambda: sum(p.status.phase == "Running" for p in world.pods()) == 4, "four pods run")
    world.run(30)
    return {p.metadata.name: p.metadata.uid for p in world.pods()}


def reported(world: World, name: str) -> list[str]:
    """Reasons of the Events on a pod of that name."""
    found: list[str] = []
    for one in world.kube.list(EVENTS).items:
        if one.metadata.name.rpartition(".")[0] == name:
            found += [one.reason or ""] * (one.count or 1)
    return found


def evictions(world: World, name: str) -> int:
    """How often a pod's eviction was requested, dry runs aside."""
    return sum(call.path.endswith(f"/{name}/eviction") for call in world.kube.calls)


def annotation(world: World, name: str, key: str) -> str:
    pod = world.pod(name)
    return (pod and pod.metadata.annotation(key)) or ""


@pytest.mark.parametrize("budgets", [("keep",), ("keep", "keep-too")])
def test_a_booked_pod_gets_its_gpu_although_a_deployment_is_never_to_be_disrupted(
    world: World, budgets: tuple[str, ...]
) -> None:
    bobs = deployment(world)
    for name in budgets:
        budget(world, name)
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    world.run(LIMIT - 20)
    assert left(world, bobs) == []
    assert is_kept(world, "alice-1")
    for name in budgets:
        assert f"{NAMESPACE}/{name}" in annotation(world, "alice-1", names.BLOCKED)
    (notified,) = [name for name in bobs if annotation(world, name, names.NOTICE)]
    assert f"disruption budget{'s' * (len(budgets) > 1)} {NAMESPACE}/keep" in annotation(
        world, notified, names.NOTICE
    )
    world.until(lambda: runs(world, "alice-1"), "it is served", within=60)
    settled(world)
    assert left(world, bobs) == [notified]
    assert event_reasons.BUDGET_OVERRIDDEN in reported(world, notified)
    assert annotation(world, "alice-1", names.BLOCKED) == ""
    reasons = reported(world, "alice-1")
    assert [reasons.count(one) for one in (event_reasons.GPUS_KEPT, event_reasons.HOLD_DROPPED)] == [1, 0]


def test_a_budget_that_is_lifted_in_time_is_not_overridden(world: World) -> None:
    bobs = deployment(world)
    budget(world)
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    world.run(90)
    budget(world, allowed=1)
    world.until(lambda: runs(world, "alice-1"), "it is served", within=90)
    settled(world)
    (gone,) = left(world, bobs)
    assert event_reasons.BUDGET_OVERRIDDEN not in reported(world, gone)


def test_an_owner_who_writes_a_budget_again_and_again_gains_no_time(new_world: Worlds) -> None:
    world = new_world(notice_seconds=20)
    bobs = deployment(world)
    budget(world)
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    for _ in range(2):
        world.run(60)
        budget(world, allowed=4)
        world.until(
            lambda: any(
                (text := annotation(world, name, names.NOTICE)) and "Until then" not in text for name in bobs
            ),
            "it is to leave",
            within=90,
        )
        budget(world)
    world.until(lambda: runs(world, "alice-1"), "it is served", within=LIMIT)
    settled(world)
    assert len(left(world, bobs)) == 1


@pytest.mark.parametrize("notice", [0, 20])
def test_a_budget_is_overridden_for_a_pod_whose_replacement_is_refused_and_which_is_back_once_it_is_not(
    new_world: Worlds, notice: int
) -> None:
    world = new_world(notice_seconds=notice)
    bobs = fill(world)
    for name in BOBS:
        world.kube.patch(PODS, name, {"metadata": {"labels": {"app": "web"}}}, namespace=NAMESPACE)
    budget(world)
    refuses = True
    admitted = world.kube.admission

    def admission(attributes: Attributes) -> Json:
        annotations = attributes.obj["metadata"].get("annotations") or {}
        if refuses and names.RECREATED_FROM in annotations:
            raise refused(Request("POST", attributes.plural), Refusal(code=403, message="not again"))
        return admitted(attributes)

    world.kube.admission = admission
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    world.run(LIMIT)
    assert left(world, bobs) == []
    world.until(lambda: runs(world, "alice-1"), "it is served", within=60)
    (gone,) = left(world, bobs)
    assert event_reasons.BUDGET_OVERRIDDEN in reported(world, gone)
    refuses = False
    settled(world)
    assert left(world, bobs) == came_back(world, bobs) == [gone]


def test_a_pod_that_no_budget_protects_leaves_at_once_though_it_loses_most(world: World) -> None:
    world.bob.create(a_pod("old"))
    served(world, "old")
    world.run(600)
    bobs = deployment(world, replicas=3)
    budget(world)
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    world.until(lambda: runs(world, "alice-1"), "it is served", within=60)
    settled(world)
    assert left(world, bobs) == ["old"]


@pytest.mark.parametrize("code", [400, 403, 429, 500])
@pytest.mark.parametrize("notice", [0, 20])
def test_where_a_webhook_refuses_an_eviction_another_pod_leaves(
    new_world: Worlds, code: int, notice: int
) -> None:
    world = new_world(notice_seconds=notice)
    bobs = fill(world, cheap="bob-3")
    world.kube.forbid_eviction(bobs["bob-3"], code=code, message="it is migrated")
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    settled(world)
    (gone,) = left(world, bobs)
    assert gone != "bob-3"
    assert evictions(world, "bob-3") == (0 if notice else 3)
    assert annotation(world, "bob-3", names.NOTICE) == ""


def test_where_webhooks_refuse_every_eviction_the_reason_is_reported_and_nothing_is_tried_in_vain(
    world: World,
) -> None:
    bobs = fill(world)
    for uid in bobs.values():
        world.kube.forbid_eviction(uid, message="it is migrated")
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    world.run(2 * LIMIT)
    assert left(world, bobs) == []
    assert "it is migrated" in annotation(world, "alice-1", names.BLOCKED)
    assert not is_kept(world, "alice-1")
    assert sum(evictions(world, name) for name in BOBS) == 3 * len(BOBS)
    world.kube.forbid_eviction(bobs["bob-2"], message=None)
    world.until(lambda: runs(world, "alice-1"), "it is served", within=150)
    settled(world)
    assert left(world, bobs) == ["bob-2"]
    assert uid_of(world, "bob-1") == bobs["bob-1"]
