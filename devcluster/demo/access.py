"""The administrator's client for a development cluster: what the story and the tests act with."""

from cluster.kube.client import KubeClient
from cluster.kube.connection import Connection
from cluster.runtime.clock import SystemClock
from devcluster.cluster import Cluster


class _Administrator:
    """The cluster's own admin token. Never given to our parts."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        """The token: it lives as long as the cluster."""
        return self._token

    def refused(self) -> None:
        """There is no other token to try."""


def administrator(cluster: Cluster) -> KubeClient:
    """A client with every right."""
    connection = Connection(
        server=cluster.api_server,
        ca_file=cluster.ca_file,
        credentials=_Administrator(cluster.administrator_token),
    )
    return KubeClient(connection, SystemClock(), user_agent="gpu-booking-devcluster")
