"""A node agent's Lease and the garbage collector of a real Kubernetes."""

from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from cluster import names
from cluster.fake.clock import eventually
from cluster.kube.client import KubeClient
from cluster.kube.errors import NotFound
from cluster.kube.node_lease import LeaseRenewer
from cluster.kube.resources import LEASES, NODES
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.e2e.playground import PATIENCE

pytestmark = pytest.mark.controlplane


@pytest.fixture
def kube() -> Iterator[KubeClient]:
    with (
        Cluster.start(ClusterSpec(name=own("leases"), nodes=(NodeSpec(name="idle"),))) as cluster,
        closing(administrator(cluster)) as kube,
    ):
        cluster.kubectl("create", "namespace", names.NAMESPACE)
        yield kube


def test_the_lease_of_a_node_goes_with_its_node_and_that_of_another_stays(kube: KubeClient) -> None:
    for node in ("goes", "stays"):
        kube.create(NODES, {"metadata": {"name": node}})
        lease = names.node_lease(node)
        LeaseRenewer(kube, SystemClock(), name=lease, holder=f"agent-{node}", node=node).renew()

    kube.delete(NODES, "goes")

    def is_gone() -> bool:
        with suppress(NotFound):
            kube.get(LEASES, names.node_lease("goes"), namespace=names.NAMESPACE)
            return False
        return True

    eventually(is_gone, deadline=PATIENCE)
    assert kube.get(LEASES, names.node_lease("stays"), namespace=names.NAMESPACE)
