"""Identities of our parts: RBAC from the chart, tokens by TokenRequest."""

import json
from pathlib import Path
from typing import Protocol

from cluster import names
from devcluster.places import CHECKOUT

MANIFESTS = CHECKOUT / "charts" / "gpu-booking" / "manifests"
_TOKEN_SECONDS = 24 * 3600


class Administration(Protocol):
    """What this needs of the cluster."""

    def kubectl(self, *words: str, given: str | None = None) -> str:
        """Run the administrator's kubectl."""
        ...

    def service_account_token(self, namespace: str, name: str, seconds: int = 3600) -> str:
        """A fresh token of a ServiceAccount."""
        ...


def apply_manifests(cluster: Administration) -> None:
    """Create the namespace, ServiceAccounts and roles that the chart will install."""
    cluster.kubectl("apply", "--filename", str(MANIFESTS))


def write_token(cluster: Administration, folder: Path, account: str) -> Path:
    """A token file for one of our ServiceAccounts, readable by its owner only."""
    path = folder / f"{account}.token"
    path.touch(mode=0o600)
    path.write_text(cluster.service_account_token(names.NAMESPACE, account, _TOKEN_SECONDS))
    return path


def write_kubeconfig(path: Path, *, server: str, ca_file: Path, token_file: Path) -> Path:
    """A kubeconfig for a program that reads nothing else: kube-scheduler."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "cluster", "cluster": {"server": server, "certificate-authority": str(ca_file)}}
        ],
        "users": [{"name": "account", "user": {"tokenFile": str(token_file)}}],
        "contexts": [{"name": "account", "context": {"cluster": "cluster", "user": "account"}}],
        "current-context": "account",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(document, indent=1))
    return path
