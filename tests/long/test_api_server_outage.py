"""The API server is away for a minute: nothing is bound, everything recovers by itself (law L6)."""

import threading
from collections.abc import Iterator

import pytest

from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.cluster import Cluster
from tests.e2e.playground import Playground
from tests.e2e.testbed import Testbed

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("elections")]

OUTAGE_SECONDS = 60.0


@pytest.fixture(scope="module")
def elections(testbed: Testbed) -> Iterator[None]:
    """Our kube-scheduler loses its Lease in an outage, as the chart's does."""
    with testbed.parts.electing(), testbed.pinned():
        yield


def test_after_a_minute_without_the_api_server_everything_continues_by_itself(
    cluster: Cluster, playground: Playground
) -> None:
    before = playground.simple("before")
    playground.await_phase([before])
    server = cluster.daemon("kube-apiserver")
    in_flight = playground.create_all(
        probe.pod(f"in-flight-{n}", [probe.container("main", gpus=1)]) for n in range(3)
    )
    server.pause()
    SystemClock().wait(threading.Event(), OUTAGE_SECONDS)
    server.resume()
    playground.await_phase([before, *in_flight])
    after = [playground.simple(f"after-{n}") for n in range(4)]
    playground.await_phase(after)
    for name in (before, *in_flight, *after):
        playground.check_agreement(name)
    playground.check_law_1()


def test_a_restarted_api_server_is_followed_again(cluster: Cluster, playground: Playground) -> None:
    cluster.daemon("kube-apiserver").restart()
    playground.await_that("the API server answers", playground.nodes)
    names = [playground.simple(f"after-{n}") for n in range(4)]
    playground.await_phase(names)
    for name in names:
        playground.check_agreement(name)
