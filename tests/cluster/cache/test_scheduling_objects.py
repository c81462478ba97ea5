"""The objects around a pod to be placed: other pods, claims, volumes. Kept only where they are wanted."""

import threading

import msgspec

from cluster import names
from cluster.cache import SCHEDULING, ClusterCache, Informers
from cluster.decide.scheduler_filters import ClusterObjects
from cluster.fake.clock import FakeClock, eventually
from cluster.fake.server import FakeKube
from cluster.kube.resources import NAMESPACES, NODES, PODS, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from cluster.objects.pods import Pod
from tests.cluster.decide.scheduler_filters import cases
from tests.cluster.decide.scheduler_filters.cases import Json, a_pod, container


def on(node: str | None, *, version: int = 1, phase: str = "Running", gone: bool = False) -> Pod:
    """One and the same pod without a GPU, in some state."""
    body = a_pod("web", labels={"app": "web"}, containers=[container(amounts={"cpu": "1"})])
    ending = {"deletionTimestamp": "2026-11-23T09:00:00Z"} if gone else {}
    meta = {**body["metadata"], "uid": "uid-web", "resourceVersion": str(version), **ending}
    spec = {**body["spec"], **({"nodeName": node} if node else {})}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase}}, Pod)


def keeping() -> ClusterCache:
    cache = ClusterCache(FakeClock())
    cache.keep_scheduling_objects()
    return cache


def used(cache: ClusterCache, node: str = "n0") -> dict[str, int]:
    return dict(cache.cluster_objects().pods_on(node).used)


def test_a_pod_without_a_gpu_counts_where_it_is_bound() -> None:
    cache = keeping()
    cache.of(PODS).upsert(on(None))
    assert used(cache) == {}
    cache.of(PODS).upsert(on("n0", version=2))
    assert (used(cache), cache.pods) == ({"cpu": 1000}, {})


def test_pods_with_anti_affinity_are_found_while_they_are_there() -> None:
    cache = keeping()
    cache.of(NODES).replace([msgspec.convert(cases.NODES[0], NODES.type)])
    body = a_pod("shy", affinity=cases.FAR_FROM_DB)
    shy = msgspec.convert({**body, "spec": {**body["spec"], "nodeName": "n0"}}, Pod)

    cache.of(PODS).upsert(shy)
    assert [other.uid for _, other in cache.cluster_objects().with_anti_affinity] == [shy.metadata.uid]
    cache.of(PODS).remove(shy)
    assert cache.cluster_objects().with_anti_affinity == ()


def test_nothing_is_kept_where_it_is_not_asked_for() -> None:
    cache = ClusterCache(FakeClock())
    cache.of(NODES).replace([msgspec.convert(cases.NODES[0], NODES.type)])
    cache.of(PODS).upsert(on("n0"))
    assert (used(cache), list(cache.cluster_objects().nodes)) == ({}, ["n0"])


def test_a_pod_that_a_list_lacks_no_longer_counts() -> None:
    cache = keeping()
    cache.of(PODS).upsert(on("n0"))
    cache.of(PODS).replace([], "5")
    assert used(cache) == {}


def test_a_snapshot_does_not_change_afterwards() -> None:
    cache = keeping()
    cache.of(PODS).upsert(on("n0"))
    before = cache.cluster_objects()
    cache.of(PODS).remove(on("n0", version=2))
    assert (before.pods_on("n0").used, used(cache)) == ({"cpu": 1000}, {})


class Followed:
    """A cache with these objects that follows an API server in memory."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.cache = keeping()
        self.following = Informers(
            self.kube, self.cache, self.clock, namespace=names.NAMESPACE, kinds=(NAMESPACES, *SCHEDULING)
        )

    def cluster_objects(self) -> ClusterObjects:
        return self.cache.cluster_objects()


def test_claims_volumes_and_classes_are_followed_and_must_be_known() -> None:
    followed, stop = Followed(), threading.Event()
    assert "persistentvolumeclaims" in followed.following.threads
    kube = followed.kube
    first: list[tuple[object, Json]] = [(VOLUME_CLAIMS, cases.CLAIMS[0]), (VOLUMES, cases.VOLUMES[0])]
    first += [(STORAGE_CLASSES, cases.CLASSES[0]), (NODES, cases.NODES[0])]
    first += [(NAMESPACES, {"metadata": {"name": cases.TEAM}}), (PODS, cases.RESIDENTS[0])]
    for resource, body in first:
        kube.put(resource, body)
    threads = [threading.Thread(target=body, args=(stop,)) for body in followed.following.threads.values()]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: followed.following.unready_reason() is None, deadline=60)
        cluster_objects = followed.cluster_objects()
        assert set(cluster_objects.claims) == {"team/in-a"}
        assert (set(cluster_objects.volumes), set(cluster_objects.classes)) == ({"pv-in-a"}, {"immediate"})
        assert cluster_objects.pods_on("n0").used == {"cpu": 2500}
        kube.put(VOLUME_CLAIMS, cases.CLAIMS[1])
        eventually(lambda: "team/on-n2" in followed.cluster_objects().claims, deadline=60)
        kube.delete(VOLUME_CLAIMS, "on-n2", namespace=cases.TEAM)
        eventually(lambda: set(followed.cluster_objects().claims) == {"team/in-a"}, deadline=60)
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
