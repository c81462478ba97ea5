"""A small cluster in memory, its laws watched: node ``n0`` with four A100s, agent and mirror well."""

from collections.abc import Callable

import pytest

from cluster.kube.resources import PODS
from tests.booking.reclaimer.scene import Scene
from tests.laws.memory import watch_memory
from tests.laws.watcher import LawWatcher


@pytest.fixture
def scene() -> Scene:
    """The cluster; nothing is done in it but what a test does."""
    scene = Scene()
    scene.add_node()
    return scene


@pytest.fixture
def laws(scene: Scene) -> LawWatcher:
    return watch_memory(scene.kube, scene.clock)


@pytest.fixture
def evict(scene: Scene) -> Callable[[str], None]:
    """Somebody evicts a pod by the Eviction API."""

    def evicts(name: str) -> None:
        body = {"metadata": {"name": name, "namespace": "default"}}
        scene.kube.create_subresource(PODS, "eviction", body, name=name, namespace="default")

    return evicts
