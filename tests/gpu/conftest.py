"""A machine with an NVIDIA driver, or a loud skip that says what is missing. The card is only read.

For pods, too: a cluster of one node that has the machine's own GPUs, with all our parts in it.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster import names
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator, person
from devcluster.demo.rest import Rest
from devcluster.product import Parts
from devcluster.spec import ClusterSpec, NodeSpec
from deviceplugin.injection.driver import library_under
from deviceplugin.nvml.interface import NvmlError
from deviceplugin.nvml.real import RealNvml
from tests.clusters import own
from tests.e2e.persons import Person
from tests.e2e.playground import Playground
from tests.e2e.usual import CONTROLLER, POLICY
from tests.gpu.plays import Ground
from tests.gpu.work import Work
from tests.laws.live import LiveWatch, checkpoints_of

NODE = "node-gpu"
NOTHING = "NO REAL GPU HERE, nothing was tested on hardware"


@contextmanager
def driver() -> Iterator[RealNvml]:
    """The machine's own, or a skip."""
    if "fakenvml" in Path("/proc/self/maps").read_text():
        pytest.skip(
            f"{NOTHING}: this process has loaded the simulated library; `make test-gpu` is without it"
        )
    real = RealNvml(library_under(Path("/")))
    try:
        real.open()
    except NvmlError as error:
        pytest.skip(f"{NOTHING}: {error}")
    try:
        if real.count() == 0:
            pytest.skip(f"{NOTHING}: the driver shows no GPU")
        yield real
    finally:
        real.close()


@pytest.fixture
def nvml() -> Iterator[RealNvml]:
    with driver() as real:
        yield real


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with driver():  # before anything is started
        pass
    if os.geteuid() != 0:
        pytest.skip("NOT ROOT, no pod was given a GPU: a cluster needs root")
    node = NodeSpec(name=NODE, real=True)
    with Cluster.start(ClusterSpec(name=own("gpu"), nodes=(node,))) as started:
        yield started


@pytest.fixture(scope="session")
def parts(cluster: Cluster) -> Parts:
    deployed = Parts(cluster)
    deployed.deploy(server=POLICY, controller=CONTROLLER)
    return deployed


@pytest.fixture(scope="session")
def laws(cluster: Cluster, parts: Parts) -> Iterator[LiveWatch]:
    assert parts
    with LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster)) as watch:
        yield watch
        watch.check()


@pytest.fixture
def ground(
    cluster: Cluster, parts: Parts, laws: LiveWatch, request: pytest.FixtureRequest
) -> Iterator[Ground]:
    laws.begin(request.node.name)
    namespace = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())[:50].strip("-")
    cluster.kubectl("create", "namespace", namespace)
    playground = Playground(administrator(cluster), cluster.kubectl, namespace=namespace, laws=laws)
    ground = Ground(playground=playground, parts=parts, node=NODE, work=Work())
    playground.await_that("the agent publishes GPUs", lambda: ground.gpus)
    playground.await_gpus(NODE, len(ground.gpus))
    try:
        yield ground
        laws.finish()
        assert not parts.crashed()
    finally:
        playground.clear()
        parts.restore()
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")


@pytest.fixture
def alice(ground: Ground, cluster: Cluster) -> Iterator[Person]:
    yield from _person("alice", ground, cluster)


@pytest.fixture
def bob(ground: Ground, cluster: Cluster) -> Iterator[Person]:
    yield from _person("bob", ground, cluster)


def _person(name: str, ground: Ground, cluster: Cluster) -> Iterator[Person]:
    people = ground.parts.people
    people.admit(name, ground.playground.namespace)
    rest = Rest(ground.parts.booking_url, people.token(name, names.AUDIENCE))
    somebody = Person(name, person(cluster, people.token(name)), rest, ground.playground)
    try:
        yield somebody
    finally:
        somebody.leave()
