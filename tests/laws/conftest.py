"""A small cluster in memory, its laws watched: node ``n0`` with four A100s, agent and mirror healthy."""

from collections.abc import Callable

import pytest

from cluster.kube.resources import PODS
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.laws.memory import watch_memory
from tests.laws.watcher import LawWatcher


@pytest.fixture
def cluster() -> FakeCluster:
    """The cluster; nothing is done in it but what a test does."""
    cluster = FakeCluster()
    cluster.add_node()
    return cluster


@pytest.fixture
def laws(cluster: FakeCluster) -> LawWatcher:
    return watch_memory(cluster.kube, cluster.clock)


@pytest.fixture
def evict(cluster: FakeCluster) -> Callable[[str], None]:
    """Somebody evicts a pod by the Eviction API."""

    def evicts(name: str) -> None:
        body = {"metadata": {"name": name, "namespace": "default"}}
        cluster.kube.create_subresource(PODS, "eviction", body, name=name, namespace="default")

    return evicts
