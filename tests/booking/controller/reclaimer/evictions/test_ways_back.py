"""How a pod comes back, or that it does not, what that costs, and what its owner reads while it cannot."""

from dataclasses import replace
from typing import Any

import pytest

from cluster import event_reasons, names
from cluster.kube.errors import Refusal, Request, ServerError
from cluster.kube.resources import POD_TEMPLATES, WHOLE_PODS
from cluster.objects.pods import asks_for_gpus, has_condition
from tests.booking.controller.reclaimer.evictions.comebacks import NAMESPACE, World
from tests.booking.controller.reclaimer.evictions.test_pod_evictor import came_back, refused, until_due


def test_a_pod_that_asked_to_wait_comes_back_as_it_was_and_counts_its_evictions() -> None:
    ours = {
        names.USER: "bob",
        names.EVICTIONS: "1",
        names.KUBELET_REJECTIONS: "3",
        names.HOLD: "{}",
        names.WARNED: "x",
    }
    world = World(back="as-it-was", annotations=ours)
    world.play()
    pod = world.pod()
    assert pod is not None
    assert asks_for_gpus(pod)
    assert pod.metadata.annotation(names.EVICTIONS) == "2"
    assert pod.metadata.annotation(names.USER) == "bob"
    assert not {names.KUBELET_REJECTIONS, names.HOLD, names.WARNED, names.COMEBACK_HOW} & set(
        pod.metadata.annotations or ()
    )
    assert world.recorder.reasons == [event_reasons.EVICTED_FOR_BOOKING, event_reasons.REQUEUED]


def test_a_pod_that_comes_back_without_a_gpu_loses_its_counts_of_evictions_and_rejections() -> None:
    world = World(annotations={names.USER: "bob", names.EVICTIONS: "1", names.KUBELET_REJECTIONS: "3"})
    world.play()
    pod = came_back(world)
    assert not {names.EVICTIONS, names.KUBELET_REJECTIONS} & set(pod.metadata.annotations or ())


@pytest.mark.parametrize(("reason", "calls"), [("evicted", 2), ("ended", 3)])
def test_a_pod_that_does_not_come_back_has_a_condition_with_the_reason_and_is_gone(
    reason: str, calls: int
) -> None:
    world = World("ended" if reason == "ended" else "evicted", back="never")
    world.kubelet_works = False
    world.round()
    left = world.pod()
    assert left is not None
    assert has_condition(left, names.DISRUPTION_TARGET)
    assert left.metadata.finalizers is None
    world.kubelet_works = True
    world.play()
    assert world.pod() is None
    assert world.templates == 0
    assert len(world.calls) == calls


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("seen", [False, True])
def test_preparations_are_undone_when_the_pod_must_no_longer_come_back(*, seen: bool, killed: bool) -> None:
    world = World()
    uid = world.victim.metadata.uid
    world.kube.protect(uid)
    world.round()
    assert world.templates == 1
    world.kube.protect(uid, protected=False)
    world.why = replace(world.why, back="never")
    if killed:
        world.restart()
    world.round(pods=seen, templates=seen)
    world.play()
    assert world.pod() is None
    assert world.templates == 0


def test_preparations_are_repeated_when_the_pod_must_come_back_in_another_form() -> None:
    world = World()
    uid = world.victim.metadata.uid
    world.kube.protect(uid)
    world.round()
    world.kube.protect(uid, protected=False)
    world.why = replace(world.why, back="as-it-was")
    world.play()
    pod = world.pod()
    assert pod is not None
    assert pod.metadata.annotation(names.RECREATED_FROM) == uid
    assert asks_for_gpus(pod)
    assert (pod.metadata.finalizers, world.templates) == (None, 0)


