"""A pod's connection to its API server, with settings for processes that run elsewhere."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from cluster.kube.connection import BadConnectionError, Connection, TokenFile
from cluster.process.clock import Clock

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster(
    clock: Clock,
    environ: Mapping[str, str],
    *,
    server: str | None = None,
    ca_file: Path | None = None,
    token_file: Path | None = None,
    mounted: Path = SERVICE_ACCOUNT,
) -> Connection:
    """The connection; arguments that are None are taken from what the kubelet provides to every pod.

    Args:
        clock: for the rotation of the token.
        environ: has ``KUBERNETES_SERVICE_HOST`` and ``KUBERNETES_SERVICE_PORT``.
        server: e.g. ``https://127.0.0.1:6443``.
        ca_file: PEM.
        token_file: read again every minute.
        mounted: the folder with the ServiceAccount's files.

    Raises:
        BadConnectionError: no address, or a file is missing.
    """
    return Connection(
        server=server or _service(environ),
        ca_file=ca_file or mounted / "ca.crt",
        credentials=TokenFile(token_file or mounted / "token", clock),
    )


class KubeSettings(Protocol):
    """The settings of every part of ours about its API server; each may be None."""

    @property
    def kube_server(self) -> str | None:
        """Its URL."""
        ...

    @property
    def kube_ca_file(self) -> Path | None:
        """Certificate of the server's authority, PEM."""
        ...

    @property
    def kube_token_file(self) -> Path | None:
        """File with the token that we authenticate with."""
        ...


def configured(settings: KubeSettings, clock: Clock, environ: Mapping[str, str]) -> Connection:
    """The connection by the settings, and for the rest as in every pod.

    Raises:
        BadConnectionError: no address, or a file is missing.
    """
    return in_cluster(
        clock,
        environ,
        server=settings.kube_server,
        ca_file=settings.kube_ca_file,
        token_file=settings.kube_token_file,
    )


def _service(environ: Mapping[str, str]) -> str:
    host = environ.get("KUBERNETES_SERVICE_HOST")
    if not host:
        raise BadConnectionError(
            "The API server's address is unknown: KUBERNETES_SERVICE_HOST is not set, so this is not a pod,"
            " and no address was given."
        )
    port = environ.get("KUBERNETES_SERVICE_PORT") or "443"
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
