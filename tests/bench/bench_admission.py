"""What the webhook adds to the creation of a pod, compared with a webhook that admits everything unread.

The same API server calls both, in turns, for dry runs; this process serves the empty one.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry

from booking.controller.admission.certificate_authority import KeyPair, new_authority, new_certificate
from booking.controller.admission.endpoint import PATH, Endpoint
from booking.controller.admission.metrics import Metrics
from booking.controller.admission.review import Outcome
from booking.controller.admission.webhook import JSON, Reply, admission_review_in, answer
from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube
from cluster.kube.resources import PODS
from cluster.process.clock import SystemClock
from cluster.process.https import TlsServer
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.pods import NAMESPACE
from tests.bench.rows import Kind, Row, Target
from tests.bench.table import percentile
from tests.controlplane.webhooks import address_towards

ROUNDS: Final = 400
WARM: Final = 40
PERCENTS: Final = (50, 99)
EMPTY: Final = "bench-empty"
_TAKES: Final = {
    percent: Kind(
        f"admission-p{percent}",
        f"creation of a pod with a GPU (dry run), p{percent} of {ROUNDS}",
        "ms",
        "the same of a pod that an empty webhook is asked about",
    )
    for percent in PERCENTS
}
_ADDED: Final = Kind(
    "admission-added-p99", "what the webhook adds to that at p99", "ms", target=Target(value=20)
)


def measure(lab: Lab) -> Iterator[Row]:
    """Dry runs of pods, with a GPU and without one, in turns."""
    cluster, clock = lab.standing.cluster, SystemClock()
    times: dict[bool, list[float]] = {True: [], False: []}
    with closing(administrator(cluster)) as kube, _empty_webhook(cluster, kube, clock):
        for number in range(WARM + ROUNDS):
            for gpu, taken in times.items():
                begun = clock.monotonic()
                _create(kube, gpu=gpu)
                if number >= WARM:
                    taken.append(1000 * (clock.monotonic() - begun))
    for percent, kind in _TAKES.items():
        yield kind.row(percentile(times[True], percent), percentile(times[False], percent))
    yield _ADDED.row(max(0.0, percentile(times[True], 99) - percentile(times[False], 99)))


def _create(kube: Kube, *, gpu: bool) -> None:
    body = probe.pod("dry", [probe.container("main", gpus=int(gpu))])
    if not gpu:
        body["metadata"]["labels"] = {EMPTY: "true"}
    kube.create(PODS, body, namespace=NAMESPACE, dry_run=True)


class _Empty:
    """Admits everything; counts its calls."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, body: bytes) -> Reply:
        self.times += 1
        return Reply(
            HTTPStatus.OK, answer(admission_review_in(body).request, Outcome(kind="untouched")), JSON
        )


@contextmanager
def _empty_webhook(cluster: Cluster, kube: Kube, clock: SystemClock) -> Iterator[None]:
    """A webhook that is called for pods with a label of its own, until it is removed."""
    host, empty = address_towards(cluster.address), _Empty()
    authority = new_authority(clock.now())
    server = TlsServer(Endpoint(empty, clock, Metrics(CollectorRegistry())), clock, host=host, port=0)
    server.present(new_certificate(authority, [host], clock.now()))
    made = _configuration(f"https://{host}:{server.port}{PATH}", authority)
    cluster.kubectl("create", "--filename=-", given=msgspec.json.encode(made).decode())
    try:
        _await_first_call(kube, empty, clock)
        yield
    finally:
        cluster.kubectl("delete", "mutatingwebhookconfiguration", EMPTY)
        server.close()


def _await_first_call(kube: Kube, empty: _Empty, clock: SystemClock) -> None:
    """Wait until it is called: the API server learns of webhooks by a watch."""
    deadline = clock.monotonic() + 60
    while not empty.times:
        if clock.monotonic() > deadline:
            raise RuntimeError("The API server did not ask the empty webhook within a minute.")
        try:
            _create(kube, gpu=False)
        except ApiError:
            continue


def _configuration(url: str, authority: KeyPair) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    webhook = {
        "name": "empty.bench.example",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": url, "caBundle": authority.certificate},
        "failurePolicy": "Fail",
        "objectSelector": {"matchLabels": {EMPTY: "true"}},
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": 3,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": EMPTY},
        "webhooks": [webhook],
    }


MEASURE: Final = Measure("admission", (*_TAKES.values(), _ADDED), measure, on_cluster=True)
