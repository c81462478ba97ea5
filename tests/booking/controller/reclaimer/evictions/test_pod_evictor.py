import pytest

from booking.controller.reclaimer.evictions.dry_runs import DRY_RUN_ATTEMPTS
from booking.controller.reclaimer.evictor import DryRunError, ProtectedError, TooLateError
from cluster import event_reasons, names
from cluster.kube.errors import Forbidden, Refusal, Request, ServerError, Unreachable
from cluster.kube.resources import DISRUPTION_BUDGETS, POD_TEMPLATES, PODS, WHOLE_PODS, PodTemplate
from cluster.objects.pods import Pod, asks_for_gpus, has_condition, is_terminating
from tests.booking.controller.reclaimer.evictions.comebacks import NAMESPACE, World, gpu_pod

TEMPLATE = "podtemplates/gpu-booking-{uid}"


def refused(message: str = "exceeded quota") -> Forbidden:
    return Forbidden(Request("POST", "pods"), Refusal(code=403, reason="Forbidden", message=message))


def came_back(world: World) -> Pod:
    pod = world.pod()
    assert pod is not None
    assert pod.metadata.uid != world.victim.metadata.uid
    assert not asks_for_gpus(pod)
    assert not is_terminating(pod)
    assert pod.metadata.finalizers is None
    assert names.COMEBACK not in (pod.metadata.labels or {})
    assert world.templates == 0
    return pod


@pytest.mark.parametrize("reason", ["evicted", "ended"])
def test_law_l4_a_bare_pod_comes_back_without_a_gpu(reason: str) -> None:
    world = World(reason="ended" if reason == "ended" else "evicted")
    world.play()
    pod = came_back(world)
    assert pod.metadata.annotation(names.RECREATED_FROM) == world.victim.metadata.uid
    assert pod.metadata.annotation(names.USER) == "bob"
    assert pod.metadata.annotation(names.COMEBACK_MESSAGE) == world.why.message
    assert pod.metadata.annotation(names.ASSIGNED) is None
    cause = event_reasons.BOOKING_ENDED if reason == "ended" else event_reasons.EVICTED_FOR_BOOKING
    assert world.recorder.reasons == [cause, event_reasons.CAME_BACK]


def test_an_eviction_and_its_comeback_take_ten_calls() -> None:
    world = World()
    world.play()
    template = TEMPLATE.format(uid=world.victim.metadata.uid)
    assert world.calls == [
        "GET pods/p",
        "POST pods?dryRun=All",
        "POST podtemplates",
        "PATCH pods/p",
        "POST pods/p/eviction",
        f"PATCH {template}",
        "PATCH pods/p",
        "POST pods",
        f"DELETE {template}",
        "PATCH pods/p",
    ]


def test_an_eviction_has_uid_and_version_as_preconditions_and_the_shorter_grace_period() -> None:
    world = World()
    world.round()
    (call,) = [call for call in world.kube.calls if call.path.endswith("/eviction")]
    assert call.body is not None
    options = call.body["deleteOptions"]
    assert options["preconditions"]["uid"] == world.victim.metadata.uid
    assert options["preconditions"]["resourceVersion"]
    assert options["gracePeriodSeconds"] == 20


def test_an_ended_pod_has_a_condition_with_the_reason_beside_its_others() -> None:
    world = World("ended")
    world.kubelet_works = False
    world.round()
    pod = world.kube.get(WHOLE_PODS, "p", namespace=NAMESPACE)
    ready, disrupted = pod.status["conditions"]
    assert ready["type"] == "Ready"
    assert (disrupted["type"], disrupted["reason"]) == ("DisruptionTarget", event_reasons.BOOKING_ENDED)
    assert disrupted["message"] == world.why.message
    assert pod.metadata.deletion_timestamp


def test_no_pod_is_created_before_the_old_one_has_ended() -> None:
    world = World()
    world.kubelet_works = False
    world.play()
    pod = world.pod()
    assert pod is not None
    assert pod.metadata.uid == world.victim.metadata.uid
    assert world.templates == 1
    world.kubelet_works = True
    world.play()
    came_back(world)


