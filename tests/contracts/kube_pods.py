"""The life of a pod: binding, deletion, eviction, finalizers."""

from datetime import datetime, timedelta

import pytest

from cluster.kube.errors import (
    BadRequest,
    Conflict,
    NotFound,
    ServerError,
    TooManyRequests,
    Unprocessable,
    Unsent,
)
from cluster.kube.interface import Kube
from cluster.kube.resources import POD_TEMPLATES, PODS
from cluster.objects.pods import Pod, has_condition
from tests.contracts.kube_ground import GATES, OTHERS, KubeGround, pod_body, template_body

STAY = "example.com/stay"
SECOND = timedelta(seconds=1)
"""What instants in metadata are rounded to."""


class KubeBinding(KubeGround):
    def test_a_binding_writes_node_and_annotations_at_once(self, kube: Kube, pod: Pod) -> None:
        self.annotate(kube, pod, x="0", y="0")
        before = self.now(kube, pod).metadata
        preconditions = {"uid": before.uid, "resourceVersion": before.resource_version}
        bound = self.bind(kube, pod, annotations={"x": "1"}, labels={"z": "1"}, **preconditions)
        assert bound.spec.node_name == "nowhere"
        assert bound.metadata.annotations == {"x": "1", "y": "0"}
        assert bound.metadata.labels == {"z": "1"}

    def test_a_bound_pod_has_the_condition_pod_scheduled_and_is_still_pending(
        self, kube: Kube, pod: Pod
    ) -> None:
        bound = self.bind(kube, pod)
        assert has_condition(bound, "PodScheduled")
        assert bound.status.phase == "Pending"

    def test_a_bound_pod_is_no_longer_nominated(self, kube: Kube, pod: Pod) -> None:
        self.report(kube, pod, nominatedNodeName="elsewhere")
        assert not self.bind(kube, pod).status.nominated_node_name

    def test_a_pod_is_bound_once(self, kube: Kube, pod: Pod) -> None:
        self.bind(kube, pod)
        with pytest.raises(Conflict, match="already assigned to node"):
            self.bind(kube, pod)

    @pytest.mark.parametrize("key", ["uid", "resourceVersion"])
    def test_a_binding_for_another_pod_is_a_conflict(self, kube: Kube, pod: Pod, key: str) -> None:
        with pytest.raises(Conflict):
            self.bind(kube, pod, **{key: OTHERS[key]})
        assert self.now(kube, pod) == pod

    def test_a_pod_that_is_being_deleted_is_not_bound(self, kube: Kube, namespace: str) -> None:
        pod = kube.create(PODS, pod_body("a", finalizers=[STAY]), namespace=namespace)
        kube.delete(PODS, "a", namespace=namespace)
        with pytest.raises(Conflict, match="is being deleted, cannot be assigned to a host"):
            self.bind(kube, pod)

    def test_a_gated_pod_is_not_bound(self, kube: Kube, namespace: str) -> None:
        pod = kube.create(PODS, pod_body("a", spec={"schedulingGates": GATES}), namespace=namespace)
        with pytest.raises(Conflict, match=r"non-empty \.spec\.schedulingGates"):
            self.bind(kube, pod)

    def test_a_missing_pod_is_not_bound(self, kube: Kube, pod: Pod, namespace: str) -> None:
        kube.delete(PODS, pod.metadata.name, namespace=namespace)
        with pytest.raises(NotFound):
            self.bind(kube, pod)

    def test_a_binding_names_its_pod(self, kube: Kube, pod: Pod, namespace: str) -> None:
        body = {"metadata": {"name": "b"}, "target": {"kind": "Node", "name": "nowhere"}}
        with pytest.raises(BadRequest, match="name in URL does not match name in Binding object"):
            kube.create_subresource(PODS, "binding", body, name=pod.metadata.name, namespace=namespace)

    def test_a_binding_names_a_node(self, kube: Kube, pod: Pod, namespace: str) -> None:
        body = {"metadata": {"name": "a"}, "target": {"kind": "Node"}}
        with pytest.raises(ServerError, match=r"target\.name: Required value"):
            kube.create_subresource(PODS, "binding", body, name=pod.metadata.name, namespace=namespace)

    def test_a_bind_after_its_deadline_is_not_posted(self, kube: Kube, pod: Pod, namespace: str) -> None:
        body = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "nowhere"}}
        name = pod.metadata.name
        with pytest.raises(Unsent):
            kube.create_subresource(PODS, "binding", body, name=name, namespace=namespace, within=0)
        assert kube.get(PODS, name, namespace=namespace).spec.node_name is None

    def test_an_unknown_subresource_is_not_found(self, kube: Kube, pod: Pod, namespace: str) -> None:
        with pytest.raises(NotFound):
            kube.create_subresource(PODS, "no-such-door", {}, name=pod.metadata.name, namespace=namespace)


