"""Eight clusters run side by side, with pods in each: `devcluster.limits` makes room for so many."""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from devcluster import limits
from devcluster.cluster import Cluster
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own

pytestmark = pytest.mark.e2e

NODES = ("node-a", "node-b")


@pytest.fixture
def eight() -> Iterator[list[Cluster]]:
    nodes = tuple(NodeSpec(name=name) for name in NODES)
    with ExitStack() as stack:
        yield [
            stack.enter_context(Cluster.start(ClusterSpec(name=own(f"eight-{number}"), nodes=nodes)))
            for number in range(limits.AT_ONCE)
        ]


def test_eight_clusters_run_pods_side_by_side(eight: list[Cluster]) -> None:
    for cluster in eight:
        for node in NODES:
            overrides = json.dumps({"spec": {"nodeName": node}})
            image = ("--image=localhost/gpu-booking/probe:1", "--image-pull-policy=Never")
            cluster.kubectl("run", f"on-{node}", *image, f"--overrides={overrides}")
    for cluster in eight:
        cluster.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=120s")
        assert not [name for name, daemon in cluster.daemons.items() if daemon.exited is not None]
        assert not [name for name, daemon in cluster.daemons.items() if daemon.restarted]
    assert len({cluster.api_server for cluster in eight}) == len(eight)
    for line in limits.in_use():
        sys.stdout.write(f"{line}\n")
