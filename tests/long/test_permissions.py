"""Our parts run with their own ServiceAccounts and may do what they do, and no more."""

import json
from pathlib import Path

import pytest

from cluster import names
from devcluster.cluster import Cluster
from devcluster.product import Parts

pytestmark = pytest.mark.e2e

ALLOWED = {
    names.NODE_AGENT: [
        ("patch", "nodes"),
        ("list", "pods"),
        ("create", "leases.coordination.k8s.io"),
    ],
    names.EXTENDER: [("create", "pods/binding"), ("watch", "pods"), ("watch", "nodes")],
}
FORBIDDEN = {
    names.NODE_AGENT: [
        ("create", "pods/binding"),
        ("delete", "pods"),
        ("get", "secrets"),
        ("patch", "pods"),
        ("create", "events"),
    ],
    names.EXTENDER: [("delete", "pods"), ("patch", "pods"), ("patch", "nodes"), ("get", "secrets")],
}


def may(cluster: Cluster, account: str, verb: str, wanted: str) -> bool:
    resource, _, subresource = wanted.partition("/")
    plural, _, group = resource.partition(".")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:gpu-booking:{account}",
            "groups": [
                "system:serviceaccounts",
                "system:serviceaccounts:gpu-booking",
                "system:authenticated",
            ],
            "resourceAttributes": {
                "namespace": "gpu-booking",
                "verb": verb,
                "group": group,
                "resource": plural,
                "subresource": subresource,
            },
        },
    }
    answer = cluster.kubectl("create", "-f", "-", "-o", "json", given=json.dumps(review))
    return bool(json.loads(answer)["status"]["allowed"])


@pytest.mark.parametrize(("account", "verb", "resource"), [(a, *w) for a, ws in ALLOWED.items() for w in ws])
def test_a_part_may_do_its_work(
    cluster: Cluster, parts: Parts, account: str, verb: str, resource: str
) -> None:
    assert parts
    assert may(cluster, account, verb, resource)


@pytest.mark.parametrize(
    ("account", "verb", "resource"), [(a, *w) for a, ws in FORBIDDEN.items() for w in ws]
)
def test_a_part_may_do_nothing_else(
    cluster: Cluster, parts: Parts, account: str, verb: str, resource: str
) -> None:
    assert parts
    assert not may(cluster, account, verb, resource)


def test_no_part_holds_an_administrators_token(cluster: Cluster, parts: Parts) -> None:
    administrator = cluster.administrator_token
    alone = (parts.extender(), parts.scheduler(), parts.server(), parts.controller())
    for daemon in (*alone, *(parts.agent(node) for node in cluster.nodes)):
        environment = Path(f"/proc/{daemon.pid}/environ").read_bytes()
        assert administrator.encode() not in environment
    for path in parts.folder.iterdir():
        if path.is_file():
            assert administrator.encode() not in path.read_bytes()