class KubeDeleting(KubeGround):
    @pytest.fixture
    def bound(self, kube: Kube, pod: Pod) -> Pod:
        return self.bind(kube, pod)

    def delete_pod(self, kube: Kube, pod: Pod, grace: int | None = None) -> None:
        kube.delete(PODS, pod.metadata.name, namespace=pod.metadata.namespace, grace_seconds=grace)

    def ends_at(self, kube: Kube, pod: Pod) -> datetime:
        instant = self.now(kube, pod).metadata.deletion_timestamp
        assert instant
        return instant

    @pytest.mark.parametrize("key", ["uid", "resource_version"])
    def test_a_deletion_whose_precondition_fails_is_a_conflict(
        self, kube: Kube, pod: Pod, namespace: str, key: str
    ) -> None:
        other = {"uid": OTHERS["uid"], "resource_version": OTHERS["resourceVersion"]}
        with pytest.raises(Conflict) as caught:
            kube.delete(PODS, "a", namespace=namespace, **{key: other[key]})
        assert caught.value.reason != "AlreadyExists"
        assert self.now(kube, pod) == pod

    def test_a_deletion_whose_preconditions_hold_is_done(self, kube: Kube, pod: Pod, namespace: str) -> None:
        meta = pod.metadata
        kube.delete(PODS, "a", namespace=namespace, uid=meta.uid, resource_version=meta.resource_version)
        assert self.is_gone(kube, pod)

    def test_a_missing_pod_is_not_deleted(self, kube: Kube, namespace: str) -> None:
        with pytest.raises(NotFound):
            kube.delete(PODS, "a", namespace=namespace)

    def test_a_pod_that_was_never_bound_vanishes_at_once(self, kube: Kube, pod: Pod) -> None:
        self.delete_pod(kube, pod, grace=30)
        assert self.is_gone(kube, pod)

    def test_a_bound_pod_is_deleted_gracefully(self, kube: Kube, bound: Pod) -> None:
        self.delete_pod(kube, bound, grace=20)
        leaving = self.now(kube, bound)
        assert leaving.metadata.deletion_grace_period_seconds == 20
        assert not has_condition(leaving, "DisruptionTarget")

    def test_a_pods_deletion_timestamp_is_the_end_of_its_grace(self, kube: Kube, bound: Pod) -> None:
        self.delete_pod(kube, bound, grace=1000)
        born = bound.metadata.creation_timestamp
        assert born
        assert self.ends_at(kube, bound) - born >= timedelta(seconds=1000) - SECOND

    @pytest.mark.parametrize(("own", "expected"), [(None, 30), (7, 7), (0, None)])
    def test_a_pod_is_deleted_with_its_own_grace_period(
        self, kube: Kube, namespace: str, own: int | None, expected: int | None
    ) -> None:
        spec = {} if own is None else {"terminationGracePeriodSeconds": own}
        pod = self.bind(kube, kube.create(PODS, pod_body("a", spec=spec), namespace=namespace))
        self.delete_pod(kube, pod)
        if expected is None:
            assert self.is_gone(kube, pod)
        else:
            assert self.now(kube, pod).metadata.deletion_grace_period_seconds == expected

    @pytest.mark.parametrize("later", [None, 30, 60])
    def test_a_later_deletion_cannot_lengthen_the_grace_period(
        self, kube: Kube, bound: Pod, later: int | None
    ) -> None:
        self.delete_pod(kube, bound, grace=30)
        leaving = self.now(kube, bound)
        self.delete_pod(kube, bound, grace=later)
        assert self.now(kube, bound) == leaving

    def test_a_later_deletion_can_shorten_the_grace_period(self, kube: Kube, bound: Pod) -> None:
        self.delete_pod(kube, bound, grace=1000)
        end = self.ends_at(kube, bound)
        self.delete_pod(kube, bound, grace=900)
        assert end - self.ends_at(kube, bound) == timedelta(seconds=100)
        assert self.now(kube, bound).metadata.deletion_grace_period_seconds == 900

    def test_a_deletion_without_grace_is_the_end(self, kube: Kube, bound: Pod) -> None:
        self.delete_pod(kube, bound, grace=30)
        self.delete_pod(kube, bound, grace=0)
        assert self.is_gone(kube, bound)

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_a_pod_that_has_ended_vanishes_at_once(self, kube: Kube, bound: Pod, phase: str) -> None:
        self.report(kube, bound, phase=phase)
        self.delete_pod(kube, bound, grace=30)
        assert self.is_gone(kube, bound)

    def test_a_terminating_pod_that_ends_waits_for_its_kubelet(self, kube: Kube, bound: Pod) -> None:
        self.delete_pod(kube, bound, grace=30)
        self.report(kube, bound, phase="Failed")
        assert self.now(kube, bound).status.phase == "Failed"
        self.delete_pod(kube, bound, grace=0)
        assert self.is_gone(kube, bound)

    def test_a_deletion_cannot_be_undone(self, kube: Kube, bound: Pod, namespace: str) -> None:
        self.delete_pod(kube, bound, grace=30)
        leaving = self.now(kube, bound)
        patch = {"metadata": {"deletionTimestamp": None, "deletionGracePeriodSeconds": None}}
        assert kube.patch(PODS, "a", patch, namespace=namespace) == leaving