@pytest.mark.parametrize("reason", ["evicted", "ended"])
def test_a_pod_with_a_controller_is_left_to_it(reason: str) -> None:
    owner = {"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}
    world = World("ended" if reason == "ended" else "evicted", ownerReferences=[owner])
    world.play()
    assert world.pod() is None
    assert world.templates == 0
    assert len(world.calls) <= 4
    assert not any("podtemplates" in call for call in world.calls)


def test_a_disruption_budget_protects_from_eviction() -> None:
    world = World()
    world.kube.protect(world.victim.metadata.uid)
    world.sync()
    with pytest.raises(ProtectedError, match="team/p cannot be evicted now"):
        world.evictor.evict(world.victim, world.why)
    world.wanted = False
    world.play()
    assert world.pod() is not None
    assert world.templates == 0


@pytest.mark.parametrize("budgets", [("keep",), ("keep", "keep-too")])
def test_the_budgets_that_protect_a_pod_are_known_and_asking_changes_nothing(
    budgets: tuple[str, ...],
) -> None:
    world = World()
    for name in (*budgets, "of-others"):
        labels = {"app": name} if name == "of-others" else world.victim.metadata.labels
        metadata = {"name": name, "namespace": NAMESPACE}
        world.kube.put(
            DISRUPTION_BUDGETS, {"metadata": metadata, "spec": {"selector": {"matchLabels": labels}}}
        )
    before = world.pod()
    with pytest.raises(ProtectedError) as caught:
        world.evictor.ask(world.victim)
    assert [one.key for one in caught.value.budgets] == [f"{NAMESPACE}/{name}" for name in budgets]
    assert world.pod() == before


def test_asking_about_a_pod_that_may_be_evicted_changes_nothing() -> None:
    world = World()
    before = world.pod()
    world.evictor.ask(world.victim)
    assert world.pod() == before


def test_a_disruption_budget_does_not_prolong_a_booking() -> None:
    world = World("ended")
    world.kube.protect(world.victim.metadata.uid)
    world.play()
    came_back(world)


@pytest.mark.parametrize("by", ["withdraw", "reconcile"])
def test_preparations_are_undone_when_the_pod_need_not_leave(by: str) -> None:
    world = World()
    world.kube.protect(world.victim.metadata.uid)
    world.round()
    assert world.templates == 1
    world.wanted = False
    world.sync()
    if by == "withdraw":
        world.evictor.withdraw(world.victim.metadata.uid)
    else:
        world.evictor.reconcile(frozenset())
    pod = world.pod()
    assert pod is not None
    assert (pod.metadata.finalizers, pod.metadata.labels) == (None, None)
    assert world.templates == 0


def test_a_withdrawal_after_the_eviction_changes_nothing() -> None:
    world = World()
    world.sync()
    world.evictor.evict(world.victim, world.why)
    world.wanted = False
    world.evictor.withdraw(world.victim.metadata.uid)
    world.play()
    came_back(world)


def test_evicting_a_pod_again_makes_no_further_calls() -> None:
    world = World()
    world.sync()
    world.evictor.evict(world.victim, world.why)
    before = len(world.calls)
    for _ in range(3):
        world.evictor.evict(world.victim, world.why)
        world.evictor.reconcile(frozenset({world.victim.metadata.uid}))
    assert len(world.calls) == before


def test_a_new_pod_of_the_same_name_is_not_touched() -> None:
    world = World()
    world.kube.finish(PODS, "p", namespace=NAMESPACE)
    again = world.kube.put(PODS, gpu_pod())
    world.evictor.evict(world.victim, world.why)
    assert world.pod() == again


def test_a_pod_that_cannot_come_back_still_leaves_and_its_comeback_is_reported_and_retried() -> None:
    world = World()
    world.kube.fail("POST", refused("a policy forbids it"))
    world.round()
    assert world.recorder.reasons[0] == event_reasons.COMEBACK_REFUSED
    for _ in range(4):
        world.kube.fail("POST", refused("the policy still forbids it"))
    world.play()
    came_back(world)
    messages = [
        message for _, reason, message in world.recorder.events if reason == event_reasons.COMEBACK_REFUSED
    ]
    assert messages == [
        "This pod must leave, and as it is now it could not come back: a policy forbids it",
        "The pod cannot come back yet, and is tried again: the policy still forbids it",
    ]


def test_a_quota_that_the_leaving_pod_itself_fills_is_not_reported() -> None:
    world = World()
    world.kube.fail("POST", refused("exceeded quota: pods, requested: pods=1, used: pods=5, limited: pods=5"))
    world.play()
    came_back(world)
    assert event_reasons.COMEBACK_REFUSED not in world.recorder.reasons


def test_a_template_that_only_looks_like_ours_is_left_alone() -> None:
    world = World()
    labels = {names.COMEBACK: "true"}
    world.kube.put(POD_TEMPLATES, {"metadata": {"name": "x", "namespace": NAMESPACE, "labels": labels}})
    name = f"{names.COMEBACK_PREFIX}x"
    world.kube.put(POD_TEMPLATES, {"metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}})
    world.sync()
    world.evictor.reconcile(frozenset())
    assert world.templates == 2


def test_a_refused_comeback_does_not_delay_another() -> None:
    world = World()
    other = world.kube.put(PODS, gpu_pod("q"))
    world.sync()
    for victim in (world.victim, other):
        world.evictor.evict(victim, world.why)
    world.kubelet()
    world.sync()
    world.kube.fail("POST", refused())
    world.evictor.reconcile(frozenset())
    world.sync()
    world.evictor.reconcile(frozenset())
    world.kube.fail("POST", refused())
    world.sync()
    world.evictor.reconcile(frozenset())
    found = [world.pod(name) for name in "pq"]
    assert [pod is not None and not asks_for_gpus(pod) for pod in found].count(True) == 1


def test_an_unreachable_api_server_raises_an_error() -> None:
    world = World()
    world.sync()
    world.kube.down = True
    with pytest.raises(Unreachable):
        world.evictor.evict(world.victim, world.why)
    world.kube.down = False
    world.play()
    came_back(world)


def test_a_failed_dry_run_is_retried() -> None:
    world = World()
    world.kube.fail("POST", ServerError(Request("POST", "pods"), Refusal(code=500)))
    world.sync()
    with pytest.raises(DryRunError):
        world.evictor.evict(world.victim, world.why)
    assert world.templates == 0
    world.play()
    came_back(world)


def test_no_pod_keeps_its_gpu_because_a_webhook_stays_broken() -> None:
    world = World()
    world.sync()
    for _ in range(DRY_RUN_ATTEMPTS - 1):
        world.kube.fail("POST", ServerError(Request("POST", "pods"), Refusal(code=500)))
        with pytest.raises(DryRunError):
            world.evictor.evict(world.victim, world.why)
    world.kube.fail("POST", ServerError(Request("POST", "pods"), Refusal(code=500)))
    world.evictor.evict(world.victim, world.why)
    left = world.pod()
    assert left is not None
    assert is_terminating(left)
    world.play()
    came_back(world)


def test_another_users_pod_of_the_same_name_stays_and_is_reported() -> None:
    world = World()
    while (now := world.pod()) is not None and now.metadata.uid == world.victim.metadata.uid:
        world.round()
        if world.pod() is None:
            break
    theirs = world.kube.put(PODS, gpu_pod())
    world.play()
    assert world.pod() == theirs
    assert world.templates == 0
    assert event_reasons.COMEBACK_DROPPED in world.recorder.reasons


@pytest.mark.parametrize("where", [{"name": "q"}, {"namespace": "else"}], ids=["name", "namespace"])
def test_law_l4_a_pod_elsewhere_with_our_marks_does_not_count_as_the_comeback(
    where: dict[str, str],
) -> None:
    world = World()
    marks = {
        "annotations": {names.RECREATED_FROM: world.victim.metadata.uid},
        "labels": {names.COMEBACK: "true"},
    }
    world.kube.put(PODS, gpu_pod(**{"name": "p", "namespace": NAMESPACE, **marks, **where}))
    world.play()
    back = world.kube.get(PODS, "p", namespace=NAMESPACE)
    assert back.metadata.annotation(names.RECREATED_FROM) == world.victim.metadata.uid
    assert not asks_for_gpus(back)
    assert world.templates == 0


def test_a_deleted_template_is_stored_again_while_its_victim_exists() -> None:
    world = World()
    world.kubelet_works = False
    world.round()
    name = f"{names.COMEBACK_PREFIX}{world.victim.metadata.uid}"
    world.kube.finish(POD_TEMPLATES, name, namespace=NAMESPACE)
    world.kubelet_works = True
    world.play()
    came_back(world)


def test_a_terminating_namespace_is_not_kept_from_ending() -> None:
    world = World()
    world.kubelet_works = False
    world.round()
    name = f"{names.COMEBACK_PREFIX}{world.victim.metadata.uid}"
    world.kube.finish(POD_TEMPLATES, name, namespace=NAMESPACE)
    causes = {"causes": [{"reason": "NamespaceTerminating"}]}
    refusal = Refusal(code=403, reason="Forbidden", message="is being terminated", details=causes)
    world.kube.fail("POST", Forbidden(Request("POST", "podtemplates"), refusal))
    world.kubelet_works = True
    world.play()
    assert world.pod() is None
    assert world.templates == 0


def test_other_finalizers_are_kept() -> None:
    world = World(finalizers=["example.com/stay"])
    world.play()
    pod = world.pod()
    assert pod is not None
    assert pod.metadata.uid == world.victim.metadata.uid
    assert pod.metadata.finalizers == ("example.com/stay",)
    world.kube.patch(PODS, "p", {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
    world.play()
    came_back(world)


def test_a_pod_that_completes_by_itself_does_not_come_back() -> None:
    world = World()
    world.kube.protect(world.victim.metadata.uid)
    world.round()
    done = {"status": {"phase": "Succeeded"}}
    world.kube.patch(PODS, "p", done, namespace=NAMESPACE, subresource="status")
    world.play()
    pod = world.pod()
    assert pod is not None
    assert pod.metadata.finalizers is None
    assert not has_condition(pod, "DisruptionTarget")
    assert world.templates == 0


def test_a_victim_with_a_template_but_without_our_finalizer_is_read_less_and_less_often() -> None:
    world = World()
    world.kube.dies_after = 3  # stored, without our finalizer
    world.round()
    wanted = frozenset({world.victim.metadata.uid})
    before = len(world.calls)
    for _ in range(100):
        world.evictor.reconcile(wanted)
        world.clock.advance(0.1)
    assert 1 < len(world.calls) - before <= 10


def test_events_of_pods_and_templates_trigger_the_loop() -> None:
    world = World()
    triggered: list[str] = []
    world.evictor.seen.on_change(lambda: triggered.append("event"))
    seen = world.evictor.seen
    world.sync()
    assert len(triggered) == 3
    world.evictor.evict(world.victim, world.why)
    assert len(triggered) == 3
    (template,) = world.kube.list(POD_TEMPLATES).items
    seen.templates.upsert(template)
    seen.pods.upsert(world.victim)
    seen.pods.remove(world.victim)
    seen.templates.remove(template)
    assert len(triggered) == 7
    assert seen.victims() == []


def until_due(world: World) -> PodTemplate:
    """Play until the victim is gone and no pod has come back; returns the template, which is due."""
    world.kube.dies_after = 7
    while world.kube.dies_after is not None:
        world.round()
    (template,) = world.kube.list(POD_TEMPLATES).items
    assert world.pod() is None
    return template


def test_law_l4_a_leader_whose_watches_lag_behind_brings_no_pod_back_twice() -> None:
    world = World()
    until_due(world)
    behind = world.evictor
    world.evictor = world.process()
    world.play()
    came_back(world)
    world.kube.delete(PODS, "p", namespace=NAMESPACE, grace_seconds=0)
    behind.reconcile(frozenset())
    assert world.pod() is None
    assert behind.seen.victims() == []


def test_law_l4_late_events_of_a_template_bring_no_pod_back_twice() -> None:
    world = World()
    template = until_due(world)
    world.round()
    came_back(world)
    world.kube.delete(PODS, "p", namespace=NAMESPACE, grace_seconds=0)
    world.sync(templates=False)
    world.evictor.seen.templates.upsert(template)
    before = len(world.calls)
    world.evictor.reconcile(frozenset())
    assert world.pod() is None
    assert len(world.calls) == before


@pytest.mark.parametrize("reason", ["evicted", "ended"])
def test_a_decision_that_no_longer_holds_evicts_no_pod(reason: str) -> None:
    world = World("ended" if reason == "ended" else "evicted")
    world.sync()
    with pytest.raises(TooLateError, match="team/p"):
        world.evictor.evict(world.victim, world.why, is_valid=lambda: False)
    pod = world.pod()
    assert pod is not None
    assert pod.metadata.deletion_timestamp is None
    assert not any(one.type == names.DISRUPTION_TARGET for one in pod.status.conditions or ())
    world.wanted = False
    world.play()
    pod = world.pod()
    assert pod is not None
    assert (pod.metadata.uid, pod.metadata.finalizers) == (world.victim.metadata.uid, None)
    assert world.templates == 0


def test_preparations_that_came_too_late_serve_the_next_decision() -> None:
    world = World()
    world.sync()
    with pytest.raises(TooLateError):
        world.evictor.evict(world.victim, world.why, is_valid=lambda: False)
    world.play()
    came_back(world)
