"""Patch: what merges, what is guarded, what cannot be changed."""

from typing import Any

import pytest

from cluster.kube.errors import Conflict, NotFound, Unprocessable
from cluster.kube.interface import Kube
from cluster.kube.resources import LEASES, POD_TEMPLATES, PODS, WHOLE_PODS
from cluster.objects.pods import Gate, Pod, Toleration
from tests.contracts.kube_ground import GATES, OTHERS, KubeGround, counted, pod_body, template_body

TOLERATION = {"key": "example.com/taint", "operator": "Exists"}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "x", "operator": "Exists"}]}]
        }
    }
}


class KubePatching(KubeGround):
    def test_a_patch_merges_and_null_removes(self, kube: Kube, pod: Pod) -> None:
        self.annotate(kube, pod, x="1", y="2")
        after = self.annotate(kube, pod, x=None)
        assert after.metadata.annotations == {"y": "2"}
        assert after.metadata.resource_version != pod.metadata.resource_version

    def test_removing_the_last_annotation_leaves_none(self, kube: Kube, pod: Pod) -> None:
        self.annotate(kube, pod, x="1")
        assert not self.annotate(kube, pod, x=None).metadata.annotations

    def test_a_patch_replaces_lists_whole(self, kube: Kube, pod: Pod, namespace: str) -> None:
        for finalizers in (["example.com/one", "example.com/two"], ["example.com/three"]):
            patch = {"metadata": {"finalizers": finalizers}}
            after = kube.patch(PODS, pod.metadata.name, patch, namespace=namespace)
        assert after.metadata.finalizers == ("example.com/three",)

    def test_a_patch_that_changes_nothing_is_no_write(self, kube: Kube, pod: Pod) -> None:
        assert self.annotate(kube, pod, x=None) == pod
        changed = self.annotate(kube, pod, x="1")
        assert self.annotate(kube, pod, x="1") == changed

    @pytest.mark.parametrize("key", ["uid", "resourceVersion"])
    def test_a_patch_for_another_object_is_a_conflict(
        self, kube: Kube, pod: Pod, namespace: str, key: str
    ) -> None:
        patch = {"metadata": {key: OTHERS[key], "annotations": {"x": "1"}}}
        with pytest.raises(Conflict) as caught:
            kube.patch(PODS, "a", patch, namespace=namespace)
        assert caught.value.reason != "AlreadyExists"
        assert self.now(kube, pod) == pod

    def test_a_patch_for_this_object_is_done(self, kube: Kube, pod: Pod, namespace: str) -> None:
        preconditions = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
        patch = {"metadata": {**preconditions, "annotations": {"x": "1"}}}
        assert kube.patch(PODS, "a", patch, namespace=namespace).metadata.annotation("x") == "1"

    def test_a_missing_object_is_not_patched(self, kube: Kube, namespace: str) -> None:
        with pytest.raises(NotFound):
            kube.patch(PODS, "a", {"metadata": {"annotations": {"x": "1"}}}, namespace=namespace)

    def test_a_dry_run_returns_the_patched_object_and_stores_nothing(
        self, kube: Kube, pod: Pod, namespace: str
    ) -> None:
        patch = {"metadata": {"uid": pod.metadata.uid, "annotations": {"x": "1"}}}
        would = kube.patch(PODS, pod.metadata.name, patch, namespace=namespace, dry_run=True)
        assert (would.metadata.annotation("x"), would.metadata.uid) == ("1", pod.metadata.uid)
        assert self.now(kube, pod) == pod

    def test_a_dry_run_of_a_patch_is_refused_like_the_patch(
        self, kube: Kube, pod: Pod, namespace: str
    ) -> None:
        patch = {"metadata": {"uid": OTHERS["uid"], "annotations": {"x": "1"}}}
        with pytest.raises(Conflict):
            kube.patch(PODS, pod.metadata.name, patch, namespace=namespace, dry_run=True)
        with pytest.raises(Unprocessable):
            kube.patch(PODS, "a", {"spec": {"nodeName": "n"}}, namespace=namespace, dry_run=True)
        with pytest.raises(NotFound):
            kube.patch(PODS, "b", {"metadata": {}}, namespace=namespace, dry_run=True)

    # --- status ----------------------------------------------------------------------------------------

    def test_the_status_is_written_through_its_subresource(
        self, kube: Kube, pod: Pod, namespace: str
    ) -> None:
        patch = {"status": {"message": "hello"}}
        assert kube.patch(PODS, "a", patch, namespace=namespace) == pod
        assert self.report(kube, pod, message="hello").status.message == "hello"

    def test_the_status_subresource_does_not_change_the_spec(
        self, kube: Kube, pod: Pod, namespace: str
    ) -> None:
        patch = {"status": {"message": "hello"}, "spec": {"activeDeadlineSeconds": 5, "nodeName": "n"}}
        after = kube.patch(PODS, "a", patch, namespace=namespace, subresource="status")
        assert (after.status.message, after.spec) == ("hello", pod.spec)

    def test_the_status_subresource_of_a_pod_changes_annotations(
        self, kube: Kube, pod: Pod, namespace: str
    ) -> None:
        patch = {"metadata": {"annotations": {"x": "1"}}}
        after = kube.patch(PODS, pod.metadata.name, patch, namespace=namespace, subresource="status")
        assert after.metadata.annotation("x") == "1"

    def test_a_patch_of_the_status_checks_the_resource_version(
        self, kube: Kube, pod: Pod, namespace: str
    ) -> None:
        patch = {"metadata": {"resourceVersion": "1"}, "status": {"message": "hello"}}
        with pytest.raises(Conflict):
            kube.patch(PODS, "a", patch, namespace=namespace, subresource="status")
        assert self.now(kube, pod) == pod

    def test_an_object_without_a_status_has_no_status_subresource(self, kube: Kube, namespace: str) -> None:
        kube.create(LEASES, {"metadata": {"name": "l"}}, namespace=namespace)
        with pytest.raises(NotFound):
            kube.patch(LEASES, "l", {"status": {}}, namespace=namespace, subresource="status")

    # --- generation ------------------------------------------------------------------------------------

    def generation(self, kube: Kube, namespace: str) -> int | None:
        return kube.get(counted(PODS), "a", namespace=namespace).metadata.generation

    def test_generation_counts_changes_of_the_spec(self, kube: Kube, pod: Pod, namespace: str) -> None:
        kube.patch(PODS, "a", {"spec": {"activeDeadlineSeconds": 5}}, namespace=namespace)
        assert self.generation(kube, namespace) == 2
        self.annotate(kube, pod, x="1")
        self.report(kube, pod, message="hello")
        assert self.generation(kube, namespace) == 2

    def test_a_binding_is_not_counted_and_a_deletion_is(self, kube: Kube, pod: Pod, namespace: str) -> None:
        self.bind(kube, pod)
        assert self.generation(kube, namespace) == 1
        kube.delete(PODS, "a", namespace=namespace)
        assert self.generation(kube, namespace) == 2

    def test_clients_cannot_set_a_generation(self, kube: Kube, pod: Pod, namespace: str) -> None:
        kube.patch(PODS, pod.metadata.name, {"metadata": {"generation": 7}}, namespace=namespace)
        assert self.generation(kube, namespace) == 1

    def test_generation_counts_changes_of_a_template(self, kube: Kube, namespace: str) -> None:
        kind = counted(POD_TEMPLATES)
        kube.create(kind, template_body("t"), namespace=namespace)
        labelled = kube.patch(kind, "t", {"metadata": {"labels": {"x": "1"}}}, namespace=namespace)
        changed = {"template": {"metadata": {"labels": {"x": "1"}}}}
        after = kube.patch(kind, "t", changed, namespace=namespace)
        assert (labelled.metadata.generation, after.metadata.generation) == (1, 2)


