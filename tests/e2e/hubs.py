"""The JupyterHub of end-to-end tests: a ServiceAccount whose word about its users counts."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from devcluster.product.people import NAMESPACE


@dataclass(frozen=True)
class HubAccount:
    """It is in the people's namespace, as their accounts are."""

    name: str
    namespace: str = NAMESPACE

    @property
    def user(self) -> str:
        """As the API server says it."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    def admit(self, kubectl: Callable[..., str], namespace: str) -> None:
        """Make the account, and let it edit in a namespace."""
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        subject = {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
        items = [
            {**account, "metadata": {"name": self.name, "namespace": self.namespace}},
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": f"{self.name}-edits", "namespace": namespace},
                "roleRef": role,
                "subjects": [subject],
            },
        ]
        given = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        kubectl("apply", "--server-side", "--filename=-", given=given)


HUB: Final = HubAccount("hub")