class KubeFinalizers(KubeGround):
    @pytest.fixture
    def held(self, kube: Kube, namespace: str) -> Pod:
        return kube.create(PODS, pod_body("a", finalizers=[STAY]), namespace=namespace)

    def delete_gracefully(self, kube: Kube, pod: Pod, grace: int | None = None) -> Pod:
        """Delete a pod that stays; what it is then."""
        kube.delete(PODS, pod.metadata.name, namespace=pod.metadata.namespace, grace_seconds=grace)
        return self.now(kube, pod)

    def let_go(self, kube: Kube, pod: Pod) -> Pod:
        patch = {"metadata": {"finalizers": []}}
        return kube.patch(PODS, pod.metadata.name, patch, namespace=pod.metadata.namespace)

    def test_a_finalizer_keeps_a_pod_that_never_ran(self, kube: Kube, held: Pod) -> None:
        leaving = self.delete_gracefully(kube, held)
        assert leaving.metadata.deletion_timestamp
        assert leaving.metadata.deletion_grace_period_seconds == 0
        self.let_go(kube, held)
        assert self.is_gone(kube, held)

    def test_dropping_the_last_finalizer_returns_the_last_state(self, kube: Kube, held: Pod) -> None:
        self.delete_gracefully(kube, held)
        last = self.let_go(kube, held)
        assert (last.metadata.uid, last.metadata.finalizers) == (held.metadata.uid, None)

    def test_a_finalizer_keeps_a_pod_after_its_kubelet_is_done(self, kube: Kube, held: Pod) -> None:
        self.bind(kube, held)
        self.delete_gracefully(kube, held, grace=20)
        self.report(kube, held, phase="Failed")
        leaving = self.delete_gracefully(kube, held, grace=0)
        assert leaving.metadata.deletion_grace_period_seconds == 0
        self.let_go(kube, held)
        assert self.is_gone(kube, held)

    def test_without_its_finalizer_a_pod_stays_as_long_as_its_kubelet_works(
        self, kube: Kube, held: Pod
    ) -> None:
        self.bind(kube, held)
        self.delete_gracefully(kube, held, grace=20)
        self.let_go(kube, held)
        assert not self.is_gone(kube, held)
        kube.delete(PODS, "a", namespace=held.metadata.namespace, grace_seconds=0)
        assert self.is_gone(kube, held)

    def test_a_second_deletion_of_an_object_kept_by_a_finalizer_changes_nothing(
        self, kube: Kube, held: Pod
    ) -> None:
        leaving = self.delete_gracefully(kube, held)
        assert self.delete_gracefully(kube, held, grace=0) == leaving

    def test_an_object_kept_by_a_finalizer_can_be_changed(self, kube: Kube, held: Pod) -> None:
        self.delete_gracefully(kube, held)
        assert self.annotate(kube, held, x="1").metadata.annotation("x") == "1"
        assert self.report(kube, held, message="hello").status.message == "hello"

    def test_the_last_finalizer_can_be_removed_together_with_other_changes(
        self, kube: Kube, held: Pod, namespace: str
    ) -> None:
        self.delete_gracefully(kube, held)
        patch = {"metadata": {"finalizers": None, "annotations": {"x": "1"}}}
        kube.patch(PODS, "a", patch, namespace=namespace)
        assert self.is_gone(kube, held)

    def test_a_terminating_pod_gets_no_new_finalizer(self, kube: Kube, held: Pod, namespace: str) -> None:
        leaving = self.delete_gracefully(kube, held)
        patch = {"metadata": {"finalizers": [STAY, "example.com/longer"]}}
        with pytest.raises(Unprocessable, match="no new finalizers can be added"):
            kube.patch(PODS, "a", patch, namespace=namespace)
        assert self.now(kube, held) == leaving

    def test_a_finalizer_keeps_other_objects_too(self, kube: Kube, namespace: str) -> None:
        body = template_body("t", finalizers=[STAY])
        kube.create(POD_TEMPLATES, body, namespace=namespace)
        kube.delete(POD_TEMPLATES, "t", namespace=namespace)
        meta = kube.get(POD_TEMPLATES, "t", namespace=namespace).metadata
        assert meta.deletion_timestamp
        assert meta.deletion_grace_period_seconds == 0
        more = {"metadata": {"finalizers": [STAY, "example.com/longer"]}}
        with pytest.raises(Unprocessable, match="no new finalizers can be added"):
            kube.patch(POD_TEMPLATES, "t", more, namespace=namespace)
        kube.patch(POD_TEMPLATES, "t", {"metadata": {"finalizers": None}}, namespace=namespace)
        with pytest.raises(NotFound):
            kube.get(POD_TEMPLATES, "t", namespace=namespace)

    def test_other_objects_vanish_at_once(self, kube: Kube, namespace: str) -> None:
        kube.create(POD_TEMPLATES, template_body("t"), namespace=namespace)
        kube.delete(POD_TEMPLATES, "t", namespace=namespace, grace_seconds=30)
        with pytest.raises(NotFound):
            kube.get(POD_TEMPLATES, "t", namespace=namespace)


