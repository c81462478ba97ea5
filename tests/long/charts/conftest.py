"""An API server for what must be tried on one, and the chart in it."""

from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.cluster import Cluster
from devcluster.product import chart
from devcluster.spec import ClusterSpec, NodeSpec
from tests.charts.conftest import program, render
from tests.clusters import own

__all__ = ["program", "render"]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(name=own("charts"), nodes=(NodeSpec(name="idle"),))) as running:
        yield running


NO_PULL: dict[str, Any] = {"image": {"pullPolicy": "Never"}, "scheduler": {"image": {"pullPolicy": "Never"}}}
"""No image is here, and none is to be pulled: the pods wait."""


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Cluster:
    """The cluster with the chart in it. Nobody answers its webhook: pods with GPUs are refused."""
    chart.install(cluster, NO_PULL)
    # Bookings are served when Helm returns: an administrator has to wait for nothing more.
    assert cluster.kubectl("get", "bookings", "--output=name") == ""
    return cluster
