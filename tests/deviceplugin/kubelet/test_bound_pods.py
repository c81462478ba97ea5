"""What our own watch of this node's pods remembers."""

import msgspec

from cluster import names
from cluster.fake.clock import FakeClock
from cluster.objects.meta import Meta
from cluster.objects.pods import Pod, PodStatus
from deviceplugin.kubelet.bound_pods import TOMBSTONE_SECONDS, BoundPods


def pod(uid: str, version: int = 1, phase: str = "Pending", **annotations: str) -> Pod:
    meta = Meta(
        name=uid, namespace="default", uid=uid, resource_version=str(version), annotations=annotations
    )
    return Pod(metadata=meta, status=PodStatus(phase=phase))


def test_bound_pods_are_synced_once_a_list_was_read() -> None:
    bound = BoundPods(FakeClock())
    bound.upsert(pod("a"))
    assert not bound.is_synced
    bound.replace((pod("b"),), "7")
    assert bound.is_synced
    assert [one.metadata.uid for one in bound.present] == ["b"]


def test_deleted_pods_are_remembered_for_a_while_in_their_last_state() -> None:
    clock = FakeClock()
    bound = BoundPods(clock)
    bound.replace((pod("a"), pod("b")), "1")
    bound.remove(pod("a", 2, "Running"))
    bound.replace((), "3")
    assert bound.present == ()
    assert {one.metadata.uid: one.status.phase for one in bound.gone} == {"a": "Running", "b": "Pending"}
    assert bound.by_uid().keys() == {"a", "b"}
    clock.advance(TOMBSTONE_SECONDS - 1)
    assert len(bound.gone) == 2
    clock.advance(2)
    assert bound.gone == ()


def test_a_pod_that_was_read_directly_is_not_undone_by_a_watch_that_lags() -> None:
    bound = BoundPods(FakeClock())
    bound.replace((pod("a", 1),), "1")
    bound.learn(lambda: (pod("a", 9, "Succeeded"), pod("b", 8)))
    bound.upsert(pod("a", 5, "Running"))
    assert {one.metadata.uid: one.status.phase for one in bound.present} == {"a": "Succeeded", "b": "Pending"}
    bound.upsert(pod("a", 10, "Failed"))
    assert bound.by_uid()["a"].status.phase == "Failed"


def test_a_deleted_pod_is_remembered_up_to_the_last_second() -> None:
    clock = FakeClock()
    bound = BoundPods(clock)
    bound.remove(pod("a"))
    clock.advance(TOMBSTONE_SECONDS)
    assert [one.metadata.uid for one in bound.gone] == ["a"]


def test_a_pod_whose_version_cannot_be_read_is_older_than_every_other() -> None:
    bound = BoundPods(FakeClock())
    bare = msgspec.structs.replace(pod("a").metadata, resource_version="")
    bound.upsert(msgspec.structs.replace(pod("a"), metadata=bare))
    assert [one.metadata.uid for one in bound.present] == ["a"]
    bound.upsert(pod("a", 1, "Running"))
    bound.upsert(msgspec.structs.replace(pod("a"), metadata=bare))
    assert [one.status.phase for one in bound.present] == ["Running"]


def test_an_older_list_does_not_bring_a_deleted_pod_back() -> None:
    bound = BoundPods(FakeClock())
    bound.replace((pod("a", 1),), "1")
    bound.remove(pod("a", 2))
    bound.learn(lambda: (pod("a", 1),))
    assert bound.present == ()


def mirror(uid: str, version: int) -> Pod:
    return pod(uid, version, **{names.STATIC_POD: "4711"})


def test_a_static_pod_is_known_by_the_kubelet_s_uid() -> None:
    bound = BoundPods(FakeClock())
    bound.replace((mirror("a", 1),), "1")
    assert bound.by_uid().keys() == {"4711"}
    bound.remove(mirror("a", 2))
    assert [one.metadata.uid for one in bound.gone] == ["4711"]


def test_a_static_pod_whose_mirror_pod_was_recreated_is_still_present() -> None:
    bound = BoundPods(FakeClock())
    bound.replace((mirror("a", 1),), "1")
    bound.remove(mirror("a", 2))
    bound.learn(lambda: (mirror("a", 1),))
    assert not bound.present, "an older list knows the mirror that is gone"
    bound.learn(lambda: (mirror("a", 2),))
    assert not bound.present, "its last state is no other mirror"
    bound.upsert(mirror("b", 3))
    assert [one.metadata.uid for one in bound.present] == ["4711"]
    assert not bound.gone


def test_a_pod_missing_in_a_list_is_gone_unless_the_watch_has_shown_it_meanwhile() -> None:
    bound = BoundPods(FakeClock())
    bound.replace((pod("old", 1),), "1")

    def read() -> tuple[Pod, ...]:
        bound.upsert(pod("newer", 9))
        return (pod("new", 8),)

    bound.learn(read)
    assert {one.metadata.uid for one in bound.present} == {"new", "newer"}
    assert [one.metadata.uid for one in bound.gone] == ["old"]


def test_the_revision_of_a_binding_is_known_where_the_watch_has_shown_it() -> None:
    bound = BoundPods(clock := FakeClock())
    bound.replace((pod("listed", 5),), "7")
    bound.upsert(pod("listed", 8))
    bound.learn(lambda: (pod("learnt", 11), pod("shown", 12)))
    bound.upsert(pod("shown", 10))
    bound.upsert(pod("static", 13, **{names.STATIC_POD: "of the kubelet"}))
    expected = {"listed": (0, 8), "learnt": (0, 11), "shown": (10, 10), "of the kubelet": (0, 13)}
    assert bound.bindings() == expected
    bound.remove(pod("shown", 14))
    assert bound.bindings() == expected
    clock.advance(TOMBSTONE_SECONDS + 1)
    assert "shown" not in bound.bindings()
