"""Identities of our parts: accounts and RBAC are the chart's, tokens come from TokenRequest."""

import json
from pathlib import Path
from typing import Protocol

from cluster import names
from devcluster.product.part import PATH

_TOKEN_SECONDS = 24 * 3600


class Administration(Protocol):
    """What this needs of the cluster."""

    @property
    def api_server(self) -> str:
        """URL of the API server."""
        ...

    @property
    def ca_file(self) -> Path:
        """Certificate of its authority."""
        ...

    def service_account_token(
        self, namespace: str, name: str, seconds: int = 3600, *, node: str | None = None
    ) -> str:
        """A fresh token of a ServiceAccount, bound to a Node if one is named."""
        ...


def environment(
    cluster: Administration, folder: Path, account: str, *, node: str | None = None
) -> dict[str, str]:
    """The environment in which a process of ours calls the API server as one of our ServiceAccounts.

    Args:
        cluster: it issues the tokens.
        folder: for the token's file.
        account: the ServiceAccount.
        node: where the process runs, if its token shall name that Node, as the token of a pod does.
    """
    return {
        "PATH": PATH,
        names.setting("kube_server"): cluster.api_server,
        names.setting("kube_ca_file"): str(cluster.ca_file),
        names.setting("kube_token_file"): str(write_token(cluster, folder, account, node=node)),
    }


def write_token(cluster: Administration, folder: Path, account: str, *, node: str | None = None) -> Path:
    """Write a token of one of our ServiceAccounts, bound to a Node if one is named. Returns the file.

    Only the file's owner can read it.
    """
    path = folder / (f"{account}.{node}.token" if node else f"{account}.token")
    path.touch(mode=0o600)
    path.write_text(cluster.service_account_token(names.NAMESPACE, account, _TOKEN_SECONDS, node=node))
    return path


def write_kubeconfig(cluster: Administration, folder: Path, account: str) -> Path:
    """Write a kubeconfig for a program that reads nothing else: kube-scheduler."""
    server = {"server": cluster.api_server, "certificate-authority": str(cluster.ca_file)}
    token_file = str(write_token(cluster, folder, account))
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": server}],
        "users": [{"name": "account", "user": {"tokenFile": token_file}}],
        "contexts": [{"name": "account", "context": {"cluster": "cluster", "user": "account"}}],
        "current-context": "account",
    }
    path = folder / f"{account}.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(document, indent=1))
    return path
