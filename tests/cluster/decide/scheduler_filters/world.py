"""The cases in a cluster cache, without any API server."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from cluster.cache import ClusterCache
from cluster.decide.scheduler_filters import ClusterObjects
from cluster.fake.clock import FakeClock
from cluster.kube import resources
from cluster.kube.resources import NAMESPACES, PODS, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from cluster.objects.namespaces import Namespace
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from cluster.objects.volumes import StorageClass, Volume, VolumeClaim
from tests.cluster.decide.scheduler_filters import cases
from tests.cluster.decide.scheduler_filters.cases import Json


def pod_of(body: Json, uid: str | None = None) -> Pod:
    """A pod as the API server would have stored it."""
    meta = {"resourceVersion": "1", **body["metadata"]}
    meta["uid"] = uid or meta.get("uid") or f"uid-{meta['name']}"
    return msgspec.convert({**body, "metadata": meta}, Pod)


RESIDENTS = tuple(pod_of(body) for body in cases.RESIDENTS)
GHOSTS = tuple(pod_of(body) for body in cases.GHOSTS)
NODES = tuple(msgspec.convert(body, Node) for body in cases.NODES)


def a_cache(pods: Sequence[Pod] = RESIDENTS) -> ClusterCache:
    """A cache to which everything was applied."""
    cache = ClusterCache(FakeClock())
    cache.keep_scheduling_objects()
    cache.of(VOLUME_CLAIMS).replace(_all(cases.CLAIMS, VolumeClaim), "1")
    cache.of(VOLUMES).replace(_all(cases.VOLUMES, Volume), "1")
    cache.of(STORAGE_CLASSES).replace(_all(cases.CLASSES, StorageClass), "1")
    namespaces = ({"metadata": {"name": name, "labels": labels}} for name, labels in cases.NAMESPACES.items())
    cache.of(NAMESPACES).replace(_all(namespaces, Namespace))
    cache.of(resources.NODES).replace(NODES)
    cache.of(PODS).replace(pods, "1")
    return cache


def the_world(pods: Sequence[Pod] = RESIDENTS) -> ClusterObjects:
    """All of the cases, with these pods on the nodes."""
    return a_cache(pods).cluster_objects()


def _all(bodies: Iterable[Json], kind: type[Any]) -> list[Any]:
    return [msgspec.convert(body, kind) for body in bodies]
