"""The clients of an API server under the chart's policies: each with its own token, none impersonated."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import urllib3

from cluster import names
from devcluster.cluster import Cluster

Json = dict[str, Any]

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
JSON: Final = "application/json"
US: Final = names.NAMESPACE
HOME: Final = "research"
"""Where alice and bob may edit."""
BLIND: Final = "blind"
"""A namespace of theirs whose pods without a GPU see none."""
BY_FIELD: Final = {
    "name": names.VISIBLE_DEVICES_VARIABLE,
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
}
"""A variable that no policy can replace."""
EVERYTHING: Final = [
    {"apiGroups": [""], "resources": ["*"], "verbs": ["*"]},
    {"apiGroups": ["apps", "batch"], "resources": ["*"], "verbs": ["*"]},
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": ["*"]},
]
"""What RBAC gives the operators: all that the policies guard."""
ADMINISTERING: Final = [{"apiGroups": [names.DOMAIN], "resources": ["bookings"], "verbs": ["administer"]}]


def is_denied(answer: "Answer", *words: str) -> bool:
    """Whether a policy of ours has refused it, in a sentence with these words."""
    message = answer.message
    return answer.status == 403 and "denied request: " in message and all(word in message for word in words)


@dataclass(frozen=True)
class Answer:
    """What the API server said."""

    status: int
    body: Json

    @property
    def message(self) -> str:
        """Its words, where it refused."""
        return str(self.body.get("message", ""))

    @property
    def annotations(self) -> Json:
        """Of the object."""
        found: Json = self.body["metadata"].get("annotations", {})
        return found

    @property
    def kept(self) -> tuple[Json, Json, list[str]]:
        """Annotations, labels and finalizers of the object."""
        metadata = self.body["metadata"]
        return self.annotations, metadata.get("labels", {}), metadata.get("finalizers", [])


class Somebody:
    """One bearer of a token, or of none."""

    def __init__(self, cluster: Cluster, token: str | None, headers: Mapping[str, str] | None = None) -> None:
        self._server = cluster.api_server
        self._pool = urllib3.PoolManager(ca_certs=str(cluster.ca_file), retries=False, timeout=60)
        self._headers = dict(headers or {})
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def get(self, path: str) -> Answer:
        """Read an object."""
        return self._ask("GET", path, None, JSON)

    def create(self, path: str, body: Json, *, dry: bool = False) -> Answer:
        """Post an object."""
        return self._ask("POST", f"{path}?dryRun=All" if dry else path, body, JSON)

    def patch(self, path: str, body: Json, how: str = MERGE) -> Answer:
        """Patch an object; the field manager is forced, where it is an apply."""
        query = "?fieldManager=somebody&force=true" if how == APPLY else ""
        return self._ask("PATCH", path + query, body, how)

    def change(self, path: str, metadata: Json) -> Answer:
        """Merge-patch an object's metadata."""
        return self.patch(path, {"metadata": metadata})

    def replace(self, path: str, body: Json) -> Answer:
        """Put an object."""
        return self._ask("PUT", path, body, JSON)

    def delete(self, path: str) -> Answer:
        """Delete one or, of a list's path, all."""
        return self._ask("DELETE", path, {"gracePeriodSeconds": 0}, JSON)

    def _ask(self, method: str, path: str, body: Json | None, kind: str) -> Answer:
        answer = self._pool.request(
            method,
            self._server + path,
            body=None if body is None else json.dumps(body),
            headers={"Content-Type": kind, **self._headers},
        )
        return Answer(answer.status, answer.json())


class People:
    """Everybody who sends requests."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.root = Somebody(cluster, cluster.administrator_token)
        self._make()
        self.alice = self.account(HOME, "alice")
        """ClusterRole edit, in the namespaces of HOME and BLIND."""
        self.operator = self.account(HOME, "operator")
        """May write everything that is guarded, but does not administer bookings."""
        self.administrator = self.account(HOME, "administrator")
        """The same, and administers them."""
        self.controller = self.account(US, names.CONTROLLER)
        self.extender = self.account(US, names.EXTENDER)
        self.scheduler = self.component("kube-scheduler")
        self.kubelet = self.component("node-a")

    def account(self, namespace: str, name: str, *, node: str | None = None) -> Somebody:
        """A ServiceAccount with a fresh token, bound to a Node if one is named."""
        token = self._cluster.service_account_token(namespace, name, node=node)
        return Somebody(self._cluster, token)

    def component(self, name: str) -> Somebody:
        """A daemon of the cluster: kube-scheduler, or a node's kubelet."""
        return Somebody(self._cluster, self._cluster._plan.pki.token(name))

    def _make(self) -> None:
        accounts = [_account(name) for name in ("alice", "operator", "administrator")]
        label = {names.NO_VISIBLE_DEVICES: "true"}
        blind = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": BLIND, "labels": label}}
        roles = [_role("everything", EVERYTHING), _role("administering", ADMINISTERING)]
        bound = [
            _bound("operator", "everything"),
            _bound("administrator", "everything"),
            _bound("administrator", "administering"),
            *(_bound("alice", "edit", namespace) for namespace in (HOME, BLIND)),
        ]
        home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
        items = {"apiVersion": "v1", "kind": "List", "items": [home, blind, *accounts, *roles, *bound]}
        self._cluster.kubectl("apply", "--server-side", "--filename=-", given=json.dumps(items))


def seen(answer: Answer, *lists: str) -> list[list[str | None]]:
    """What the variable of NVIDIA's runtime says in each container of a pod."""
    variable, spec = names.VISIBLE_DEVICES_VARIABLE, answer.body["spec"]
    containers = [container for key in lists or ("containers",) for container in spec.get(key, [])]
    return [[e.get("value") for e in c.get("env", []) if e["name"] == variable] for c in containers]


def pods(namespace: str = HOME) -> str:
    """Path of a namespace's pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


def a_pod(*, gpus: int = 0, spec: Json | None = None, container: Json | None = None, **metadata: Any) -> Json:
    """A pod whose image does not exist."""
    main = {"name": "main", "image": "example.invalid/none", **(container or {})}
    if gpus:
        main["resources"] = {"limits": {names.GPU_RESOURCE: str(gpus)}}
    metadata = metadata or {"generateName": "p-"}
    return {"metadata": metadata, "spec": {"containers": [main], **(spec or {})}}


def a_binding(pod: str, node: str = "nowhere", **metadata: Any) -> Json:
    """What puts a pod on a node."""
    target = {"kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding"}
    return {**body, "metadata": {"name": pod, **metadata}, "target": target}


def _account(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": HOME}}


def _role(name: str, rules: list[Json]) -> Json:
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    return {**kind, "metadata": {"name": name}, "rules": rules}


def _bound(account: str, role: str, namespace: str | None = None) -> Json:
    where = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": f"{account}-{role}", **where},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": HOME}],
    }