def test_a_deleted_template_is_stored_again_with_the_same_form_of_return() -> None:
    world = World(back="as-it-was")
    world.kubelet_works = False
    world.round()
    name = f"{names.COMEBACK_PREFIX}{world.victim.metadata.uid}"
    world.kube.finish(POD_TEMPLATES, name, namespace=NAMESPACE)
    world.restart()
    world.kubelet_works = True
    world.play()
    pod = world.pod()
    assert pod is not None
    assert asks_for_gpus(pod)
    assert pod.metadata.annotation(names.EVICTIONS) == "1"


def test_a_spared_pod_loses_the_annotation_about_its_form_of_return() -> None:
    world = World(back="as-it-was")
    world.kube.protect(world.victim.metadata.uid)
    world.round()
    assert world.pod() != world.victim
    world.wanted = False
    world.play()
    pod = world.pod()
    assert pod is not None
    assert pod.metadata.annotations == world.victim.metadata.annotations


def test_a_notice_costs_a_bare_pod_no_extra_call() -> None:
    world = World(notice="At 09:00 for team/hers.")
    world.kubelet_works = False
    world.round()
    pod = world.pod()
    assert pod is not None
    assert pod.metadata.annotation(names.NOTICE) == "At 09:00 for team/hers."
    world.kubelet_works = True
    world.play()
    assert pod is not None
    assert came_back(world).metadata.annotation(names.NOTICE) is None
    assert len(world.calls) == 10


OWNER = {"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}


@pytest.mark.parametrize(
    ("more", "calls"),
    [
        ({}, ["POST pods/p/eviction"]),
        ({"notice": "Soon."}, ["PATCH pods/p", "POST pods/p/eviction"]),
        (
            {"notice": "Soon.", "overrides_budget": True},
            ["GET pods/p", "PATCH pods/p", "PATCH pods/p/status", "DELETE pods/p"],
        ),
    ],
    ids=["evicted", "with notice", "budget overridden"],
)
def test_evicting_a_controllers_pod_takes_at_most_four_calls(more: dict[str, Any], calls: list[str]) -> None:
    world = World(ownerReferences=[OWNER], **more)
    world.play()
    assert world.pod() is None
    assert world.calls == calls


@pytest.mark.parametrize("owned", [False, True])
def test_an_overridden_budget_keeps_no_pod_and_the_condition_says_why(*, owned: bool) -> None:
    world = World(overrides_budget=True, ownerReferences=[OWNER] if owned else None)
    world.kube.protect(world.victim.metadata.uid)
    world.kubelet_works = False
    world.round()
    pod = world.kube.get(WHOLE_PODS, "p", namespace=NAMESPACE)
    disrupted = [one["reason"] for one in pod.status["conditions"] if one["type"] == names.DISRUPTION_TARGET]
    assert disrupted == [event_reasons.EVICTED_FOR_BOOKING]
    world.kubelet_works = True
    world.play()
    if owned:
        assert world.pod() is None
    else:
        came_back(world)


def test_a_refusal_is_reported_again_when_its_reason_changes_and_otherwise_rarely() -> None:
    world = World()
    until_due(world)
    for number in range(60):
        world.kube.fail("POST", refused("exceeded quota" if number < 30 else "a policy forbids it"))
        world.round()
        world.clock.advance(60)
    messages = [
        message for _, reason, message in world.recorder.events if reason == event_reasons.COMEBACK_REFUSED
    ]
    quota, policy = (
        f"The pod cannot come back yet, and is tried again: {why}"
        for why in ("exceeded quota", "a policy forbids it")
    )
    assert messages == [quota, quota, policy, policy]
    world.play()
    came_back(world)


def test_a_webhook_that_is_down_is_reported_as_well() -> None:
    world = World()
    until_due(world)
    down = ServerError(Request("POST", "pods"), Refusal(code=500, message="failed calling webhook"))
    world.kube.fail("POST", down)
    world.round()
    assert world.recorder.events[-1] == (
        "p",
        event_reasons.COMEBACK_REFUSED,
        "The pod cannot come back yet, and is tried again: failed calling webhook",
    )
    world.play()
    came_back(world)
