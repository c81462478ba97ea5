"""People by the dozen: ServiceAccounts of one namespace, and their tokens."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from cluster import names
from cluster.kube.client import KubeClient
from devcluster.cluster import Cluster
from devcluster.demo.access import person
from devcluster.demo.rest import Rest

THREADS: Final = 4


@dataclass(frozen=True)
class Account:
    """Somebody with a name, at the API server and at the booking server."""

    name: str
    namespace: str
    """Where they may edit."""
    kube: KubeClient
    rest: Rest


def rules(namespace: str) -> list[dict[str, str]]:
    """By which rules of identity the accounts of a namespace are people, and nobody else is."""
    account = rf"system:serviceaccount:{namespace}:(user-\d+)"
    return [{"source": "kubernetes", "match": account, "user": r"\1"}]


def make(
    cluster: Cluster, url: str, namespace: str, count: int, *, rest: Callable[[str, str], Rest] = Rest
) -> list[Account]:
    """So many people, who may edit what is in the one namespace; it is made with them.

    Args:
        cluster: whose people they are.
        url: of the booking server.
        namespace: of theirs.
        count: how many; they are called ``user-00`` and so on.
        rest: makes somebody's access to the booking server, of its URL and a token.
    """
    users = [f"user-{number:02d}" for number in range(count)]
    metadata = [{"name": user, "namespace": namespace} for user in users]
    documents = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        *({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": one} for one in metadata),
        _edit(users, namespace),
    ]
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    cluster.kubectl("apply", "--server-side", "--filename=-", given=given)

    def account(user: str) -> Account:
        words = ("create", "token", user, f"--namespace={namespace}", "--duration=24h")
        kube = person(cluster, cluster.kubectl(*words).strip())
        token = cluster.kubectl(*words, f"--audience={names.AUDIENCE}").strip()
        return Account(user, namespace, kube, rest(url, token))

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(account, users))


def _edit(users: list[str], namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "people-edit", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": user, "namespace": namespace} for user in users],
    }
