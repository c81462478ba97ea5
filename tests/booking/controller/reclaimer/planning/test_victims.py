"""Which pods are never evicted (laws L2 and L6)."""

import pytest

from booking.controller.reclaimer.snapshot import take
from booking.eviction.settings import EvictionSettings
from booking.eviction.victims import LEAST_LOST_WORK
from cluster import names
from cluster.fake.merging import merged
from cluster.kube.resources import NAMESPACES, PODS
from cluster.objects.meta import Meta
from cluster.objects.namespaces import Namespace
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster, Json

WITH_MAIA = EvictionSettings(maia=True)
WITHOUT = EvictionSettings()


@pytest.fixture
def cluster() -> FakeCluster:
    """One of bob's pods runs without a booking."""
    cluster = FakeCluster()
    cluster.add_node()
    cluster.opportunist("b", 0)
    return cluster


def why(cluster: FakeCluster, more: Json, terms: EvictionSettings = WITHOUT) -> str | None:
    """Why the pod may not be evicted, once this is written on it."""
    raw = merged(cluster.kube.raw(PODS, "b", namespace="default"), more)
    cluster.gone("b")
    cluster.kube.put(PODS, raw)
    cluster.sync()
    now = take(cluster.cache, cluster.clock, terms)
    pod = now.pods["uid-b"]
    return LEAST_LOST_WORK.protection(pod, now.holding(pod), now)


def in_namespace(name: str) -> Json:
    return {"metadata": {"namespace": name}}


def annotated(**annotations: str) -> Json:
    return {"metadata": {"annotations": annotations}}


def until(instant: str, **more: str) -> Json:
    return {"metadata": {"annotations": {names.TERMINATE_AT: instant, **more}}}


def test_an_ordinary_pod_may_be_evicted(cluster: FakeCluster) -> None:
    assert why(cluster, {}) is None


@pytest.mark.parametrize("name", ["kube-system", "kube-public", names.KUBELET_LEASES, "gpu-booking"])
def test_pods_of_the_system_and_of_the_product_are_never_evicted(cluster: FakeCluster, name: str) -> None:
    assert why(cluster, in_namespace(name)) == f"pods of the namespace {name} are never evicted"


def test_the_products_namespace_is_the_one_in_the_settings(cluster: FakeCluster) -> None:
    assert why(cluster, in_namespace("gpus"), EvictionSettings(namespace="gpus")) is not None


@pytest.mark.parametrize(
    ("value", "stays"), [("true", True), (" True ", True), ("false", False), ("", False)]
)
def test_an_administrator_may_spare_a_namespace(cluster: FakeCluster, value: str, *, stays: bool) -> None:
    meta = Meta(name="calm", uid="c", annotations={names.NEVER_EVICT: value})
    cluster.cache.of(NAMESPACES).upsert(Namespace(metadata=meta))
    assert (why(cluster, in_namespace("calm")) is not None) == stays


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_pods_that_would_come_back_at_once_are_never_evicted(cluster: FakeCluster, kind: str) -> None:
    owner = {"kind": kind, "name": "x", "uid": "o"}
    assert why(cluster, {"metadata": {"ownerReferences": [owner]}}) == f"pods of a {kind} are never evicted"


def test_a_mirror_pod_is_never_evicted(cluster: FakeCluster) -> None:
    assert why(cluster, annotated(**{names.STATIC_POD: "4711"})) == "pods of a Node are never evicted"


def test_a_grant_of_maia_counts_only_where_maia_is_honoured(cluster: FakeCluster) -> None:
    granted = until("2026-11-23T17:00:00Z")
    assert why(cluster, granted, WITH_MAIA) == "MAIA has granted it its GPUs"
    assert why(cluster, granted, WITHOUT) is None


@pytest.mark.parametrize("instant", ["1900-01-01T08:00:00Z", "2026-11-23T09:00:00Z", "soon"])
def test_a_grant_of_maia_counts_as_long_as_it_lasts(cluster: FakeCluster, instant: str) -> None:
    assert why(cluster, until(instant), WITH_MAIA) is None


def test_an_instant_without_a_zone_is_a_grant_in_utc(cluster: FakeCluster) -> None:
    assert why(cluster, until("2026-11-23T17:00:00"), WITH_MAIA) is not None


def test_our_own_annotation_does_not_count_as_a_grant_of_maia(cluster: FakeCluster) -> None:
    ours = until("2026-11-23T17:00:00Z", **{names.BOOKING: "b-1"})
    assert why(cluster, ours, WITH_MAIA) is None
