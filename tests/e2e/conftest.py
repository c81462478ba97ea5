"""One cluster for all end-to-end tests, a namespace for each; every test ends with law L1 checked."""

import itertools
import re
from collections.abc import Iterator

import pytest

from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.fakenvml import default_gpus
from devcluster.parts import Parts
from devcluster.spec import ClusterSpec, NodeSpec
from tests.e2e.playground import Playground

NODES = ("node-a", "node-b")
GPUS = 4


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    nodes = tuple(NodeSpec(name=name, gpus=default_gpus(index)) for index, name in enumerate(NODES))
    with Cluster.start(ClusterSpec(name="e2e", nodes=nodes)) as started:
        yield started


@pytest.fixture(scope="session")
def parts(cluster: Cluster) -> Parts:
    deployed = Parts(cluster)
    deployed.deploy()
    return deployed


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def playground(
    cluster: Cluster, parts: Parts, numbers: Iterator[int], request: pytest.FixtureRequest
) -> Iterator[Playground]:
    words = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    namespace = f"{words[:50].strip('-')}-{next(numbers)}"
    cluster.kubectl("create", "namespace", namespace)
    ground = Playground(administrator(cluster), cluster.kubectl, namespace=namespace)
    for node in NODES:
        ground.await_gpus(node, GPUS)
    try:
        yield ground
        ground.check_law_1()
        assert not parts.fallen()
    finally:
        ground.clear()
        parts.restore()
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")
