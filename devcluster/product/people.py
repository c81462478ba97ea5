"""People of a development cluster: a ServiceAccount for each, and their users in our parts."""

import json
from pathlib import Path
from typing import Any, Final, Protocol

from devcluster import kubeconfig

NAMESPACE: Final = "research"
USERS: Final = ("alice", "bob")
IDENTITY_RULES: Final = json.dumps(
    [
        {
            "source": "kubernetes",
            "match": f"system:serviceaccount:{NAMESPACE}:({'|'.join(USERS)})",
            "user": r"\1",
        },
        {"source": "jupyterhub", "match": "|".join(USERS)},
    ]
)
"""Setting of booking server and controller: these accounts, and a hub's users of these names, are the only
people."""
_TOKEN_SECONDS = 24 * 3600


class Administration(Protocol):
    """What this needs of the cluster."""

    def kubectl(self, *words: str, given: str | None = None) -> str:
        """Run the administrator's kubectl."""
        ...

    def kubeconfig_text(self, token: str | None = None, user: str = ...) -> str:
        """A kubeconfig for a token."""
        ...


class People:
    """Alice and Bob in a cluster. Each may edit what is in the namespaces that they are admitted to."""

    def __init__(self, cluster: Administration, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder

    def create(self) -> None:
        """Make their accounts and their common namespace, in which they may edit."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        accounts = [_account(user) for user in USERS]
        self._apply([namespace, *accounts, *(_binding(user, NAMESPACE) for user in USERS)])

    def admit(self, user: str, namespace: str) -> None:
        """Give a person the role ``edit`` in a namespace."""
        self._apply([_binding(user, namespace)])

    def token(self, user: str, audience: str | None = None) -> str:
        """A new token of a person, for the API server unless an audience is named.

        Raises:
            ClusterError: there is no such account.
        """
        audiences = [f"--audience={audience}"] if audience else []
        words = ["create", "token", user, f"--namespace={NAMESPACE}", f"--duration={_TOKEN_SECONDS}s"]
        return self._cluster.kubectl(*words, *audiences).strip()

    def kubeconfig(self, user: str) -> Path:
        """A kubeconfig file with a new token of a person, readable by its owner only."""
        text = self._cluster.kubeconfig_text(self.token(user), user)
        return kubeconfig.write(self._folder / f"{user}.kubeconfig", text)

    def _apply(self, documents: list[dict[str, Any]]) -> None:
        given = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
        self._cluster.kubectl("apply", "--server-side", "--filename=-", given=given)


def _account(user: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": user, "namespace": NAMESPACE},
    }


def _binding(user: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{user}-edits", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": user, "namespace": NAMESPACE}],
    }
