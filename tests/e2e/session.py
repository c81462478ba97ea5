"""One testbed for a session of tests, a namespace for each; the laws are watched all the time.

The fixtures of tests/e2e and tests/long: their conftest.py take them from here.

A test that breaks a law on purpose announces it: ``with laws.expecting("L2"): ...``.
"""

import itertools
import re
from collections.abc import Iterator

import pytest

from cluster import names
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator, person
from devcluster.demo.rest import Rest
from devcluster.product import Parts
from tests.e2e.persons import Person
from tests.e2e.playground import NAIVE, Playground
from tests.e2e.testbed import GPUS, NODES, Design, Testbed
from tests.e2e.usual import CONTROLLER, POLICY
from tests.laws.live import LiveWatch

DESIGN = Design(name="e2e", server=POLICY, controller=CONTROLLER, resources=(names.GPU_RESOURCE, NAIVE))


@pytest.fixture(scope="session")
def testbed() -> Iterator[Testbed]:
    bed = Testbed(DESIGN)
    try:
        yield bed
    finally:
        bed.close()


@pytest.fixture
def cluster(testbed: Testbed) -> Cluster:
    return testbed.cluster


@pytest.fixture
def parts(testbed: Testbed) -> Parts:
    return testbed.parts


@pytest.fixture
def live_watch(testbed: Testbed) -> LiveWatch:
    return testbed.live_watch


@pytest.fixture
def laws(live_watch: LiveWatch, request: pytest.FixtureRequest) -> LiveWatch:
    """The watcher of the laws, its history beginning with this test."""
    live_watch.begin(request.node.name)
    return live_watch


@pytest.fixture
def alice(playground: Playground, testbed: Testbed, request: pytest.FixtureRequest) -> Iterator[Person]:
    yield from _person("alice", playground, testbed, request.node.name)


@pytest.fixture
def bob(playground: Playground, testbed: Testbed, request: pytest.FixtureRequest) -> Iterator[Person]:
    yield from _person("bob", playground, testbed, request.node.name)


def _person(name: str, ground: Playground, bed: Testbed, test: str) -> Iterator[Person]:
    cluster, parts = bed.cluster, bed.parts
    parts.people.admit(name, ground.namespace)
    rest = Rest(parts.booking_url, parts.people.token(name, names.AUDIENCE))
    somebody = Person(name, person(cluster, parts.people.token(name)), rest, ground)
    try:
        yield somebody
    finally:
        bed.restart_daemons(test)
        somebody.leave()


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def playground(
    testbed: Testbed, laws: LiveWatch, numbers: Iterator[int], request: pytest.FixtureRequest
) -> Iterator[Playground]:
    test = request.node.name
    words = re.sub("[^a-z0-9]+", "-", test.removeprefix("test_").lower())
    namespace = f"{words[:50].strip('-')}-{next(numbers)}"
    cluster, parts = testbed.cluster, testbed.parts
    ground = Playground(administrator(cluster), cluster.kubectl, namespace=namespace, laws=laws)
    try:
        cluster.kubectl("create", "namespace", namespace)
        for node in NODES:
            ground.await_gpus(node, GPUS)
        yield ground
        testbed.restart_daemons(test)
        laws.finish()
        assert not parts.crashed()
    finally:
        testbed.restore(test, ground.remove)
