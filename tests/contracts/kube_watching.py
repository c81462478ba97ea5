"""Watching: from where, what comes in which order, and how objects enter and leave a selection."""

import pytest

from cluster.kube.errors import BadRequest, Gone
from cluster.kube.interface import INITIAL_EVENTS_END, Kube, Selection, WatchEvent, WatchOptions
from cluster.kube.resources import LEASES, PODS
from cluster.objects.pods import Pod
from tests.contracts.kube_ground import KubeGround, pod_body


def named(events: list[WatchEvent[Pod]]) -> list[tuple[str, str]]:
    return [(event.type, event.object.metadata.name) for event in events]


class KubeWatching(KubeGround):
    def since_now(self, kube: Kube, namespace: str) -> WatchOptions:
        return WatchOptions(resource_version=kube.list(PODS, Selection(namespace=namespace)).resource_version)

    def test_a_watch_continues_from_a_list(self, kube: Kube, namespace: str) -> None:
        since = self.since_now(kube, namespace)
        kube.create(PODS, pod_body("a"), namespace=namespace)
        kube.patch(PODS, "a", {"metadata": {"annotations": {"x": "1"}}}, namespace=namespace)
        kube.delete(PODS, "a", namespace=namespace, grace_seconds=0)
        seen = self.changes(kube, Selection(namespace=namespace), since, 4)
        assert [event.type for event in seen] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
        assert seen[2].object.metadata.deletion_timestamp

    def test_versions_rise_from_event_to_event(self, kube: Kube, namespace: str) -> None:
        since = self.since_now(kube, namespace)
        a = kube.create(PODS, pod_body("a"), namespace=namespace)
        kube.create(PODS, pod_body("b"), namespace=namespace)
        self.annotate(kube, a, x="1")
        kube.delete(PODS, "b", namespace=namespace)
        seen = self.changes(kube, Selection(namespace=namespace), since, 5)
        versions = [int(event.object.metadata.resource_version) for event in seen]
        assert versions == sorted(set(versions))
        assert versions[0] > int(since.resource_version or 0)

    def test_a_watch_from_a_write_shows_what_came_after_it(
        self, kube: Kube, pod: Pod, namespace: str
    ) -> None:
        self.annotate(kube, pod, x="1")
        since = WatchOptions(resource_version=pod.metadata.resource_version)
        (event,) = self.changes(kube, Selection(namespace=namespace), since, 1)
        assert (event.type, event.object.metadata.annotation("x")) == ("MODIFIED", "1")

    def test_writes_of_other_kinds_are_no_events(self, kube: Kube, namespace: str) -> None:
        since = self.since_now(kube, namespace)
        kube.create(LEASES, {"metadata": {"name": "l"}}, namespace=namespace)
        kube.create(PODS, pod_body("a"), namespace=namespace)
        (event,) = self.changes(kube, Selection(namespace=namespace), since, 1)
        assert (event.type, event.object.metadata.name) == ("ADDED", "a")

    def test_a_write_that_changes_nothing_is_no_event(self, kube: Kube, pod: Pod, namespace: str) -> None:
        since = self.since_now(kube, namespace)
        self.annotate(kube, pod, x=None)
        self.annotate(kube, pod, x="1")
        (event,) = self.changes(kube, Selection(namespace=namespace), since, 1)
        assert event.object.metadata.annotation("x") == "1"

    # --- the present first -----------------------------------------------------------------------------

    def test_a_watch_without_a_version_begins_with_the_existing_objects(
        self, kube: Kube, pod: Pod, namespace: str
    ) -> None:
        watch = kube.watch(PODS, Selection(namespace=namespace))
        try:
            objects = (event for event in watch if event.type != "BOOKMARK")  # those come when they come
            first = next(objects)
            kube.create(PODS, pod_body("b"), namespace=namespace)
            assert named([first, next(objects)]) == [("ADDED", "a"), ("ADDED", "b")]
            assert first.object == pod
        finally:
            watch.close()

    def test_a_streamed_list_ends_with_a_marked_bookmark(self, kube: Kube, pod: Pod, namespace: str) -> None:
        options = WatchOptions(initial_events=True)
        first, last = self.changes(kube, Selection(namespace=namespace), options, 2)
        assert (first.type, first.object) == ("ADDED", pod)
        assert (last.type, last.object.metadata.annotation(INITIAL_EVENTS_END)) == ("BOOKMARK", "true")
        assert int(last.object.metadata.resource_version) >= int(pod.metadata.resource_version)

    def test_a_streamed_list_of_nothing_is_a_bookmark(self, kube: Kube, namespace: str) -> None:
        options = WatchOptions(initial_events=True)
        (only,) = self.changes(kube, Selection(namespace=namespace), options, 1)
        assert only.type == "BOOKMARK"

    def test_a_watch_continues_from_the_bookmark(self, kube: Kube, pod: Pod, namespace: str) -> None:
        options = WatchOptions(initial_events=True)
        _, bookmark = self.changes(kube, Selection(namespace=namespace), options, 2)
        self.annotate(kube, pod, x="1")
        since = WatchOptions(resource_version=bookmark.object.metadata.resource_version)
        (event,) = self.changes(kube, Selection(namespace=namespace), since, 1)
        assert named([event]) == [("MODIFIED", "a")]

    def test_a_bookmark_leads_past_events_that_are_not_selected(self, kube: Kube, namespace: str) -> None:
        since = self.since_now(kube, namespace)
        # The real server sends one shortly before it ends a watch by its time.
        options = WatchOptions(resource_version=since.resource_version, timeout_seconds=5)
        watch = kube.watch(PODS, Selection(namespace=namespace, label_selector="x"), options)
        try:
            other = kube.create(PODS, pod_body("a"), namespace=namespace)
            self.pass_a_minute(kube)
            event = next(iter(watch))
        finally:
            watch.close()
        assert named([event]) == [("BOOKMARK", "")]
        assert int(event.object.metadata.resource_version) >= int(other.metadata.resource_version)
        assert event.object.metadata.annotation(INITIAL_EVENTS_END) is None

    # --- selections ------------------------------------------------------------------------------------

    def test_an_object_that_leaves_the_selection_is_reported_as_deleted(
        self, kube: Kube, pod: Pod, namespace: str
    ) -> None:
        since = self.since_now(kube, namespace)
        bound = self.bind(kube, pod)
        selection = Selection(namespace=namespace, field_selector="spec.nodeName=")
        (event,) = self.changes(kube, selection, since, 1)
        assert named([event]) == [("DELETED", "a")]
        assert event.object.spec.node_name is None  # its last state that was selected ...
        assert (
            event.object.metadata.resource_version == bound.metadata.resource_version
        )  # ... at that instant

    def test_an_object_that_enters_the_selection_is_reported_as_added(
        self, kube: Kube, pod: Pod, namespace: str
    ) -> None:
        since = self.since_now(kube, namespace)
        for value in ("1", "2", "1"):
            kube.patch(PODS, "a", {"metadata": {"labels": {"x": value}}}, namespace=namespace)
        selection = Selection(namespace=namespace, label_selector="x=1")
        seen = self.changes(kube, selection, since, 3)
        assert [event.type for event in seen] == ["ADDED", "DELETED", "ADDED"]
        assert {event.object.metadata.uid for event in seen} == {pod.metadata.uid}

    def test_an_object_that_was_never_selected_is_no_event(
        self, kube: Kube, pod: Pod, namespace: str
    ) -> None:
        since = self.since_now(kube, namespace)
        kube.delete(PODS, pod.metadata.name, namespace=namespace)
        kube.create(PODS, pod_body("b", labels={"x": "1"}), namespace=namespace)
        selection = Selection(namespace=namespace, label_selector="x")
        assert named(self.changes(kube, selection, since, 1)) == [("ADDED", "b")]

    def test_an_invalid_selector_opens_no_watch(self, kube: Kube, namespace: str) -> None:
        with pytest.raises(BadRequest):
            self.changes(kube, Selection(namespace=namespace, field_selector="no.such=1"), WatchOptions(), 1)

    # --- its end ---------------------------------------------------------------------------------------

    def test_a_watch_from_a_forgotten_version_is_gone(self, kube: Kube, pod: Pod) -> None:
        self.annotate(kube, pod, x="1")
        self.forget_history(kube)
        since = WatchOptions(resource_version=pod.metadata.resource_version, timeout_seconds=5)
        with pytest.raises(Gone):
            self.changes(kube, Selection(namespace=pod.metadata.namespace), since, 1)

    def test_a_watch_that_was_closed_has_ended(self, kube: Kube, pod: Pod, namespace: str) -> None:
        watch = kube.watch(PODS, Selection(namespace=namespace))
        assert next(iter(watch)).object == pod
        watch.close()
        watch.close()
        assert list(watch) == []
