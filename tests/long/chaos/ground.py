"""The ground of the chaos: a cluster with real kubelets, the product installed from its chart, and people."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from cluster import names
from cluster.kube.client import KubeClient
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.fakenvml import default_gpus
from devcluster.product.installed import Installed
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.long import accounts
from tests.long.accounts import Account
from tests.long.chaos.guaranteed_bookings import GuaranteedBookings, Recorded

NAMESPACE: Final = "chaos"
NODES: Final = ("node-a", "node-b")
GPUS: Final = 4
"""Of each node: two A100, and two of another model."""
PEOPLE: Final = 6


class Product(Installed):
    """The chart's product, with people of ours who book again and again."""

    def values(self) -> dict[str, Any]:
        """As ever, but for the people and the policy."""
        usual = super().values()
        again = {"cooldown": "PT0S", "shortest_booking": "PT1S"}
        server = {**usual["server"], "settings": {**usual["server"]["settings"], **again}}
        return {**usual, "identityRules": accounts.rules(NAMESPACE), "server": server}


class Ground:
    """A cluster with the product in it."""

    def __init__(self, cluster: Cluster, product: Product) -> None:
        self.cluster = cluster
        self.kube: KubeClient = administrator(cluster)
        self.guaranteed = GuaranteedBookings()
        """What the booking server has answered to anybody."""
        rest = partial(Recorded, self.guaranteed)
        self.people: list[Account] = accounts.make(cluster, product.booking_url, NAMESPACE, PEOPLE, rest=rest)

    def give_workloads(self, to: Account) -> None:
        """An administrator says whose the pods of the namespace's controllers are."""
        owner = f"{names.OWNER}={to.name}"
        self.cluster.kubectl("annotate", "--overwrite", "namespace", NAMESPACE, owner)


@contextmanager
def ground() -> Iterator[Ground]:
    """A cluster of two nodes on which the product has just become ready."""
    nodes = tuple(NodeSpec(name=name, gpus=default_gpus(index)) for index, name in enumerate(NODES))
    with Cluster.start(ClusterSpec(name=own("chaos"), nodes=nodes)) as cluster:
        product = Product(cluster)
        product.deploy()
        yield Ground(cluster, product)
