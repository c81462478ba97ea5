"""A pod that a kubelet rejected comes back: after its pause, once, retried indefinitely, and reported."""

import pytest

from booking.controller.reclaimer.evictions.backoffs import REPEATED_AFTER
from cluster import event_reasons, names
from cluster.kube.errors import Refusal, Request, ServerError, refused
from cluster.kube.resources import PODS, WHOLE_PODS
from cluster.objects.pods import Pod, asks_for_gpus, first_created
from cluster.objects.replaced_fields import Replaced, encode_replaced
from tests.booking.controller.reclaimer.evictions.comebacks import (
    NAMESPACE,
    REFUSED,
    World,
    refused_pod,
)

WORDS = "Allocate failed due to no healthy devices present"


def reconcile(world: World) -> None:
    world.sync()
    world.evictor.reconcile(frozenset())


def came_back(world: World) -> Pod:
    pod = world.pod()
    assert pod is not None
    assert pod.metadata.annotation(names.RECREATED_FROM) == world.victim.metadata.uid
    assert pod.metadata.finalizers is None
    assert world.templates == 0
    return pod


def events(world: World, reason: str) -> list[str]:
    return [message for _, event, message in world.recorder.events if event == reason]


def test_law_l4_a_rejected_pod_comes_back_with_its_gpus_owner_and_place_in_the_queue() -> None:
    annotations = {names.USER: "bob", names.BOOKING: "b", names.ASSIGNED: "{}", names.ADMITTED: "true"}
    world = World("refused", annotations={**annotations, names.MODEL: "A100", names.EVICTIONS: "2"})
    world.play()
    pod = came_back(world)
    assert asks_for_gpus(pod)
    assert first_created(pod) == world.victim.metadata.creation_timestamp
    kept = pod.metadata.annotations or {}
    ours = {key for key in kept if names.is_ours(key)}
    comeback_keys = {names.COMEBACK_REASON, names.COMEBACK_MESSAGE, names.RECREATED_FROM, names.FIRST_CREATED}
    assert ours == {names.USER, names.EVICTIONS, names.KUBELET_REJECTIONS} | comeback_keys
    assert (kept[names.EVICTIONS], kept[names.KUBELET_REJECTIONS]) == ("2", "1")
    assert kept[names.MODEL] == "A100"
    assert pod.spec.node_name is None


def test_the_owner_gets_two_events_in_the_kubelets_words() -> None:
    world = World("refused")
    world.play()
    first, second = events(world, event_reasons.REJECTED_BY_KUBELET)
    assert WORDS in first
    assert "It comes back with its place in the order, in 1 s." in first
    assert second.startswith(
        "This pod came back and waits for a node. Before: The kubelet of node n0 rejected"
    )
    assert world.recorder.reasons == [event_reasons.REJECTED_BY_KUBELET] * 2


def test_a_pod_rejected_again_counts_its_rejections_and_keeps_its_first_creation_time() -> None:
    ours = encode_replaced(Replaced(scheduler_name=names.SCHEDULER_NAME))
    world = World("refused", annotations={names.USER: "bob", names.REPLACED: ours})
    world.play()
    first = came_back(world)
    target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n0"}}
    world.kube.create_subresource(PODS, "binding", target, name="p", namespace=NAMESPACE)
    world.kube.patch(PODS, "p", {"status": REFUSED}, namespace=NAMESPACE, subresource="status")
    world.play()
    again = world.pod()
    assert again is not None
    assert again.metadata.annotation(names.RECREATED_FROM) == first.metadata.uid
    assert again.metadata.annotation(names.KUBELET_REJECTIONS) == "2"
    assert first_created(again) == world.victim.metadata.creation_timestamp


def test_a_rejected_pod_with_a_controller_is_not_touched() -> None:
    owner = {"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    world = World("refused", ownerReferences=[owner])
    world.play()
    assert world.pod() == world.victim
    assert world.calls == []


def test_a_rejected_pod_of_another_scheduler_is_not_touched() -> None:
    world = World("refused")
    world.kube.finish(PODS, "p", namespace=NAMESPACE)
    body = refused_pod()
    theirs = world.kube.put(PODS, {**body, "spec": {**body["spec"], "schedulerName": "default-scheduler"}})
    world.play()
    assert world.pod() == theirs


def test_a_pod_that_may_run_only_once_and_has_started_stays_and_is_reported_once() -> None:
    world = World("refused")
    world.kube.finish(PODS, "p", namespace=NAMESPACE)
    body = refused_pod()
    began = [{"name": "main", "state": {"terminated": {"exitCode": 137}}}]
    spec = {**body["spec"], "restartPolicy": "Never"}
    world.kube.put(PODS, {**body, "spec": spec, "status": {**REFUSED, "containerStatuses": began}})
    world.play()
    now = world.pod()
    assert now is not None
    assert now.metadata.annotation(names.RECREATED_FROM) is None
    assert world.recorder.reasons == [event_reasons.COMEBACK_DROPPED]


@pytest.mark.parametrize("code", [403, 429])
def test_a_pod_whose_comeback_the_api_server_refuses_stays_and_the_reason_is_reported(code: int) -> None:
    world = World("refused")
    reconcile(world)
    for _ in range(3):
        refusal = Refusal(code=code, message="a policy forbids it")
        world.kube.fail("POST", refused(Request("POST", "pods"), refusal))
        world.clock.advance(60)
        reconcile(world)
    assert world.pod() == world.victim
    assert events(world, event_reasons.COMEBACK_REFUSED) == [
        "This pod cannot come back yet, and it is tried again: a policy forbids it"
    ]
    world.play()
    came_back(world)


def test_a_broken_webhook_keeps_the_pod_indefinitely_and_is_reported_again_after_a_while() -> None:
    world = World("refused")
    reconcile(world)
    down = ServerError(Request("POST", "pods"), Refusal(code=500, message="failed calling webhook"))
    for _ in range(40):
        world.kube.fail("POST", down)
        world.clock.advance(REPEATED_AFTER / 20)
        reconcile(world)
    assert world.pod() == world.victim
    assert len(events(world, event_reasons.COMEBACK_REFUSED)) == 2
    world.play()
    came_back(world)


def test_an_eviction_overtaken_by_a_reboot_is_prepared_again_as_a_rejection() -> None:
    world = World("evicted")
    world.kube.protect(world.victim.metadata.uid)
    world.round()
    assert world.templates == 1
    world.kube.patch(PODS, "p", {"status": REFUSED}, namespace=NAMESPACE, subresource="status")
    world.play()
    pod = came_back(world)
    assert asks_for_gpus(pod)
    assert pod.metadata.annotation(names.COMEBACK_REASON) == "refused"


def test_the_condition_on_a_deleted_pod_names_the_kubelets_rejection() -> None:
    world = World("refused")
    world.kube.dies_after = 6  # deleted
    while world.kube.dies_after is not None:
        world.round()
    pod = world.kube.get(WHOLE_PODS, "p", namespace=NAMESPACE)
    reasons = [(one["type"], one["reason"]) for one in pod.status["conditions"]]
    assert reasons == [(names.DISRUPTION_TARGET, event_reasons.REJECTED_BY_KUBELET)]


def test_no_call_is_made_while_a_pod_waits() -> None:
    world = World("refused", annotations={names.KUBELET_REJECTIONS: "9"})
    for _ in range(10):
        reconcile(world)
        world.clock.advance(1)
    assert world.calls == []
