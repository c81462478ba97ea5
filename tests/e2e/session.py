"""One cluster for a session of tests, a namespace for each; the laws are watched all the time.

The fixtures of tests/e2e and tests/long: their conftest.py take them from here.

A test that breaks a law on purpose says so: ``with laws.expecting("L2"): ...``.
"""

import itertools
import re
from collections.abc import Iterator

import pytest

from cluster import names
from cluster.runtime.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator, person
from devcluster.demo.rest import Rest
from devcluster.fakenvml import default_gpus
from devcluster.parts import Parts
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.e2e.logs import troubles_of
from tests.e2e.persons import Person
from tests.e2e.playground import NAIVE, Playground
from tests.e2e.usual import CONTROLLER, POLICY
from tests.laws.live import LiveWatch, checkpoints_of

NODES = ("node-a", "node-b")
GPUS = 4


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    nodes = tuple(NodeSpec(name=name, gpus=default_gpus(index)) for index, name in enumerate(NODES))
    with Cluster.start(ClusterSpec(name=own("e2e"), nodes=nodes)) as started:
        yield started


@pytest.fixture(scope="session")
def parts(cluster: Cluster) -> Iterator[Parts]:
    deployed = Parts(cluster)
    deployed.deploy(server=POLICY, controller=CONTROLLER)
    yield deployed
    assert not troubles_of(deployed)
    # All of our parts are processes here: as pods they would run a second time.
    assert not cluster.kubectl("get", "pods", f"--namespace={names.NAMESPACE}", "--output=name")


@pytest.fixture(scope="session")
def live_watch(cluster: Cluster, parts: Parts) -> Iterator[LiveWatch]:
    assert parts
    watch = LiveWatch(
        administrator(cluster), SystemClock(), checkpoints_of(cluster), resources=(names.GPU_RESOURCE, NAIVE)
    )
    with watch:
        yield watch
        watch.check()  # what was broken after the end of the last test


@pytest.fixture
def laws(live_watch: LiveWatch, request: pytest.FixtureRequest) -> LiveWatch:
    """The watcher of the laws, its history beginning with this test."""
    live_watch.begin(request.node.name)
    return live_watch


@pytest.fixture
def alice(playground: Playground, cluster: Cluster, parts: Parts) -> Iterator[Person]:
    yield from _person("alice", playground, cluster, parts)


@pytest.fixture
def bob(playground: Playground, cluster: Cluster, parts: Parts) -> Iterator[Person]:
    yield from _person("bob", playground, cluster, parts)


def _person(name: str, ground: Playground, cluster: Cluster, parts: Parts) -> Iterator[Person]:
    parts.people.admit(name, ground.namespace)
    rest = Rest(parts.booking_url, parts.people.token(name, names.AUDIENCE))
    somebody = Person(name, person(cluster, parts.people.token(name)), rest, ground)
    try:
        yield somebody
    finally:
        somebody.leave()


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def playground(
    cluster: Cluster, parts: Parts, laws: LiveWatch, numbers: Iterator[int], request: pytest.FixtureRequest
) -> Iterator[Playground]:
    words = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    namespace = f"{words[:50].strip('-')}-{next(numbers)}"
    cluster.kubectl("create", "namespace", namespace)
    ground = Playground(administrator(cluster), cluster.kubectl, namespace=namespace, laws=laws)
    for node in NODES:
        ground.await_gpus(node, GPUS)
    try:
        yield ground
        laws.finish()
        assert not parts.fallen()
    finally:
        ground.clear()
        parts.restore()
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")
