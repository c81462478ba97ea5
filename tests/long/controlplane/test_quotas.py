"""Quotas of a real API server: that of the example never refuses a booked pod, and a refusal is found."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Final

import pytest

from booking.server.cluster_status import quota_messages
from booking.server.cluster_status.namespace_facts import NamespaceFacts
from booking.server.cluster_status.never_created import newest_about
from cluster import names
from cluster.fake.clock import eventually
from cluster.kube.resources import BOOKINGS, QUOTAS
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator, person
from devcluster.product import Parts, chart
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.e2e.playground import PATIENCE
from tests.fakes.objects import A100
from tests.long.controlplane.policies.policed import HOME, Json, People, a_pod, pods

pytestmark = pytest.mark.controlplane

EXAMPLE: Final = "docs/examples/quota.yaml"
UNBOOKED: Final = 4
"""GPUs that the example leaves to pods without a booking."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    spec = ClusterSpec(name=own("quotas"), nodes=(NodeSpec(name="node-a"),))
    with Cluster.start(spec) as running:
        chart.install(running, chart.external_values(running.address))
        yield running


@pytest.fixture(scope="module")
def people(cluster: Cluster) -> People:
    """Everybody, with a webhook that answers, the example's quota, and a booking of one GPU by alice."""
    parts, people = Parts(cluster), People(cluster)
    controller = parts.start_controller()
    eventually(lambda: parts.is_ready(controller), deadline=PATIENCE)
    cluster.kubectl("apply", "--filename", EXAMPLE)
    now = SystemClock().now()
    spec = {"user": "alice", "model": A100, "count": 1}
    span = {"start": (now - timedelta(minutes=1)).isoformat(), "end": (now + timedelta(days=1)).isoformat()}
    with closing(administrator(cluster)) as kube:
        kube.create(BOOKINGS, {"metadata": {"name": "b-quota"}, "spec": spec | span})
        eventually(lambda: is_counted(people, "gpus-without-booking"), deadline=PATIENCE)
    eventually(lambda: class_of(people) == names.BOOKED_CLASS, deadline=PATIENCE)
    return people


def class_of(people: People) -> str | None:
    """Which class a pod of alice's would get."""
    spec = people.alice.create(pods(), a_pod(gpus=1), dry=True).body.get("spec", {})
    found: str | None = spec.get("priorityClassName")
    return found


def is_counted(people: People, quota: str) -> bool:
    body: Json = people.root.get(f"/api/v1/namespaces/{HOME}/resourcequotas/{quota}").body
    return names.GPU_QUOTA in body.get("status", {}).get("used", {})


def test_pods_without_a_booking_use_the_quota_of_the_example_up_and_a_booked_pod_is_created(
    cluster: Cluster, people: People
) -> None:
    for _ in range(UNBOOKED):
        answer = people.root.create(pods(), a_pod(gpus=1))
        assert answer.status == 201, answer.message
    refused = people.root.create(pods(), a_pod(gpus=1))
    assert (refused.status, "exceeded quota: gpus-without-booking" in refused.message) == (403, True)

    booked = people.alice.create(pods(), a_pod(gpus=1))
    assert booked.status == 201, booked.message
    assert booked.body["spec"]["priorityClassName"] == names.BOOKED_CLASS

    # A Job's pod is created by its controller, which writes an Event where that is refused.
    body = {
        "metadata": {"name": "train"},
        "spec": {"template": a_pod(gpus=1, spec={"restartPolicy": "Never"})},
    }
    assert people.alice.create(f"/apis/batch/v1/namespaces/{HOME}/jobs", body).status == 201
    account = cluster.service_account_token(names.NAMESPACE, names.BOOKING_SERVER)

    def refusal() -> str:
        """By the booking server's own rights, each time anew."""
        with closing(person(cluster, account)) as server:
            event = newest_about("train", NamespaceFacts(server, SystemClock()).refusals(HOME))
        return "" if event is None else f"{event.involved_object.kind}: {event.message}"

    eventually(lambda: "exceeded quota: gpus-without-booking" in refusal(), deadline=PATIENCE)
    assert refusal().startswith("Job: ")


def test_a_quota_for_all_pods_is_warned_of_by_what_the_api_server_counts(
    cluster: Cluster, people: People
) -> None:
    with closing(administrator(cluster)) as kube:
        body = {"metadata": {"name": "plain"}, "spec": {"hard": {names.GPU_QUOTA: "1"}}}
        kube.create(QUOTAS, body, namespace=HOME)
        eventually(lambda: is_counted(people, "plain"), deadline=PATIENCE)
        quotas = NamespaceFacts(kube, SystemClock()).quotas(HOME)
        (warning,) = quota_messages.warnings(quotas, namespace=HOME, count=2, own=0)
        assert "ResourceQuota plain" in warning
        kube.delete(QUOTAS, "plain", namespace=HOME)
