"""Helm as it is built for development clusters, and an API server for what must be tried on one."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import binaries
from devcluster.cluster import Cluster
from devcluster.parts import chart
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own

Document = dict[str, Any]
Render = Callable[..., list[Document]]


@pytest.fixture(scope="session")
def program() -> Path:
    return binaries.ensure().path("helm")


@pytest.fixture(scope="session")
def render(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Render:
    folder = tmp_path_factory.mktemp("helm")

    def rendered(values: Mapping[str, Any] | None = None) -> list[Document]:
        text = chart.render(program, folder, values)
        return [document for document in yaml.safe_load_all(text) if document]

    return rendered


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(name=own("charts"), nodes=(NodeSpec(name="idle"),))) as running:
        yield running


NO_PULL: dict[str, Any] = {"image": {"pullPolicy": "Never"}, "scheduler": {"image": {"pullPolicy": "Never"}}}
"""No image is here, and none is to be looked for elsewhere: the pods wait."""


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Cluster:
    """The cluster with the chart in it. Nobody answers its webhook: pods with GPUs are refused."""
    chart.install(cluster, NO_PULL)
    # Bookings are served when Helm returns: whoever installs has to wait for nothing more.
    assert cluster.kubectl("get", "bookings", "--output=name") == ""
    return cluster
