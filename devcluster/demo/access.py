"""Clients for a development cluster, the administrator's and people's: story and tests act with them."""

from typing import Final

from cluster import names
from cluster.kube.client import KubeClient
from cluster.kube.connection import Connection
from cluster.kube.transport import Timeouts
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster

_TIMEOUTS: Final = Timeouts(connect=15.0)
"""A machine that is busy with a whole cluster shakes hands late; our parts have the usual ones."""


class _Bearer:
    """One token, for as long as it lasts."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        """The token, always the same."""
        return self._token

    def invalidate(self) -> None:
        """There is no other token to try."""


def administrator(cluster: Cluster) -> KubeClient:
    """A client with every right. Its token is never given to our parts."""
    return person(cluster, cluster.administrator_token)


def person(cluster: Cluster, token: str) -> KubeClient:
    """A client with the rights of the token's owner."""
    connection = Connection(server=cluster.api_server, ca_file=cluster.ca_file, credentials=_Bearer(token))
    return KubeClient(connection, SystemClock(), user_agent=names.DEVCLUSTER, timeouts=_TIMEOUTS)
