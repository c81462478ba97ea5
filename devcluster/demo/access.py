"""Clients of a development cluster, for the administrator and for people: the story and tests use them."""

from typing import Final

from cluster import names
from cluster.kube.client import KubeClient
from cluster.kube.connection import Connection
from cluster.kube.transport import Timeouts
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster

_TIMEOUTS: Final = Timeouts(connect=15.0)
"""A TLS handshake takes long on a machine that is busy with a whole cluster; our parts keep the defaults."""


class _Bearer:
    """One token, which is not renewed."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        """The token, always the same."""
        return self._token

    def invalidate(self) -> None:
        """Do nothing: there is no other token to try."""


def administrator(cluster: Cluster) -> KubeClient:
    """A client with every right. Its token is never given to our parts."""
    return person(cluster, cluster.administrator_token)


def person(cluster: Cluster, token: str) -> KubeClient:
    """A client with the rights of the token's owner."""
    connection = Connection(server=cluster.api_server, ca_file=cluster.ca_file, credentials=_Bearer(token))
    return KubeClient(connection, SystemClock(), user_agent=names.DEVCLUSTER, timeouts=_TIMEOUTS)
