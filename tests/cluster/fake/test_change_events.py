"""Who is notified of changes, in which order, and how far back."""

import threading

import pytest

from cluster.fake.server import ChangeView, FakeKube
from cluster.kube.errors import Gone, Request, Unprocessable, Unreachable
from cluster.kube.interface import Selection, WatchOptions
from cluster.kube.resources import LEASES, PODS
from tests.contracts.kube import pod_body


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


def annotate(kube: FakeKube, text: str) -> None:
    kube.patch(PODS, "a", {"metadata": {"annotations": {"x": text}}}, namespace="team")


class BrokenLawError(Exception):
    """What a listener raises."""


class TestListeners:
    def test_listeners_are_notified_of_every_stored_change(self, kube: FakeKube) -> None:
        changes: list[tuple[str, bool, bool]] = []
        kube.on_change(
            lambda change: changes.append((change.plural, bool(change.before), bool(change.after)))
        )
        kube.create(PODS, pod_body("a"), namespace="team")
        kube.create(PODS, pod_body("b"), namespace="team", dry_run=True)
        kube.create(LEASES, {"metadata": {"name": "l"}}, namespace="team")
        kube.delete(LEASES, "l", namespace="team")
        assert changes == [("pods", False, True), ("leases", False, True), ("leases", True, False)]

    def test_listeners_see_the_object_before_and_after(self, kube: FakeKube) -> None:
        seen: list[ChangeView] = []
        kube.put(PODS, pod_body("a", namespace="team"))
        kube.on_change(seen.append)
        annotate(kube, "1")
        annotate(kube, "2")
        values = [
            [
                (state or {})["metadata"].get("annotations", {}).get("x")
                for state in (change.before, change.after)
            ]
            for change in seen
        ]
        assert values == [[None, "1"], ["1", "2"]]
        assert [change.version for change in seen] == sorted(change.version for change in seen)

    def test_changes_that_listeners_make_to_what_they_see_are_not_stored(self, kube: FakeKube) -> None:
        def vandal(change: ChangeView) -> None:
            assert change.after
            change.after["metadata"]["name"] = "other"

        kube.on_change(vandal)
        kube.create(PODS, pod_body("a"), namespace="team")
        assert kube.get(PODS, "a", namespace="team").metadata.name == "a"

    def test_an_error_of_a_listener_reaches_the_writer_and_the_change_stays(self, kube: FakeKube) -> None:
        def watcher(_change: ChangeView) -> None:
            raise BrokenLawError

        kube.on_change(watcher)
        watch = kube.watch(PODS)
        with pytest.raises(BrokenLawError):
            kube.create(PODS, pod_body("a"), namespace="team")
        assert kube.get(PODS, "a", namespace="team").metadata.name == "a"
        assert [event.type for event in watch.ready()] == ["ADDED"]

    def test_a_listener_s_own_write_is_notified_after_all_have_seen_the_first_change(
        self, kube: FakeKube
    ) -> None:
        notified: list[tuple[str, str]] = []

        def scheduler(change: ChangeView) -> None:
            notified.append(("scheduler", change.plural))
            if change.plural == "pods":
                kube.create(LEASES, {"metadata": {"name": "l"}}, namespace="team")

        kube.on_change(scheduler)
        kube.on_change(lambda change: notified.append(("watcher", change.plural)))
        kube.create(PODS, pod_body("a"), namespace="team")
        assert notified == [
            ("scheduler", "pods"),
            ("watcher", "pods"),
            ("scheduler", "leases"),
            ("watcher", "leases"),
        ]


class TestWatches:
    def test_events_that_have_arrived_are_read_without_waiting(self, kube: FakeKube) -> None:
        watch = kube.watch(PODS, Selection(namespace="team"))
        kube.put(PODS, pod_body("a", namespace="team"))
        assert [event.type for event in watch.ready()] == ["ADDED"]
        annotate(kube, "1")
        assert [event.type for event in watch.ready()] == ["MODIFIED"]
        assert list(watch.ready()) == []
        assert not watch.over

    def test_the_end_of_a_watch_is_read_after_the_events_before_it(self, kube: FakeKube) -> None:
        watch = kube.watch(PODS)
        kube.put(PODS, pod_body("a", namespace="team"))
        kube.break_watches()
        assert [event.type for event in watch.ready()] == ["ADDED"]
        assert watch.over

    def test_an_error_of_a_watch_is_raised_where_it_is_read(self, kube: FakeKube) -> None:
        watch = kube.watch(PODS)
        kube.break_watches(Unreachable(Request("GET", "pods"), "reset by peer"))
        with pytest.raises(Unreachable):
            list(watch.ready())
        assert watch.over

    def test_running_watches_are_counted(self, kube: FakeKube) -> None:
        first, _ = kube.watch(PODS), kube.watch(LEASES)
        assert kube.watches == 2
        first.close()
        assert kube.watches == 1
        kube.break_watches()
        assert kube.watches == 0

    def test_an_idle_watch_is_ended_from_another_thread(self, kube: FakeKube) -> None:
        watch = kube.watch(PODS)
        thread = threading.Thread(target=lambda: list(watch), daemon=True)
        thread.start()
        watch.close()
        thread.join(60)
        assert not thread.is_alive()

    def test_a_server_can_be_configured_not_to_stream_lists(self) -> None:
        kube = FakeKube(streams_lists=False)
        with pytest.raises(Unprocessable):
            kube.watch(PODS, options=WatchOptions(initial_events=True))


class TestHistory:
    def test_a_watch_begins_at_the_newest_version_after_a_compaction(self, kube: FakeKube) -> None:
        old = kube.list(PODS).resource_version
        kube.put(PODS, pod_body("a", namespace="team"))
        kube.forget_history()
        with pytest.raises(Gone):
            list(kube.watch(PODS, options=WatchOptions(resource_version=old)))
        new = kube.list(PODS).resource_version
        assert list(kube.watch(PODS, options=WatchOptions(resource_version=new)).ready()) == []

    def test_no_list_can_be_continued_after_a_compaction(self, kube: FakeKube) -> None:
        for name in "ab":
            kube.put(PODS, pod_body(name, namespace="team"))
        token = kube.list(PODS, limit=1).continue_
        kube.forget_history()
        with pytest.raises(Gone):
            kube.list(PODS, limit=1, continue_=token)

    def test_only_the_newest_changes_are_kept(self) -> None:
        kube = FakeKube(history=3)
        versions = [kube.list(PODS).resource_version]
        kube.put(PODS, pod_body("a", namespace="team"))
        for text in "123":
            versions.append(kube.list(PODS).resource_version)
            annotate(kube, text)
        with pytest.raises(Gone):
            list(kube.watch(PODS, options=WatchOptions(resource_version=versions[0])))
        kept = kube.watch(PODS, options=WatchOptions(resource_version=versions[1]))
        assert [event.object.metadata.annotation("x") for event in kept.ready()] == ["1", "2", "3"]
