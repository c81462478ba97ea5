"""What a pod that is to be placed finds: other pods, claims, volumes. Kept only where somebody asks."""

import threading
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.decide.fitting import Around
from cluster.fake.clock import FakeClock, eventually
from cluster.fake.server import FakeKube
from cluster.kube.resources import CLAIMS, NAMESPACES, NODES, PODS, STORAGE_CLASSES, VOLUMES
from cluster.objects.pods import Pod
from cluster.picture import Following, Picture
from tests.cluster.decide.fitting import cases
from tests.cluster.decide.fitting.cases import Json, a_pod, container


def on(node: str | None, *, version: int = 1, phase: str = "Running", gone: bool = False) -> Pod:
    """One and the same pod without a GPU, in some state."""
    body = a_pod("web", labels={"app": "web"}, containers=[container(amounts={"cpu": "1"})])
    ending = {"deletionTimestamp": "2026-11-23T09:00:00Z"} if gone else {}
    meta = {**body["metadata"], "uid": "uid-web", "resourceVersion": str(version), **ending}
    spec = {**body["spec"], **({"nodeName": node} if node else {})}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase}}, Pod)


def keeping() -> Picture:
    picture = Picture(FakeClock())
    picture.keep_surroundings()
    return picture


def used(picture: Picture, node: str = "n0") -> dict[str, int]:
    return dict(picture.around().load(node).used)


def test_a_pod_without_a_gpu_counts_where_it_is_bound() -> None:
    picture = keeping()
    picture.apply_pod(on(None))
    assert used(picture) == {}
    picture.apply_pod(on("n0", version=2))
    assert (used(picture), picture.pods) == ({"cpu": 1000}, {})


def test_nothing_is_kept_where_nobody_asks_for_it() -> None:
    picture = Picture(FakeClock())
    picture.replace_nodes([msgspec.convert(cases.NODES[0], NODES.type)])
    picture.apply_pod(on("n0"))
    assert (used(picture), list(picture.around().nodes)) == ({}, ["n0"])


@pytest.mark.parametrize("last", [on("n0", version=2, phase="Succeeded"), on("n0", version=2, gone=True)])
def test_a_pod_that_has_ended_or_is_told_to_go_counts_no_more(last: Pod) -> None:
    picture = keeping()
    picture.apply_pod(on("n0"))
    picture.apply_pod(last)
    assert used(picture) == {}


def test_a_pod_that_is_gone_counts_no_more_and_late_news_do_not_raise_it() -> None:
    picture = keeping()
    picture.apply_pod(on("n0"))
    picture.remove_pod(on("n0", version=3))
    picture.apply_pod(on("n0", version=2))
    assert used(picture) == {}


def test_a_pod_that_a_list_lacks_counts_no_more() -> None:
    picture = keeping()
    picture.apply_pod(on("n0"))
    picture.replace_pods([], "5")
    assert used(picture) == {}


def test_what_was_taken_stays_as_it_was() -> None:
    picture = keeping()
    picture.apply_pod(on("n0"))
    before = picture.around()
    picture.remove_pod(on("n0", version=2))
    assert (before.load("n0").used, used(picture)) == ({"cpu": 1000}, {})


HISTORY = (
    on(None),
    on("n0", version=2, phase="Pending"),
    on("n0", version=3),
    on("n0", version=4, gone=True),
)


@given(news=st.permutations(HISTORY[:3]), ends=st.booleans())
def test_the_order_of_news_does_not_matter(news: Sequence[Pod], *, ends: bool) -> None:
    picture = keeping()
    for pod in (*news, *(HISTORY[3:] if ends else ())):
        picture.apply_pod(pod)
    assert used(picture) == ({} if ends else {"cpu": 1000})


class Followed:
    """A picture with its surroundings, that follows an API server in memory."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.picture = Picture(self.clock)
        self.following = Following(self.kube, self.picture, self.clock, namespace=names.NAMESPACE)
        self.following.follow_namespaces()
        self.following.follow_surroundings()

    def around(self) -> Around:
        return self.picture.around()


def test_claims_volumes_and_classes_are_followed_and_must_be_known() -> None:
    followed, stop = Followed(), threading.Event()
    assert "claims" in followed.following.threads
    kube = followed.kube
    first: list[tuple[object, Json]] = [(CLAIMS, cases.CLAIMS[0]), (VOLUMES, cases.VOLUMES[0])]
    first += [(STORAGE_CLASSES, cases.CLASSES[0]), (NODES, cases.NODES[0])]
    first += [(NAMESPACES, {"metadata": {"name": cases.TEAM}}), (PODS, cases.RESIDENTS[0])]
    for resource, body in first:
        kube.put(resource, body)
    threads = [threading.Thread(target=body, args=(stop,)) for body in followed.following.threads.values()]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: followed.following.obstacle() is None, deadline=60)
        around = followed.around()
        assert set(around.claims) == {"team/in-a"}
        assert (set(around.volumes), set(around.classes)) == ({"pv-in-a"}, {"immediate"})
        assert around.load("n0").used == {"cpu": 2500}
        kube.put(CLAIMS, cases.CLAIMS[1])
        eventually(lambda: "team/on-n2" in followed.around().claims, deadline=60)
        kube.delete(CLAIMS, "on-n2", namespace=cases.TEAM)
        eventually(lambda: set(followed.around().claims) == {"team/in-a"}, deadline=60)
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
