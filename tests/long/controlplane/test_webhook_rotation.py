"""The webhook's certificate and authority change while a real API server asks it: no request is missed."""

import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Self

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from booking.controller.admission.certificate_authority import new_authority, new_certificate, vouches
from booking.controller.admission.endpoint import PATH, Endpoint
from booking.controller.admission.keys import KNOWN_AFTER, Keys, data_of, keys_in
from booking.controller.admission.metrics import Metrics
from booking.controller.admission.review import Outcome
from booking.controller.admission.webhook import JSON, Reply, admission_review_in, answer
from booking.controller.admission.webhook_installer import WebhookInstaller
from cluster import names
from cluster.fake.clock import eventually
from cluster.kube.client import KubeClient
from cluster.kube.errors import ApiError
from cluster.kube.interface import Selection
from cluster.kube.resources import NAMESPACES, PODS, SECRETS
from cluster.process.clock import SystemClock
from cluster.process.https import TlsServer
from devcluster.cluster import Cluster
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.controlplane.access import ACCOUNTS, client
from tests.controlplane.webhooks import address_towards, configuration
from tests.e2e.playground import PATIENCE

pytestmark = pytest.mark.controlplane

CLOCK = SystemClock()
OLD = timedelta(days=3570)
"""So old an authority is due to be replaced, and believed for 80 days yet."""
POD = {
    "metadata": {"generateName": "p-"},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "example.invalid/none",
                "resources": {"limits": {names.GPU_RESOURCE: "1"}},
            }
        ]
    },
}


class Ahead(SystemClock):
    """The present, or some time later."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


class Stream:
    """Pods are created (dry run) one after another, in several threads, until it is stopped."""

    def __init__(self, kubes: list[KubeClient]) -> None:
        self.created = 0
        self.refused: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._create, args=(kube,)) for kube in kubes]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def goes_on(self) -> None:
        """Return when some more have been created."""
        before = self.created
        eventually(lambda: self.created >= before + 20, deadline=PATIENCE)

    def _create(self, kube: KubeClient) -> None:
        while not self._stop.is_set():
            try:
                kube.create(PODS, POD, namespace="default", dry_run=True)
            except ApiError as error:
                self.refused.append(str(error))
            self.created += 1


class CountingWebhook:
    """Lets everything through, and counts."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, body: bytes) -> Reply:
        self.times += 1
        return Reply(
            HTTPStatus.OK, answer(admission_review_in(body).request, Outcome(kind="untouched")), JSON
        )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(name=own("rotation"), nodes=(NodeSpec(name="idle"),))) as running:
        yield running


@pytest.fixture
def kube(cluster: Cluster) -> Iterator[KubeClient]:
    kube = client(cluster, cluster.administrator_token)
    kube.create(NAMESPACES, {"metadata": {"name": names.NAMESPACE}})
    eventually(lambda: kube.list(ACCOUNTS, Selection(namespace="default")).items, deadline=PATIENCE)
    yield kube
    kube.close()


def stored(kube: KubeClient) -> Keys:
    return keys_in(kube.get(SECRETS, names.WEBHOOK_KEYS, namespace=names.NAMESPACE).data)


def old_secret(host: str) -> dict[str, Any]:
    """Keys as they are after almost ten years."""
    authority = new_authority(CLOCK.now() - OLD)
    server = new_certificate(authority, [host], CLOCK.now() - timedelta(days=300))
    keys = Keys(authorities=authority.certificate, authority_key=authority.key, server=server)
    return {"metadata": {"name": names.WEBHOOK_KEYS}, "type": "kubernetes.io/tls", "data": data_of(keys)}


def test_no_request_is_missed_while_certificate_and_authority_are_replaced(
    cluster: Cluster, kube: KubeClient
) -> None:
    clock, webhook, metrics = Ahead(), CountingWebhook(), Metrics(CollectorRegistry())
    host = address_towards(cluster.address)
    server = TlsServer(Endpoint(webhook, CLOCK, metrics), CLOCK, host=host, port=0)
    made = configuration(f"https://{host}:{server.port}{PATH}")
    cluster.kubectl("create", "-f", "-", given=msgspec.json.encode(made).decode())
    secret = kube.create(SECRETS, old_secret(host), namespace=names.NAMESPACE)
    first = keys_in(secret.data)
    installed = WebhookInstaller(kube, clock, server.present, namespace=names.NAMESPACE, hosts=[host])
    installed.round()
    announced = stored(kube)
    assert announced.server != first.server, "the certificate was due"
    assert vouches(first.authorities, announced.server.certificate, [host])
    eventually(lambda: _is_called(kube, webhook), deadline=PATIENCE)
    others = [client(cluster, cluster.administrator_token) for _ in range(3)]
    with Stream(others) as stream:
        stream.goes_on()
        clock.ahead = KNOWN_AFTER + timedelta(minutes=1)
        installed.round()
        stream.goes_on()
        for _ in range(5):
            server.present(new_certificate(stored(kube).authority, [host], CLOCK.now()))
            stream.goes_on()
    server.close()
    for other in others:
        other.close()
    last = stored(kube)
    assert stream.refused == []
    assert webhook.times >= stream.created
    assert not vouches(first.authorities, last.server.certificate, [host])
    assert vouches(last.authorities, last.server.certificate, [host])


def _is_called(kube: KubeClient, webhook: CountingWebhook) -> bool:
    """The API server reads its webhooks by a watch, and what they are to be believed by."""
    before = webhook.times
    try:
        kube.create(PODS, POD, namespace="default", dry_run=True)
    except ApiError:
        return False
    return webhook.times > before