class KubeEvicting(KubeGround):
    @pytest.fixture
    def running(self, kube: Kube, pod: Pod) -> Pod:
        self.bind(kube, pod)
        ready = {"type": "Ready", "status": "True"}
        scheduled = {"type": "PodScheduled", "status": "True"}
        return self.report(kube, pod, phase="Running", conditions=[scheduled, ready])

    def test_an_eviction_sets_the_condition_disruption_target(self, kube: Kube, running: Pod) -> None:
        meta = running.metadata
        preconditions = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        self.evict(kube, running, preconditions=preconditions, gracePeriodSeconds=20)
        leaving = self.now(kube, running)
        (evicted,) = [one for one in leaving.status.conditions or () if one.type == "DisruptionTarget"]
        assert (evicted.status, evicted.reason) == ("True", "EvictionByEvictionAPI")
        assert leaving.metadata.deletion_grace_period_seconds == 20
        assert has_condition(leaving, "Ready")

    def test_an_eviction_without_options_leaves_a_pod_its_own_grace_period(
        self, kube: Kube, running: Pod, namespace: str
    ) -> None:
        body = {"metadata": {"name": "a", "namespace": namespace}}
        kube.create_subresource(PODS, "eviction", body, name="a", namespace=namespace)
        assert self.now(kube, running).metadata.deletion_grace_period_seconds == 30

    @pytest.mark.parametrize("key", ["uid", "resourceVersion"])
    def test_an_eviction_whose_precondition_fails_leaves_no_trace(
        self, kube: Kube, running: Pod, key: str
    ) -> None:
        with pytest.raises(Conflict) as caught:
            self.evict(kube, running, preconditions={key: OTHERS[key]})
        assert caught.value.reason != "AlreadyExists"
        assert self.now(kube, running) == running

    def test_an_eviction_without_grace_is_the_end(self, kube: Kube, running: Pod) -> None:
        self.evict(kube, running, gracePeriodSeconds=0)
        assert self.is_gone(kube, running)

    def test_a_pod_that_was_never_bound_is_evicted_at_once(self, kube: Kube, pod: Pod) -> None:
        self.evict(kube, pod)
        assert self.is_gone(kube, pod)

    def test_a_pod_that_has_ended_is_evicted_at_once(self, kube: Kube, running: Pod) -> None:
        self.report(kube, running, phase="Succeeded")
        self.evict(kube, running)
        assert self.is_gone(kube, running)

    def test_an_eviction_waits_for_finalizers(self, kube: Kube, namespace: str) -> None:
        pod = kube.create(PODS, pod_body("b", finalizers=[STAY]), namespace=namespace)
        self.evict(kube, pod)
        leaving = self.now(kube, pod)
        assert leaving.metadata.deletion_timestamp
        assert has_condition(leaving, "DisruptionTarget")

    def test_an_eviction_marks_a_pod_that_its_user_has_deleted(self, kube: Kube, running: Pod) -> None:
        kube.delete(PODS, "a", namespace=running.metadata.namespace, grace_seconds=30)
        end = self.now(kube, running).metadata.deletion_timestamp
        self.evict(kube, running, preconditions={"uid": running.metadata.uid})
        leaving = self.now(kube, running)
        assert has_condition(leaving, "DisruptionTarget")
        assert leaving.metadata.deletion_timestamp == end

    def test_an_eviction_at_an_old_version_does_not_mark_a_pod_that_its_user_has_deleted(
        self, kube: Kube, running: Pod
    ) -> None:
        kube.delete(PODS, "a", namespace=running.metadata.namespace, grace_seconds=30)
        leaving = self.now(kube, running)
        with pytest.raises(Conflict):
            self.evict(kube, running, preconditions={"resourceVersion": running.metadata.resource_version})
        assert self.now(kube, running) == leaving

    def test_a_second_eviction_changes_nothing(self, kube: Kube, running: Pod) -> None:
        self.evict(kube, running)
        leaving = self.now(kube, running)
        self.evict(kube, running)
        assert self.now(kube, running) == leaving

    def test_a_second_eviction_can_shorten_the_grace_period(self, kube: Kube, running: Pod) -> None:
        self.evict(kube, running, gracePeriodSeconds=1000)
        self.evict(kube, running, gracePeriodSeconds=10)
        assert self.now(kube, running).metadata.deletion_grace_period_seconds == 10

    def test_a_dry_run_of_an_eviction_changes_nothing(self, kube: Kube, running: Pod) -> None:
        self.evict(kube, running, dryRun=["All"])
        assert self.now(kube, running) == running
        with pytest.raises(Conflict):
            self.evict(kube, running, dryRun=["All"], preconditions={"uid": OTHERS["uid"]})

    def test_a_missing_pod_is_not_evicted(self, kube: Kube, running: Pod) -> None:
        kube.delete(PODS, "a", namespace=running.metadata.namespace, grace_seconds=0)
        with pytest.raises(NotFound):
            self.evict(kube, running)

    def test_an_eviction_names_its_pod(self, kube: Kube, running: Pod, namespace: str) -> None:
        with pytest.raises(BadRequest, match="name in URL does not match name in Eviction object"):
            kube.create_subresource(PODS, "eviction", {}, name=running.metadata.name, namespace=namespace)

    # --- disruption budgets ----------------------------------------------------------------------------

    @pytest.mark.parametrize("options", [{}, {"dryRun": ["All"]}, {"preconditions": {"uid": OTHERS["uid"]}}])
    def test_a_budget_forbids_an_eviction(self, kube: Kube, running: Pod, options: dict[str, object]) -> None:
        self.protect(kube, running)
        before = self.now(kube, running)
        with pytest.raises(TooManyRequests, match="disruption budget") as caught:
            self.evict(kube, running, **options)
        (cause,) = caught.value.refusal.details["causes"]
        assert cause["reason"] == "DisruptionBudget"
        assert self.now(kube, running) == before

    def test_a_dry_run_asks_the_budget_and_changes_nothing(self, kube: Kube, running: Pod) -> None:
        before = self.now(kube, running)
        self.evict(kube, running, dry_run=True)
        assert self.now(kube, running) == before
        self.protect(kube, running)
        with pytest.raises(TooManyRequests, match="disruption budget"):
            self.evict(kube, running, dry_run=True)

    def test_a_pod_with_several_budgets_is_not_evicted_whatever_they_allow(
        self, kube: Kube, running: Pod
    ) -> None:
        for name in ("guard", "guard-too"):
            self.protect(kube, running, name=name)
        with pytest.raises(ServerError, match="more than one PodDisruptionBudget"):
            self.evict(kube, running)

    def test_a_budget_does_not_count_for_a_pod_that_does_not_run_yet(self, kube: Kube, pod: Pod) -> None:
        self.bind(kube, pod)
        self.protect(kube, pod)
        self.evict(kube, pod)
        assert self.now(kube, pod).metadata.deletion_timestamp

    def test_a_budget_does_not_count_for_a_pod_that_has_ended(self, kube: Kube, running: Pod) -> None:
        self.protect(kube, running)
        self.report(kube, running, phase="Failed")
        self.evict(kube, running)
        assert self.is_gone(kube, running)

    def test_a_budget_does_not_protect_a_pod_that_was_deleted(self, kube: Kube, running: Pod) -> None:
        self.protect(kube, running)
        kube.delete(PODS, "a", namespace=running.metadata.namespace, grace_seconds=30)
        self.evict(kube, running, gracePeriodSeconds=10)
        assert self.now(kube, running).metadata.deletion_grace_period_seconds == 10

    def test_a_deletion_ignores_budgets(self, kube: Kube, running: Pod) -> None:
        self.protect(kube, running)
        kube.delete(PODS, "a", namespace=running.metadata.namespace)
        assert self.now(kube, running).metadata.deletion_timestamp
