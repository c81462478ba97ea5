"""Access to the API server by the official client: addresses, credentials and their renewal, proxies, TLS.

Requests go through its pools of connections undecoded; ``cluster.kube.client`` decodes what is needed. The
node agent does without it (``cluster.kube.in_cluster``): it costs 21 MiB of memory.
"""

import copy
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import certifi
import structlog
import urllib3
from kubernetes.client.configuration import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import InClusterConfigLoader
from kubernetes.config.kube_config import ConfigNode, KubeConfigLoader, KubeConfigMerger

from cluster.kube.connection import BadConnectionError, Credentials, SocketOptions
from cluster.kube.in_cluster import SERVICE_ACCOUNT, KubeSettings, in_cluster
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

KEPT_SECONDS: Final = 5.0
"""How long a token is used before the official client is asked again: it reads a pod's token every minute."""
_KEY: Final = "BearerToken"
_BEARER: Final = "bearer "
_HTTPS: Final = 443
_AUTHORITY: Final = "idp-certificate-authority"
Load = Callable[[Configuration], None]
"""Fills in a configuration; reads the credentials again each time."""


class OfficialAccess:
    """The API server by a configuration of the official client."""

    def __init__(self, load: Load, clock: Clock | None = None) -> None:
        """Load the configuration.

        Args:
            load: fills it in.
            clock: with it a token is kept for ``KEPT_SECONDS``.

        Raises:
            BadConnectionError: it cannot be loaded.
        """
        self._load, self._clock = load, clock
        self._kept: tuple[float, str | None] | None = None
        """Until when a token is used, by the clock, and the token."""
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
        if self._clock is None:
            return self._asked()
        now, kept = self._clock.monotonic(), self._kept
        if kept is None or now >= kept[0]:
            self._kept = kept = now + KEPT_SECONDS, self._asked()
        return kept[1]

    def _asked(self) -> str | None:
        """The token as the official client has it, which fills in the whole configuration for each."""
        try:
            value = self._configuration.get_api_key_with_prefix(_KEY)
        except (ConfigException, OSError) as error:
            log.warning("the credentials cannot be renewed: the previous ones are used", error=str(error))
            value = self._configuration.api_key.get(_KEY)
        return value[len(_BEARER) :].strip() if value and value.lower().startswith(_BEARER) else None

    def invalidate(self) -> None:
        """The server answered 401: load the credentials again; the old ones if that fails."""
        try:
            self._loaded()
            self._kept = None
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

    return OfficialAccess(load, clock)


Document = tuple[Path, dict[str, Any]]
"""A kubeconfig file and its content."""


def of_kubeconfig(
    documents: Sequence[Document], context: str, made: Mapping[str, str] | None = None
) -> OfficialAccess:
    """Access as the user of a kubeconfig's context. An OIDC provider's renewed tokens are kept in their file.

    Args:
        documents: in order; of two entries with one name the first counts.
        context: its name; its cluster has a ``server``.
        made: the user's entry with what a credential plugin has made; None if it has no plugin.

    Raises:
        BadConnectionError: something in it cannot be used.
    """

    def load(configuration: Configuration) -> None:
        try:
            _loader(documents, context, made).load_and_set(configuration)
        except Exception as error:
            # What a kubeconfig has in it, and what an OIDC provider answers, may be anything.
            raise BadConnectionError(
                f"The context {context} of the kubeconfig cannot be used: {str(error).rstrip('.')}."
            ) from error
        if str(configuration.proxy).startswith("socks") and find_spec("socks") is None:
            raise BadConnectionError(
                f"The context {context} names a SOCKS proxy (proxy-url), and PySocks is not installed."
            )

    return OfficialAccess(load)


def _loader(documents: Sequence[Document], context: str, made: Mapping[str, str] | None) -> KubeConfigLoader:
    merged = {kind: _first_of(documents, kind) for kind in ("clusters", "contexts", "users")}
    nodes = {
        kind: [ConfigNode(kind, entry, str(path)) for path, entry in merged[kind].values()] for kind in merged
    }
    user = merged["contexts"][context][1]["context"].get("user")
    persist = None
    if user in merged["users"]:
        path, entry = merged["users"][user]
        if made is None:
            persist = _renewable(documents, path, entry.get("user") or {})
        else:
            nodes["users"] = [ConfigNode("users", {**entry, "user": dict(made)}, str(path))]
    return KubeConfigLoader(
        ConfigNode("kubeconfig", nodes), context, config_base_path=None, config_persister=persist
    )


def _first_of(documents: Sequence[Document], kind: str) -> dict[str, Document]:
    first: dict[str, Document] = {}
    for path, document in documents:
        for entry in document.get(kind) or ():
            first.setdefault(entry["name"], (path, entry))
    return first


def _renewable(documents: Sequence[Document], path: Path, user: dict[str, Any]) -> Callable[[], None]:
    """What keeps renewed tokens of an OIDC provider in their file.

    Where the kubeconfig names no authorities for the provider, the system's verify it: the official client
    would not verify it at all, and send the refresh token where it says.
    """
    config = (user.get("auth-provider") or {}).get("config") or {}
    authorities = ssl.get_default_verify_paths().cafile or certifi.where()
    writer = KubeConfigMerger("")
    writer.paths = [str(path)]
    writer.config_files = {str(each): content for each, content in documents}
    writer.config_saved = copy.deepcopy(writer.config_files)
    is_ours = f"{_AUTHORITY}-data" not in config and config.get(_AUTHORITY, authorities) == authorities
    if is_ours and config:
        config[_AUTHORITY] = authorities

    def persist() -> None:
        if is_ours:
            config.pop(_AUTHORITY, None)
        with suppress(OSError):  # a kubeconfig that cannot be written still says who asks
            writer.save_changes()

    return persist
