"""Creation: what is filled in, what is refused, what a dry run says."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from cluster import names
from cluster.fake.clock import eventually
from cluster.kube.errors import BadRequest, Conflict, Forbidden, NotFound, ServerError, Unprocessable
from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import LEASES, LIMIT_RANGES, POD_TEMPLATES, PODS, WHOLE_PODS
from cluster.objects.limit_ranges import Part, filled_in, gpu_defaults
from cluster.objects.pods import Pod
from tests.contracts.kube_ground import (
    GATES,
    IMPORTANT,
    OTHERS,
    PRIORITY_CLASSES,
    KubeGround,
    PriorityClass,
    counted,
    pod_body,
    template_body,
)

LIMITED = f"{names.MIG_RESOURCE_PREFIX}1g.10gb"
"""A resource that no other test of the contract asks for."""


class KubeCreating(KubeGround):
    def test_versions_are_one_sequence_over_all_kinds(self, kube: Kube, namespace: str) -> None:
        pod = kube.create(PODS, pod_body("a"), namespace=namespace)
        lease = kube.create(LEASES, {"metadata": {"name": "l"}}, namespace=namespace)
        later = self.annotate(kube, pod, x="1")
        template = kube.create(POD_TEMPLATES, template_body("t"), namespace=namespace)
        versions = [int(obj.metadata.resource_version) for obj in (pod, lease, later, template)]
        assert versions == sorted(set(versions))

    # --- what is filled in -----------------------------------------------------------------------------

    def test_a_new_pod_is_given_defaults(self, kube: Kube, namespace: str) -> None:
        body = pod_body("a")
        del body["spec"]["schedulerName"]
        body["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "1"}}
        pod = kube.create(PODS, body, namespace=namespace)
        assert pod.spec.scheduler_name == "default-scheduler"
        assert pod.spec.termination_grace_period_seconds == 30
        assert pod.spec.priority == 0
        resources = (pod.spec.containers or ())[0].resources
        assert resources
        assert resources.requests == {"example.com/gpu": "1"}

    def test_a_new_pod_is_pending_whatever_its_status_says(self, kube: Kube, namespace: str) -> None:
        body = {**pod_body("a"), "status": {"phase": "Running", "message": "hello"}}
        pod = kube.create(PODS, body, namespace=namespace)
        assert (pod.status.phase, pod.status.message) == ("Pending", None)

    def test_a_gated_pod_has_the_reason_scheduling_gated(self, kube: Kube, namespace: str) -> None:
        pod = kube.create(PODS, pod_body("a", spec={"schedulingGates": GATES}), namespace=namespace)
        (condition,) = pod.status.conditions or ()
        assert (condition.type, condition.status, condition.reason) == (
            "PodScheduled",
            "False",
            "SchedulingGated",
        )

    def test_clients_cannot_set_what_the_server_sets(self, kube: Kube, namespace: str) -> None:
        chosen = {
            "uid": OTHERS["uid"],
            "creationTimestamp": "2001-02-03T04:05:06Z",
            "deletionTimestamp": "2001-02-03T04:05:06Z",
        }
        meta = kube.create(PODS, pod_body("a", **chosen), namespace=namespace).metadata
        assert meta.uid != OTHERS["uid"]
        assert meta.creation_timestamp
        assert meta.creation_timestamp.year > 2001
        assert meta.deletion_timestamp is None

    @pytest.mark.parametrize("resource", [PODS, POD_TEMPLATES], ids=lambda kind: kind.kind)
    def test_generation_begins_with_one(self, kube: Kube, namespace: str, resource: object) -> None:
        bodies = {"Pod": pod_body("a"), "PodTemplate": template_body("a")}
        kind = counted(PODS if resource is PODS else POD_TEMPLATES)
        assert kube.create(kind, bodies[kind.kind], namespace=namespace).metadata.generation == 1

    # --- names -----------------------------------------------------------------------------------------

    def test_a_name_is_given_once(self, kube: Kube, pod: Pod, namespace: str) -> None:
        with pytest.raises(Conflict, match=r'pods "a" already exists') as caught:
            kube.create(PODS, pod_body(pod.metadata.name), namespace=namespace)
        assert caught.value.reason == "AlreadyExists"

    def test_a_name_is_taken_as_long_as_its_pod_is_there(self, kube: Kube, namespace: str) -> None:
        kube.create(PODS, pod_body("a", finalizers=["example.com/stay"]), namespace=namespace)
        kube.delete(PODS, "a", namespace=namespace)
        with pytest.raises(Conflict, match="object is being deleted") as caught:
            kube.create(PODS, pod_body("a"), namespace=namespace)
        assert caught.value.reason == "AlreadyExists"

    def test_a_name_is_generated_from_the_requested_prefix(self, kube: Kube, namespace: str) -> None:
        made = [
            kube.create(PODS, pod_body("", generateName="a-"), namespace=namespace).metadata.name
            for _ in range(2)
        ]
        assert len(set(made)) == 2
        assert all(name.startswith("a-") and len(name) == len("a-") + 5 for name in made)

    def test_a_long_prefix_is_cut(self, kube: Kube, namespace: str) -> None:
        body = pod_body("", generateName="a" * 70)
        name = kube.create(PODS, body, namespace=namespace).metadata.name
        assert len(name) == 63
        assert name.startswith("a" * 58)

    def test_a_given_name_wins_over_a_prefix(self, kube: Kube, namespace: str) -> None:
        body = pod_body("a", generateName="b-")
        assert kube.create(PODS, body, namespace=namespace).metadata.name == "a"

    def test_nothing_is_created_without_a_name(self, kube: Kube, namespace: str) -> None:
        with pytest.raises(Unprocessable, match="name or generateName is required"):
            kube.create(PODS, pod_body(""), namespace=namespace)

    def test_nothing_is_created_in_a_missing_namespace(self, kube: Kube) -> None:
        with pytest.raises(NotFound, match='namespaces "no-such-namespace" not found'):
            kube.create(PODS, pod_body("a"), namespace="no-such-namespace")

    def test_nothing_is_created_in_two_namespaces(self, kube: Kube, namespace: str) -> None:
        with pytest.raises(BadRequest, match="namespace"):
            kube.create(PODS, pod_body("a", namespace="another"), namespace=namespace)

    def test_nothing_is_created_with_a_resource_version(self, kube: Kube, namespace: str) -> None:
        with pytest.raises(ServerError, match="resourceVersion should not be set"):
            kube.create(PODS, pod_body("a", resourceVersion="1"), namespace=namespace)

    # --- priority --------------------------------------------------------------------------------------

    @pytest.fixture
    def important(self, kube: Kube, namespace: str) -> PriorityClass:
        """A class that admission knows: it reads classes by a watch, which may be late."""
        made = kube.create(PRIORITY_CLASSES, {"metadata": {"generateName": IMPORTANT}, "value": 1000})
        body = pod_body("asks", spec={"priorityClassName": made.metadata.name})

        def is_known() -> bool:
            try:
                kube.create(PODS, body, namespace=namespace, dry_run=True)
            except Forbidden:
                return False
            return True

        eventually(is_known, deadline=60)
        return made

    def test_a_priority_is_that_of_the_class(
        self, kube: Kube, namespace: str, important: PriorityClass
    ) -> None:
        name = important.metadata.name
        pod = kube.create(PODS, pod_body("a", spec={"priorityClassName": name}), namespace=namespace)
        assert (pod.spec.priority_class_name, pod.spec.priority) == (name, 1000)

    def test_a_priority_that_differs_from_the_class_is_refused(
        self, kube: Kube, namespace: str, important: PriorityClass
    ) -> None:
        spec = {"priorityClassName": important.metadata.name, "priority": 1}
        with pytest.raises(Forbidden, match="the integer value of priority"):
            kube.create(PODS, pod_body("a", spec=spec), namespace=namespace)

    @pytest.mark.usefixtures("important")
    def test_a_missing_class_is_refused(self, kube: Kube, namespace: str) -> None:
        with pytest.raises(Forbidden, match="no PriorityClass with name no-such-class was found"):
            kube.create(PODS, pod_body("a", spec={"priorityClassName": "no-such-class"}), namespace=namespace)

    # --- amounts and selectors that are filled in -------------------------------------------------------

    @pytest.fixture
    def limited(self, kube: Kube, namespace: str) -> Iterator[None]:
        """A LimitRange with a maximum and no default, while admission knows it: it reads them by a watch."""
        limit = {"type": "Container", "max": {LIMITED: "2"}}
        body = {"metadata": {"name": "limits"}, "spec": {"limits": [limit]}}
        made = kube.create(LIMIT_RANGES, body, namespace=namespace)
        assert gpu_defaults([made]) == {LIMITED}

        def is_known() -> bool:
            pod = kube.create(PODS, pod_body("asks"), namespace=namespace, dry_run=True)
            return names.LIMIT_RANGER in (pod.metadata.annotations or {})

        eventually(is_known, deadline=60)
        yield
        kube.delete(LIMIT_RANGES, "limits", namespace=namespace)
        eventually(lambda: not is_known(), deadline=60)

    @pytest.mark.usefixtures("limited")
    def test_a_limit_range_gives_its_maximum_to_containers_that_name_none(
        self, kube: Kube, namespace: str
    ) -> None:
        containers = [
            {"name": "none", "image": "x"},
            {"name": "zero", "image": "x", "resources": {"limits": {LIMITED: "0"}}},
            {"name": "one", "image": "x", "resources": {"limits": {LIMITED: "1"}}},
        ]
        spec = {"containers": containers, "initContainers": [{"name": "setup", "image": "x"}]}
        pod = kube.create(PODS, pod_body("a", spec=spec), namespace=namespace)
        all_of_them = (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))
        amounts = [one.resources and (one.resources.requests, one.resources.limits) for one in all_of_them]
        assert amounts == [({LIMITED: amount}, {LIMITED: amount}) for amount in ("2", "2", "0", "1")]
        both: dict[Part, frozenset[str]] = {"limits": frozenset({LIMITED}), "requests": frozenset({LIMITED})}
        recorded = filled_in(pod.metadata.annotations or {})
        assert recorded == {("containers", "none"): both, ("initContainers", "setup"): both}

    @pytest.mark.usefixtures("limited")
    def test_more_than_a_limit_range_allows_is_refused(self, kube: Kube, namespace: str) -> None:
        container = {"name": "main", "image": "x", "resources": {"limits": {LIMITED: "3"}}}
        with pytest.raises(Forbidden, match=f"maximum {LIMITED} usage per Container is 2, but limit is 3"):
            kube.create(PODS, pod_body("a", spec={"containers": [container]}), namespace=namespace)

    @pytest.mark.parametrize("where", ["topologySpreadConstraints", "podAntiAffinity"])
    def test_label_keys_are_added_to_their_selectors_and_refused_when_they_are_sent_again(
        self, kube: Kube, namespace: str, where: str
    ) -> None:
        selector = {"matchLabels": {"app": "x"}}
        term: dict[str, Any] = {"topologyKey": "zone", "labelSelector": selector, "matchLabelKeys": ["hash"]}
        spread = [{**term, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        spec = {"affinity": apart} if where == "podAntiAffinity" else {where: spread}
        labels = {"hash": "1"}
        kube.create(PODS, pod_body("a", spec=spec, labels=labels), namespace=namespace)
        stored = kube.get(WHOLE_PODS, "a", namespace=namespace).spec
        again = {key: stored[key] for key in spec}
        added = '"matchExpressions":[{"key":"hash","operator":"In","values":["1"]}]'
        assert added.encode() in msgspec.json.encode(again, order="sorted")
        with pytest.raises(Unprocessable, match="exists in both matchLabelKeys and labelSelector"):
            kube.create(PODS, pod_body("b", spec=again, labels=labels), namespace=namespace)

    # --- dry run ---------------------------------------------------------------------------------------

    def test_a_dry_run_stores_nothing(self, kube: Kube, namespace: str) -> None:
        made = kube.create(PODS, pod_body("", generateName="a-"), namespace=namespace, dry_run=True)
        assert made.metadata.name.startswith("a-")
        assert made.metadata.uid
        assert made.status.phase == "Pending"
        assert kube.list(PODS, Selection(namespace=namespace)).items == ()

    def test_a_dry_run_has_no_version(self, kube: Kube, namespace: str) -> None:
        made = kube.create(PODS, pod_body("a"), namespace=namespace, dry_run=True)
        assert made.metadata.resource_version == ""

    def test_a_dry_run_reports_that_a_name_is_taken(self, kube: Kube, pod: Pod, namespace: str) -> None:
        with pytest.raises(Conflict) as caught:
            kube.create(PODS, pod_body(pod.metadata.name), namespace=namespace, dry_run=True)
        assert caught.value.reason == "AlreadyExists"

    def test_a_dry_run_is_refused_like_a_creation(self, kube: Kube) -> None:
        with pytest.raises(NotFound):
            kube.create(PODS, pod_body("a"), namespace="no-such-namespace", dry_run=True)

    def test_an_object_that_is_read_whole_can_be_created_again(
        self, kube: Kube, pod: Pod, namespace: str
    ) -> None:
        whole = kube.get(WHOLE_PODS, pod.metadata.name, namespace=namespace)
        body = {"metadata": {"name": "b"}, "spec": whole.spec}
        assert kube.create(PODS, body, namespace=namespace).spec == pod.spec
