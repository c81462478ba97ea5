"""Each account may do its part's work and nothing else, as a real API server understands the chart."""

import json

import pytest

from cluster import names
from devcluster.cluster import Cluster

pytestmark = pytest.mark.controlplane

US = names.NAMESPACE
ANYWHERE = "research"

ALLOWED = {
    names.NODE_AGENT: [
        ("patch", "nodes", ""),
        ("watch", "nodes", ""),
        ("create", "events", "default"),
        ("list", "pods", ANYWHERE),
        ("create", "leases.coordination.k8s.io", US),
    ],
    # Its pods' extender has the same account.
    names.SCHEDULER_ACCOUNT: [
        ("create", "pods/binding", ANYWHERE),
        ("watch", "pods", ANYWHERE),
        ("watch", "nodes", ""),
        ("watch", f"bookings.{names.DOMAIN}", ""),
        ("watch", "namespaces", ""),
        ("create", "events", ANYWHERE),
        ("list", "leases.coordination.k8s.io", US),
        ("patch", "csistoragecapacities.storage.k8s.io", US),
        ("update", f"leases.coordination.k8s.io={names.SCHEDULER_LEASE}", US),
        ("patch", f"leases.coordination.k8s.io={names.VERDICT_LEASE}", US),
    ],
    names.BOOKING_SERVER: [
        ("create", "tokenreviews.authentication.k8s.io", ""),
        ("create", "subjectaccessreviews.authorization.k8s.io", ""),
        ("create", f"bookings.{names.DOMAIN}", ""),
        ("patch", f"bookings.{names.DOMAIN}", ""),
        ("delete", f"bookings.{names.DOMAIN}", ""),
        ("list", "resourcequotas", ANYWHERE),
        ("list", "events", ANYWHERE),
        ("patch", "pods", ANYWHERE),
        ("watch", "pods", ANYWHERE),
        ("get", "namespaces", ""),
        ("get", "nodes", ""),
        ("watch", "nodes", ""),
        ("patch", "nodes", ""),
        ("watch", "namespaces", ""),
        ("watch", "jobs.batch", ANYWHERE),
        ("watch", f"bookings.{names.DOMAIN}", ""),
        ("create", "leases.coordination.k8s.io", US),
        ("watch", "leases.coordination.k8s.io", US),
        ("get", f"leases.coordination.k8s.io={names.MIRROR_LEASE}", US),
        ("patch", f"leases.coordination.k8s.io={names.MIRROR_LEASE}", US),
    ],
    names.CONTROLLER: [
        ("watch", "pods", ANYWHERE),
        ("create", "pods", ANYWHERE),
        ("patch", "pods", ANYWHERE),
        ("delete", "pods", ANYWHERE),
        ("create", "pods/eviction", ANYWHERE),
        ("patch", "pods/status", ANYWHERE),
        ("create", "podtemplates", ANYWHERE),
        ("patch", "podtemplates", ANYWHERE),
        ("delete", "podtemplates", ANYWHERE),
        ("watch", f"bookings.{names.DOMAIN}", ""),
        ("patch", f"bookings.{names.DOMAIN}/status", ""),
        ("watch", "nodes", ""),
        ("list", "persistentvolumeclaims", ANYWHERE),
        ("watch", "persistentvolumes", ""),
        ("watch", "storageclasses.storage.k8s.io", ""),
        ("watch", "jobs.batch", ANYWHERE),
        ("create", "events", ANYWHERE),
        ("patch", f"leases.coordination.k8s.io={names.CONTROLLER_LEASE}", US),
        ("create", "secrets", US),
        ("patch", f"secrets={names.WEBHOOK_KEYS}", US),
        ("patch", f"mutatingwebhookconfigurations.admissionregistration.k8s.io={names.WEBHOOK}", ""),
        ("patch", f"mutatingwebhookconfigurations.admissionregistration.k8s.io={names.LAST_WEBHOOK}", ""),
    ],
}
FORBIDDEN = {
    names.NODE_AGENT: [
        ("create", "pods/binding", ANYWHERE),
        ("delete", "pods", ANYWHERE),
        ("patch", "pods", ANYWHERE),
        ("get", "secrets", US),
        ("create", "events", US),
        ("list", f"bookings.{names.DOMAIN}", ""),
    ],
    names.SCHEDULER_ACCOUNT: [
        ("update", f"leases.coordination.k8s.io={names.MIRROR_LEASE}", US),
        ("get", "secrets", US),
    ],
    names.BOOKING_SERVER: [
        ("delete", "pods", ANYWHERE),
        ("create", "pods/eviction", ANYWHERE),
        ("patch", "pods/status", ANYWHERE),
        ("create", "events", ANYWHERE),
        ("delete", "nodes", ""),
        ("get", "secrets", US),
        ("patch", f"bookings.{names.DOMAIN}/status", ""),
        ("patch", f"leases.coordination.k8s.io={names.CONTROLLER_LEASE}", US),
    ],
    names.CONTROLLER: [
        ("create", f"bookings.{names.DOMAIN}", ""),
        ("patch", f"bookings.{names.DOMAIN}", ""),
        ("delete", f"bookings.{names.DOMAIN}", ""),
        ("create", "pods/binding", ANYWHERE),
        ("patch", "nodes", ""),
        ("patch", "jobs.batch", ANYWHERE),
        ("get", "secrets", US),
        ("get", "secrets=another", US),
        ("get", f"secrets={names.WEBHOOK_KEYS}", ANYWHERE),
        ("patch", "mutatingwebhookconfigurations.admissionregistration.k8s.io=another", ""),
        ("create", "mutatingwebhookconfigurations.admissionregistration.k8s.io", ""),
        ("patch", "leases.coordination.k8s.io", "kube-system"),
        ("patch", f"leases.coordination.k8s.io={names.MIRROR_LEASE}", US),
    ],
}

Access = tuple[str, str, str]
"""Verb, ``plural[.group][/subresource][=name]``, namespace."""


def review(account: str, request: Access) -> dict[str, object]:
    verb, what, namespace = request
    kind, _, name = what.partition("=")
    resource, _, subresource = kind.partition("/")
    plural, _, group = resource.partition(".")
    attributes = {
        "namespace": namespace,
        "verb": verb,
        "group": group,
        "resource": plural,
        "subresource": subresource,
        "name": name,
    }
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{US}", "system:authenticated"]
    user = f"system:serviceaccount:{US}:{account}"
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
    }


def allowed(cluster: Cluster, account: str, requests: list[Access]) -> list[Access]:
    """Those of the requests that the API server allows."""
    items = {"apiVersion": "v1", "kind": "List", "items": [review(account, request) for request in requests]}
    words = ["create", "--filename=-", "--output=jsonpath={.status.allowed} {.items[*].status.allowed}"]
    answers = cluster.kubectl(*words, given=json.dumps(items)).split()
    return [request for request, answer in zip(requests, answers, strict=True) if answer == "true"]


@pytest.mark.parametrize("account", ALLOWED)
def test_a_part_may_do_its_work(installed: Cluster, account: str) -> None:
    assert allowed(installed, account, ALLOWED[account]) == ALLOWED[account]


@pytest.mark.parametrize("account", FORBIDDEN)
def test_a_part_may_do_nothing_else(installed: Cluster, account: str) -> None:
    assert allowed(installed, account, FORBIDDEN[account]) == []


def test_anybody_with_a_token_alone_may_neither_see_nor_write_bookings(installed: Cluster) -> None:
    requests = [(verb, f"bookings.{names.DOMAIN}", "") for verb in ("list", "create", "patch")]
    assert allowed(installed, "default", requests) == []
