"""The real controller beside a real API server: MAIA's endpoint, and what holds while the webhook is down."""

import json
import signal
from collections.abc import Iterator
from math import isnan
from typing import Any, Final

import pytest
import urllib3

from booking.controller.admission.certificate_authority import CERTIFICATE_LASTS, RENEWED_AHEAD
from booking.controller.settings import ControllerSettings
from cluster import names
from cluster.fake.clock import eventually
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.product import Parts, chart
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.e2e.playground import PATIENCE

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]

HUB: Final = "system:serviceaccount:default:hub"
SETTINGS: Final = {
    names.setting("maia"): "true",
    names.setting("trusted_creators"): json.dumps([HUB]),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(name=own("process"), nodes=(NodeSpec(name="idle"),))) as running:
        running.kubectl("create", "clusterrolebinding", "hub", "--clusterrole=edit", f"--user={HUB}")
        yield running


@pytest.fixture(scope="module")
def parts(cluster: Cluster) -> Parts:
    """The chart, and the controller alone."""
    chart.install(cluster, chart.external_values(cluster.address))
    parts = Parts(cluster)
    parts.start_controller(SETTINGS)
    lets_gpu_pods_in(cluster, parts)
    return parts


def lets_gpu_pods_in(cluster: Cluster, parts: Parts) -> None:
    """Wait until it answers, and the API server believes it."""
    eventually(lambda: parts.is_ready(parts.controller()), deadline=PATIENCE)
    eventually(
        lambda: not why_refused(cluster, a_pod("probe", gpus=1), "--dry-run=server"), deadline=PATIENCE
    )


def a_pod(name: str, *, gpus: int = 0, **annotations: str) -> Json:
    resources = {"limits": {names.GPU_RESOURCE: str(gpus)}} if gpus else {}
    container = {"name": "main", "image": "example.invalid/none", "resources": resources}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def why_refused(cluster: Cluster, body: Json, *words: str) -> str:
    """What the API server says of it; nothing where it has created it."""
    try:
        cluster.kubectl("create", "--filename=-", *words, given=json.dumps(body))
    except ClusterError as error:
        return str(error)
    return ""


def maia_answer(cluster: Cluster, method: str, path: str, body: Json | None = None) -> Json:
    """What MAIA's tools are answered."""
    url = f"http://{cluster.address}:{ControllerSettings().maia_port}{path}"
    found: Json = urllib3.request(method, url, json=body, timeout=10.0).json()
    return found


def annotations_of(cluster: Cluster, pod: str) -> Json:
    found: Json = json.loads(cluster.kubectl("get", "pod", pod, "--output=json"))["metadata"]["annotations"]
    return found


@pytest.mark.usefixtures("parts")
def test_maias_tools_are_answered_about_a_notebook_that_maias_webhook_has_annotated(cluster: Cluster) -> None:
    annotation = {names.TERMINATE_AT: "1900-01-01T08:00:00Z"}
    notebook = a_pod("notebook", gpus=1, **annotation, **{names.HUB_USER: "bob"})
    assert not why_refused(cluster, notebook, f"--as={HUB}")
    assert annotations_of(cluster, "notebook").items() >= {**annotation, names.USER: "bob"}.items()
    expired = {"status": "success", "expired_pods": ["notebook"]}
    eventually(lambda: maia_answer(cluster, "GET", "/get-expired-pods") == expired, deadline=PATIENCE)
    assert maia_answer(cluster, "POST", "/random-delete")["deleted_pod"] == ""
    request = {"pod_name": "notebook", "namespace": "default"}
    assert maia_answer(cluster, "POST", "/delete-expired-pod", request)["deleted_pod"] == "notebook"
    # No booking server says that the Bookings are true: the request is kept, and nobody is ended (law L6).
    assert names.END_REQUESTED in annotations_of(cluster, "notebook")


def test_metrics_report_when_the_certificate_ends_and_that_the_mirrors_lease_is_not_renewed(
    parts: Parts,
) -> None:
    controller, now = parts.controller(), SystemClock().now().timestamp()
    ends = parts.metric(controller, "_controller_certificate_expiration_timestamp_seconds")
    assert now + RENEWED_AHEAD.total_seconds() < ends < now + 2 * CERTIFICATE_LASTS.total_seconds()
    assert isnan(parts.metric(controller, "_controller_mirror_lease_age_seconds"))
    assert parts.metric(controller, "_controller_booked_pods_waiting") == 0


def test_while_the_controller_is_down_only_gpu_pods_are_not_created(cluster: Cluster, parts: Parts) -> None:
    controller = parts.controller()
    controller.kill(signal.SIGKILL)
    eventually(lambda: controller.exited is not None, deadline=PATIENCE)
    assert "failed calling webhook" in why_refused(cluster, a_pod("gpu", gpus=1))
    assert "failed calling webhook" in why_refused(cluster, a_pod("forged", **{names.USER: "alice"}))
    others = [
        a_pod("plain"),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "another"}},
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "job"},
            "spec": {"template": {"spec": a_pod("", gpus=1)["spec"] | {"restartPolicy": "Never"}}},
        },
    ]
    assert [why_refused(cluster, body) for body in others] == [""] * len(others)
    controller.restart()
    lets_gpu_pods_in(cluster, parts)
    assert why_refused(cluster, a_pod("gpu", gpus=1)) == ""
