"""Who is never evicted (laws L2 and L6)."""

import pytest

from booking.eviction.victims import protection
from booking.eviction_settings import EvictionSettings
from booking.reclaimer.snapshot import take
from cluster import names
from cluster.fake.merging import merged
from cluster.kube.resources import PODS
from cluster.objects.meta import Meta
from cluster.objects.namespaces import Namespace
from tests.booking.reclaimer.scene import Json, Scene

WITH_MAIA = EvictionSettings(maia=True)
WITHOUT = EvictionSettings()


@pytest.fixture
def scene() -> Scene:
    """One of bob's pods runs without a booking."""
    scene = Scene()
    scene.add_node()
    scene.opportunist("b", 0)
    return scene


def why(scene: Scene, more: Json, terms: EvictionSettings = WITHOUT) -> str | None:
    """Why the pod may not be evicted, once this is written on it."""
    raw = merged(scene.kube.raw(PODS, "b", namespace="default"), more)
    scene.gone("b")
    scene.kube.put(PODS, raw)
    scene.sync()
    now = take(scene.cache, scene.clock, terms)
    pod = now.pods["uid-b"]
    return protection(pod, now.holding(pod), now)


def in_namespace(name: str) -> Json:
    return {"metadata": {"namespace": name}}


def annotated(**annotations: str) -> Json:
    return {"metadata": {"annotations": annotations}}


def until(instant: str, **more: str) -> Json:
    return {"metadata": {"annotations": {names.TERMINATE_AT: instant, **more}}}


def test_an_ordinary_pod_may_be_evicted(scene: Scene) -> None:
    assert why(scene, {}) is None


@pytest.mark.parametrize("name", ["kube-system", "kube-public", "kube-node-lease", "gpu-booking"])
def test_pods_of_the_system_and_of_the_product_stay(scene: Scene, name: str) -> None:
    assert why(scene, in_namespace(name)) == f"pods of the namespace {name} are never evicted"


def test_the_products_namespace_is_the_one_of_the_settings(scene: Scene) -> None:
    assert why(scene, in_namespace("gpus"), EvictionSettings(namespace="gpus")) is not None


@pytest.mark.parametrize(("said", "stays"), [("true", True), (" True ", True), ("false", False), ("", False)])
def test_an_administrator_may_spare_a_namespace(scene: Scene, said: str, *, stays: bool) -> None:
    meta = Meta(name="calm", uid="c", annotations={names.NEVER_EVICT: said})
    scene.cache.apply_namespace(Namespace(metadata=meta))
    assert (why(scene, in_namespace("calm")) is not None) == stays


@pytest.mark.parametrize("kind", ["DaemonSet", "Node"])
def test_pods_that_would_come_back_at_once_stay(scene: Scene, kind: str) -> None:
    owner = {"kind": kind, "name": "x", "uid": "o"}
    assert why(scene, {"metadata": {"ownerReferences": [owner]}}) == f"pods of a {kind} are never evicted"


def test_the_mirror_of_a_static_pod_stays(scene: Scene) -> None:
    assert why(scene, annotated(**{names.STATIC_POD: "4711"})) == "pods of a Node are never evicted"


def test_maias_promise_counts_where_maia_is_honoured(scene: Scene) -> None:
    granted = until("2026-11-23T17:00:00Z")
    assert why(scene, granted, WITH_MAIA) == "MAIA has granted it its GPUs"
    assert why(scene, granted, WITHOUT) is None


@pytest.mark.parametrize("instant", ["1900-01-01T08:00:00Z", "2026-11-23T09:00:00Z", "soon"])
def test_maias_promise_counts_as_long_as_it_lasts(scene: Scene, instant: str) -> None:
    assert why(scene, until(instant), WITH_MAIA) is None


def test_an_instant_without_a_zone_is_a_promise_in_utc(scene: Scene) -> None:
    assert why(scene, until("2026-11-23T17:00:00"), WITH_MAIA) is not None


def test_our_own_annotation_is_no_promise_of_maias(scene: Scene) -> None:
    ours = until("2026-11-23T17:00:00Z", **{names.BOOKING: "b-1"})
    assert why(scene, ours, WITH_MAIA) is None