class KubeImmutable(KubeGround):
    @pytest.mark.parametrize(
        "spec",
        [
            {"nodeName": "n"},
            {"priority": 5},
            {"priorityClassName": "system-node-critical"},
            {"schedulerName": "another"},
            {"nodeSelector": {"x": "1"}},
            {"affinity": AFFINITY},
            {"terminationGracePeriodSeconds": 5},
            {"schedulingGates": GATES},
            {"restartPolicy": "Never"},
            {"containers": [{"name": "other", "image": "example.invalid/none"}]},
            {"containers": [{"name": "main", "image": "i", "env": [{"name": "X", "value": "1"}]}]},
            {
                "containers": [
                    {"name": "main", "image": "i", "resources": {"limits": {"example.com/gpu": "1"}}}
                ]
            },
        ],
        ids="-".join,
    )
    def test_the_spec_of_a_pod_is_immutable(
        self, kube: Kube, pod: Pod, namespace: str, spec: dict[str, Any]
    ) -> None:
        with pytest.raises(Unprocessable):
            kube.patch(PODS, "a", {"spec": spec}, namespace=namespace)
        assert self.now(kube, pod) == pod

    def test_one_refused_change_refuses_the_whole_patch(self, kube: Kube, pod: Pod, namespace: str) -> None:
        patch = {"metadata": {"annotations": {"x": "1"}}, "spec": {"nodeName": "n"}}
        with pytest.raises(Unprocessable):
            kube.patch(PODS, "a", patch, namespace=namespace)
        assert self.now(kube, pod) == pod

    def test_a_pod_can_be_given_a_deadline_and_a_shorter_one(
        self, kube: Kube, pod: Pod, namespace: str
    ) -> None:
        def set_to(seconds: int | None) -> None:
            patch = {"spec": {"activeDeadlineSeconds": seconds}}
            kube.patch(PODS, pod.metadata.name, patch, namespace=namespace)

        set_to(10)
        set_to(5)
        for longer in (6, None):
            with pytest.raises(Unprocessable):
                set_to(longer)

    def test_tolerations_can_be_added_and_not_removed(self, kube: Kube, pod: Pod, namespace: str) -> None:
        own = kube.get(WHOLE_PODS, pod.metadata.name, namespace=namespace).spec.get("tolerations") or []
        more = {"spec": {"tolerations": [*own, TOLERATION]}}
        after = kube.patch(PODS, "a", more, namespace=namespace)
        assert Toleration(key="example.com/taint", operator="Exists") in (after.spec.tolerations or ())
        with pytest.raises(Unprocessable):
            kube.patch(PODS, "a", {"spec": {"tolerations": own}}, namespace=namespace)

    def test_an_image_can_be_changed(self, kube: Kube, pod: Pod, namespace: str) -> None:
        container = {"name": "main", "image": "example.invalid/other"}
        after = kube.patch(PODS, "a", {"spec": {"containers": [container]}}, namespace=namespace)
        assert after.metadata.resource_version != pod.metadata.resource_version

    # --- gates -----------------------------------------------------------------------------------------

    @pytest.fixture
    def gated(self, kube: Kube, namespace: str) -> Pod:
        spec = {"schedulingGates": GATES, "nodeSelector": {"x": "1"}, "affinity": AFFINITY}
        return kube.create(PODS, pod_body("gated", spec=spec), namespace=namespace)

    def change(self, kube: Kube, pod: Pod, **spec: Any) -> Pod:
        return kube.patch(PODS, pod.metadata.name, {"spec": spec}, namespace=pod.metadata.namespace)

    def test_gates_can_be_removed(self, kube: Kube, gated: Pod) -> None:
        assert gated.spec.scheduling_gates == (Gate(name=GATES[0]["name"]),)
        assert not self.change(kube, gated, schedulingGates=None).spec.scheduling_gates

    def test_no_gate_can_be_added(self, kube: Kube, gated: Pod) -> None:
        with pytest.raises(Unprocessable, match="only deletion is allowed"):
            self.change(kube, gated, schedulingGates=[*GATES, {"name": "example.com/another"}])

    def test_a_gated_pod_can_be_bound_to_fewer_nodes(self, kube: Kube, gated: Pod) -> None:
        assert self.change(kube, gated, nodeSelector={"y": "2"}).spec.node_selector == {"x": "1", "y": "2"}

    @pytest.mark.parametrize("value", ["2", None])
    def test_a_gated_pod_is_not_bound_to_other_nodes(self, kube: Kube, gated: Pod, value: str | None) -> None:
        with pytest.raises(Unprocessable, match="only additions"):
            self.change(kube, gated, nodeSelector={"x": value})

    @pytest.mark.parametrize("keys", [["x", "y"], ["y"], []])
    def test_the_affinity_of_a_gated_pod_only_grows(self, kube: Kube, gated: Pod, keys: list[str]) -> None:
        terms = [{"matchExpressions": [{"key": key, "operator": "Exists"} for key in keys]}] if keys else []
        required = {"nodeSelectorTerms": terms} if terms else None
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        if keys == ["x", "y"]:
            assert self.change(kube, gated, affinity=affinity).spec.affinity
            return
        with pytest.raises(Unprocessable):
            self.change(kube, gated, affinity=affinity)

    def test_the_rest_of_a_gated_pods_spec_is_immutable(self, kube: Kube, gated: Pod) -> None:
        with pytest.raises(Unprocessable):
            self.change(kube, gated, priority=5)
