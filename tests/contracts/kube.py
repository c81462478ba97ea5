"""What everybody who asks an API server may rely on: the same tests for the real one and for the fake.

A subclass gives the fixtures ``kube`` and ``namespace``; objects are its business to clean up.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from cluster.kube.errors import Conflict, NotFound
from cluster.kube.port import INITIAL_EVENTS_END, Kube, Selection, WatchEvent, WatchOptions
from cluster.kube.resources import LEASES, PODS
from cluster.objects.pods import Pod


def pod_body(name: str, **metadata: Any) -> dict[str, Any]:
    """A pod that no scheduler takes."""
    container = {"name": "main", "image": "example.invalid/none"}
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"schedulerName": "nobody", "containers": [container]},
    }


class KubeContract:
    """The contract."""

    @pytest.fixture
    def kube(self) -> Kube:
        raise NotImplementedError

    @pytest.fixture
    def namespace(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def pod(self, kube: Kube, namespace: str) -> Pod:
        return kube.create(PODS, pod_body("a"), namespace=namespace)

    def bind(self, kube: Kube, pod: Pod, **metadata: Any) -> None:
        body = {"metadata": {"name": "a", **metadata}, "target": {"kind": "Node", "name": "nowhere"}}
        namespace = pod.metadata.namespace
        kube.create_subresource(PODS, "binding", body, name="a", namespace=namespace)

    # --- reading ---------------------------------------------------------------------------------------

    def test_what_is_not_there_is_not_found(self, kube: Kube, namespace: str) -> None:
        with pytest.raises(NotFound):
            kube.get(PODS, "a", namespace=namespace)

    def test_what_was_created_can_be_read(self, kube: Kube, pod: Pod, namespace: str) -> None:
        assert kube.get(PODS, "a", namespace=namespace) == pod
        assert pod.metadata.uid
        assert pod.metadata.resource_version
        assert pod.metadata.namespace == namespace

    def test_a_list_comes_in_pages(self, kube: Kube, namespace: str) -> None:
        for name in "abc":
            kube.create(PODS, pod_body(name), namespace=namespace)
        selection = Selection(namespace=namespace)
        first = kube.list(PODS, selection, limit=2)
        rest = kube.list(PODS, selection, limit=2, continue_=first.continue_)
        assert [pod.metadata.name for pod in first.items + rest.items] == ["a", "b", "c"]
        assert rest.continue_ is None

    def test_fields_and_labels_select(self, kube: Kube, namespace: str) -> None:
        kube.create(PODS, pod_body("a", labels={"x": "1"}), namespace=namespace)
        kube.create(PODS, pod_body("b", labels={"x": "2"}), namespace=namespace)
        self.bind(kube, kube.get(PODS, "a", namespace=namespace))

        def names(**selection: str) -> list[str]:
            page = kube.list(PODS, Selection(namespace=namespace, **selection))
            return [pod.metadata.name for pod in page.items]

        assert names(field_selector="spec.nodeName=nowhere") == ["a"]
        assert names(field_selector="spec.nodeName=") == ["b"]
        assert names(field_selector="status.phase!=Succeeded,status.phase!=Failed") == ["a", "b"]
        assert names(label_selector="x=2") == ["b"]

    # --- writing ---------------------------------------------------------------------------------------

    def test_a_name_is_given_once(self, kube: Kube, pod: Pod, namespace: str) -> None:
        with pytest.raises(Conflict) as caught:
            kube.create(PODS, pod_body(pod.metadata.name), namespace=namespace)
        assert caught.value.already_exists

    def test_a_patch_merges_and_null_removes(self, kube: Kube, pod: Pod, namespace: str) -> None:
        kube.patch(PODS, "a", {"metadata": {"annotations": {"x": "1", "y": "2"}}}, namespace=namespace)
        after = kube.patch(PODS, "a", {"metadata": {"annotations": {"x": None}}}, namespace=namespace)
        assert after.metadata.annotations == {"y": "2"}
        assert after.metadata.resource_version != pod.metadata.resource_version

    def test_a_patch_that_changes_nothing_is_no_write(self, kube: Kube, pod: Pod, namespace: str) -> None:
        after = kube.patch(PODS, "a", {"metadata": {"annotations": {"x": None}}}, namespace=namespace)
        assert after.metadata.resource_version == pod.metadata.resource_version

    @pytest.mark.parametrize("key", ["uid", "resourceVersion"])
    def test_a_patch_for_another_object_is_a_conflict(
        self, kube: Kube, pod: Pod, namespace: str, key: str
    ) -> None:
        other = {"uid": "11111111-2222-3333-4444-555555555555", "resourceVersion": "1"}
        patch = {"metadata": {key: other[key], "annotations": {"x": "1"}}}
        with pytest.raises(Conflict):
            kube.patch(PODS, "a", patch, namespace=namespace)
        assert kube.get(PODS, "a", namespace=namespace) == pod

    def test_the_status_has_its_own_door(self, kube: Kube, pod: Pod, namespace: str) -> None:
        patch = {"status": {"message": "hello"}}
        assert kube.patch(PODS, "a", patch, namespace=namespace) == pod
        after = kube.patch(PODS, "a", patch, namespace=namespace, subresource="status")
        assert after.status.message == "hello"

    def test_a_replacement_is_a_compare_and_swap(self, kube: Kube, namespace: str) -> None:
        lease = kube.create(LEASES, {"metadata": {"name": "l"}}, namespace=namespace)
        version = lease.metadata.resource_version
        body = {
            "metadata": {"name": "l", "resourceVersion": version},
            "spec": {"holderIdentity": "me", "renewTime": "2026-03-02T09:00:00.000000Z"},
        }
        assert kube.replace(LEASES, "l", body, namespace=namespace).spec.holder_identity == "me"
        with pytest.raises(Conflict):
            kube.replace(LEASES, "l", body, namespace=namespace)

    def test_only_the_object_that_is_meant_is_deleted(self, kube: Kube, pod: Pod, namespace: str) -> None:
        with pytest.raises(Conflict):
            kube.delete(PODS, "a", namespace=namespace, uid="11111111-2222-3333-4444-555555555555")
        kube.delete(PODS, "a", namespace=namespace, uid=pod.metadata.uid, grace_seconds=0)
        with pytest.raises(NotFound):
            kube.get(PODS, "a", namespace=namespace)

    # --- binding ---------------------------------------------------------------------------------------

    def test_a_binding_writes_node_and_annotations_at_once(
        self, kube: Kube, pod: Pod, namespace: str
    ) -> None:
        metadata = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
        self.bind(kube, pod, annotations={"x": "1"}, **metadata)
        bound = kube.get(PODS, "a", namespace=namespace)
        assert (bound.spec.node_name, bound.metadata.annotation("x")) == ("nowhere", "1")

    def test_a_pod_is_bound_once(self, kube: Kube, pod: Pod) -> None:
        self.bind(kube, pod)
        with pytest.raises(Conflict, match="already assigned to node"):
            self.bind(kube, pod)

    @pytest.mark.parametrize("key", ["uid", "resourceVersion"])
    def test_a_binding_for_another_pod_is_a_conflict(
        self, kube: Kube, pod: Pod, namespace: str, key: str
    ) -> None:
        other = {"uid": "11111111-2222-3333-4444-555555555555", "resourceVersion": "1"}
        with pytest.raises(Conflict):
            self.bind(kube, pod, **{key: other[key]})
        assert kube.get(PODS, "a", namespace=namespace).spec.node_name is None

    def test_a_bound_pod_ends_slowly(self, kube: Kube, pod: Pod, namespace: str) -> None:
        self.bind(kube, pod)
        kube.delete(PODS, "a", namespace=namespace, grace_seconds=30)
        assert kube.get(PODS, "a", namespace=namespace).metadata.deletion_timestamp is not None

    # --- watching --------------------------------------------------------------------------------------

    def test_a_watch_goes_on_from_a_list(self, kube: Kube, namespace: str) -> None:
        selection = Selection(namespace=namespace)
        version = kube.list(PODS, selection).resource_version
        kube.create(PODS, pod_body("a"), namespace=namespace)
        kube.patch(PODS, "a", {"metadata": {"annotations": {"x": "1"}}}, namespace=namespace)
        kube.delete(PODS, "a", namespace=namespace, grace_seconds=0)
        seen = self.changes(kube, selection, WatchOptions(resource_version=version), 4)
        assert [event.type for event in seen] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
        assert seen[2].object.metadata.deletion_timestamp
        versions = [int(event.object.metadata.resource_version) for event in seen]
        assert versions == sorted(set(versions))

    def test_what_leaves_the_selection_is_deleted_for_it(self, kube: Kube, pod: Pod, namespace: str) -> None:
        selection = Selection(namespace=namespace, field_selector="spec.nodeName=")
        version = kube.list(PODS, selection).resource_version
        self.bind(kube, pod)
        (event,) = self.changes(kube, selection, WatchOptions(resource_version=version), 1)
        assert (event.type, event.object.metadata.name) == ("DELETED", "a")

    def test_a_streamed_list_ends_with_a_marked_bookmark(self, kube: Kube, pod: Pod, namespace: str) -> None:
        options = WatchOptions(initial_events=True)
        first, last = self.changes(kube, Selection(namespace=namespace), options, 2)
        assert (first.type, first.object) == ("ADDED", pod)
        assert (last.type, last.object.metadata.annotation(INITIAL_EVENTS_END)) == ("BOOKMARK", "true")

    def changes(
        self, kube: Kube, selection: Selection, options: WatchOptions, count: int
    ) -> list[WatchEvent[Pod]]:
        watch = kube.watch(PODS, selection, options)
        try:
            events: Iterator[WatchEvent[Pod]] = iter(watch)
            return [next(events) for _ in range(count)]
        finally:
            watch.close()
