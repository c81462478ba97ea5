"""The real extender next to a real API server that has no events."""

import threading
from collections.abc import Iterator
from http import HTTPStatus

import pytest
import urllib3

from cluster import names
from cluster.cache.informers import STALE_AFTER
from cluster.fake.clock import FakeClock, eventually
from cluster.process.clock import SystemClock
from cluster.process.settings import load
from devcluster.cluster import Cluster
from devcluster.product import chart, extender, identity
from devcluster.spec import ClusterSpec, NodeSpec
from extender.__main__ import build
from extender.settings import Settings
from tests.clusters import own
from tests.e2e.playground import PATIENCE
from tests.extender.settings import free_port

pytestmark = pytest.mark.controlplane


@pytest.fixture
def settings() -> Iterator[Settings]:
    with Cluster.start(ClusterSpec(name=own("events"), nodes=(NodeSpec(name="idle"),))) as cluster:
        chart.install(cluster, chart.external_values(cluster.address))
        folder = cluster.state / "parts"
        folder.mkdir(mode=0o700)
        ports = {"port": "0", "probe_host": "127.0.0.1", "probe_port": str(free_port())}
        alone = {"leader_election": "false"}
        given = {names.setting(name): value for name, value in (ports | alone).items()}
        yield load(Settings, identity.environment(cluster, folder, extender.ACCOUNT) | given)


def test_l6_without_events_for_150_seconds_it_is_not_ready(settings: Settings) -> None:
    clock = FakeClock(SystemClock().now())
    process = build(settings, clock)
    thread = threading.Thread(target=process.run)
    thread.start()

    def probed() -> tuple[int, str]:
        url = f"http://{settings.probe_host}:{settings.probe_port}/readyz"
        answer = urllib3.request("GET", url, timeout=60, retries=False)
        return answer.status, answer.data.decode()

    def is_ready() -> bool:
        clock.advance(0.1)  # for whatever is tried again
        return probed()[0] == HTTPStatus.OK

    try:
        eventually(is_ready, deadline=PATIENCE)
        clock.advance(STALE_AFTER + 1)
        status, text = probed()
        assert status == HTTPStatus.SERVICE_UNAVAILABLE
        assert text.startswith("cluster: There have been no events of ")
        assert "for 150 seconds" in text
    finally:
        process.end("the test is over")
        thread.join()
