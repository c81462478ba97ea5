"""Access to the API server by the official client: addresses, credentials and their renewal, proxies, TLS.

Requests go through its pools of connections undecoded; ``cluster.kube.client`` decodes what is needed. The
node agent does without it (``cluster.kube.in_cluster``): it costs 21 MiB of memory.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import structlog
import urllib3
from kubernetes.client.configuration import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import InClusterConfigLoader

from cluster.kube.connection import BadConnectionError, Credentials, SocketOptions
from cluster.kube.in_cluster import SERVICE_ACCOUNT, KubeSettings, in_cluster
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

_KEY: Final = "BearerToken"
_BEARER: Final = "bearer "
_HTTPS: Final = 443
Load = Callable[[Configuration], None]
"""Fills in a configuration; reads the credentials again each time."""


class OfficialAccess:
    """The API server by a configuration of the official client."""

    def __init__(self, load: Load) -> None:
        """Load the configuration.

        Raises:
            BadConnectionError: it cannot be loaded.
        """
        self._load = load
        self._configuration = Configuration()
        self._loaded()

    @property
    def server(self) -> str:
        """URL of the API server."""
        return str(self._configuration.host)

    @property
    def credentials(self) -> Credentials:
        """The configuration's token."""
        return self

    def token(self) -> str | None:
        """The present bearer token, renewed by the official client when it is due; None to send none."""
        try:
            value = self._configuration.get_api_key_with_prefix(_KEY)
        except (ConfigException, OSError) as error:
            log.warning("the credentials cannot be renewed: the previous ones are used", error=str(error))
            value = self._configuration.api_key.get(_KEY)
        return value[len(_BEARER) :].strip() if value else None

    def invalidate(self) -> None:
        """The server answered 401: load the credentials again; the old ones if that fails."""
        try:
            self._loaded()
        except BadConnectionError as error:
            log.warning("the credentials cannot be read again: the previous ones are used", error=str(error))

    def pools(self, connections: int, options: SocketOptions) -> urllib3.PoolManager:
        """See ``ApiServerAccess``."""
        self._configuration.connection_pool_maxsize = connections
        self._configuration.socket_options = list(options)
        found: urllib3.PoolManager = RESTClientObject(self._configuration).pool_manager
        return found

    def _loaded(self) -> None:
        try:
            self._load(self._configuration)
        except (ConfigException, OSError) as error:
            raise BadConnectionError(f"The connection to the API server cannot be made: {error}") from error


def configured(
    settings: KubeSettings, clock: Clock, environ: Mapping[str, str], *, mounted: Path = SERVICE_ACCOUNT
) -> OfficialAccess:
    """Access by the settings, and for the rest as in every pod; see ``cluster.kube.in_cluster``.

    Raises:
        BadConnectionError: no address, or a file is missing.
    """
    token_file = settings.kube_token_file or mounted / "token"
    checked = in_cluster(
        clock,
        environ,
        server=settings.kube_server,
        ca_file=settings.kube_ca_file,
        token_file=token_file,
        mounted=mounted,
    )
    address = urlsplit(checked.server)

    def load(configuration: Configuration) -> None:
        loader = InClusterConfigLoader(
            token_filename=str(token_file),
            cert_filename=str(checked.ca_file),
            environ={
                "KUBERNETES_SERVICE_HOST": address.hostname or "",
                "KUBERNETES_SERVICE_PORT": str(address.port or _HTTPS),
            },
        )
        loader.load_and_set(configuration)
        # The loader knows no other scheme than https, and no path.
        loader.host = configuration.host = checked.server

    return OfficialAccess(load)
