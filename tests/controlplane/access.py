"""A client for a cluster of ours, and kinds of objects that only tests ask for."""

from cluster.kube.client import KubeClient
from cluster.kube.connection import Connection
from cluster.kube.resources import Resource
from cluster.objects.meta import Meta, Partial
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster


class Named(Partial, frozen=True):
    """Any object of which only the name matters."""

    metadata: Meta = Meta()


NAMESPACES = Resource(
    group="", version="v1", plural="namespaces", kind="Namespace", namespaced=False, type=Named
)
ACCOUNTS = Resource(
    group="", version="v1", plural="serviceaccounts", kind="ServiceAccount", namespaced=True, type=Named
)
BUDGETS = Resource(
    group="policy",
    version="v1",
    plural="poddisruptionbudgets",
    kind="PodDisruptionBudget",
    namespaced=True,
    type=Named,
)
PRIORITY_CLASSES = Resource(
    group="scheduling.k8s.io",
    version="v1",
    plural="priorityclasses",
    kind="PriorityClass",
    namespaced=False,
    type=Named,
)


class Token:
    """A token that stays."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str | None:
        """The token."""
        return self._token

    def invalidate(self) -> None:
        """There is no other."""


def client(cluster: Cluster, token: str) -> KubeClient:
    """Somebody's client."""
    connection = Connection(server=cluster.api_server, ca_file=cluster.ca_file, credentials=Token(token))
    return KubeClient(connection, SystemClock(), user_agent="gpu-booking-tests/1")
