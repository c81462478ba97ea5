"""What a stock kube-scheduler does with the extender's answers: Events of pods, and a volume to be bound."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest
import urllib3

from booking.controller.admission.model_affinity import with_model_affinity
from cluster import names
from cluster.fake.clock import eventually
from cluster.kube.interface import Selection, WatchOptions
from cluster.kube.resources import PODS
from devcluster.product import extender
from tests.e2e.playground import PATIENCE
from tests.fakes.objects import A100, A6000
from tests.long.controlplane import scheduling
from tests.long.controlplane.scheduling import DEDICATED, NAMESPACE, Field

pytestmark = pytest.mark.controlplane

JsonObject = dict[str, Any]
FAILED = "FailedScheduling"
VOLUME = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: data}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  local: {path: /data}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [NODE]}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: local
  resources: {requests: {storage: 1Gi}}
"""


@pytest.fixture(scope="module")
def field() -> Iterator[Field]:
    with scheduling.field() as made:
        yield made


def nominations_until_bound(field: Field, name: str, version: str) -> set[str | None]:
    """The nodes for which a pod was nominated, from a resourceVersion on."""
    found = set()
    watch = field.kube.watch(PODS, Selection(namespace=NAMESPACE), WatchOptions(resource_version=version))
    with closing(watch):
        for event in watch:
            if event.object.metadata.name == name:
                found.add(event.object.status.nominated_node_name)
                if event.object.spec.node_name:
                    return found
    raise AssertionError("the watch has ended before the pod was bound")


def test_a_pod_whose_volume_is_bound_with_it_is_bound_at_the_first_bind(field: Field) -> None:
    """kube-scheduler writes nominatedNodeName after it has asked filter (1.35 and later)."""
    manifest = VOLUME.replace("NODE", field.nodes[1])
    field.cluster.kubectl("apply", "--namespace", NAMESPACE, "--filename", "-", given=manifest)
    before = field.kube.list(PODS, Selection(namespace=NAMESPACE)).resource_version
    field.create("writes", scheduler=DEDICATED.gpu_pods, gpus=1, claim="data")

    assert field.placed("writes") == {"writes": 1}

    assert field.nodes[1] in nominations_until_bound(field, "writes", before)
    eventually(lambda: "Scheduled" in [reason for reason, _ in field.events("writes")], deadline=PATIENCE)
    assert [message for reason, message in field.events("writes") if reason == FAILED] == []


def questions(field: Field) -> float:
    """How often the extender was asked for nodes."""
    url = f"http://{field.cluster.address}:{extender.PORT + 1}/metrics"
    text = urllib3.request("GET", url, timeout=10.0, retries=False).data.decode()
    found = re.findall(r'^gpu_booking_extender_requests_total\{.*verb="filter"\} (\S+)$', text, re.MULTILINE)
    return sum(map(float, found))


def test_kube_scheduler_does_not_ask_for_a_pod_whose_model_is_full_and_places_it_once_one_is_free(
    field: Field,
) -> None:
    """On two nodes eight GPUs are free, of another model."""
    field.clear()
    pods = {f"has-{model}-{number}".lower(): model for model in (A100, A6000) for number in range(4)}
    for name, model in pods.items():
        field.create(name, scheduler=DEDICATED.gpu_pods, gpus=1, node=2, annotations={names.MODEL: model})
    assert set(field.placed(*pods).values()) == {2}

    before = questions(field)
    affinity = with_model_affinity({}, A6000)["affinity"]
    wish = {"annotations": {names.MODEL: A6000}, "affinity": affinity}
    field.create("later", scheduler=DEDICATED.gpu_pods, gpus=1, **wish)
    field.await_unschedulable("later")
    assert questions(field) == before

    field.kube.delete(PODS, list(pods)[-1], namespace=NAMESPACE, grace_seconds=0)
    assert field.placed("later") == {"later": 2}
    field.clear()


def allows(field: Field, subresource: str) -> bool:
    """Whether the extender may create it of a pod."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{names.NAMESPACE}:{extender.ACCOUNT}",
            "resourceAttributes": {
                "verb": "create",
                "resource": "pods",
                "subresource": subresource,
                "namespace": NAMESPACE,
            },
        },
    }
    words = ("create", "--filename", "-", "--output", "json")
    return bool(json.loads(field.cluster.kubectl(*words, given=json.dumps(review)))["status"]["allowed"])


@contextmanager
def without(field: Field, kind: str, name: str, instead: JsonObject | None = None) -> Iterator[None]:
    """Something of the chart's that has no namespace is not there, or there is something else instead."""
    whole = json.loads(field.cluster.kubectl("get", kind, name, "--output", "json"))
    whole["metadata"] = {"name": name, "labels": whole["metadata"].get("labels", {})}

    def put(body: JsonObject | None) -> None:
        field.cluster.kubectl("delete", kind, name, "--ignore-not-found")
        if body:
            field.cluster.kubectl("create", "--filename", "-", given=json.dumps(body))

    put(whole | instead if instead else None)
    try:
        yield
    finally:
        put(whole)


def reported(field: Field, pod: str, text: str) -> bool:
    """Whether a pod's events say why it was not scheduled."""
    return any(text in message for reason, message in field.events(pod) if reason == FAILED)


def rights(field: Field) -> list[JsonObject]:
    """The bindings of what the extender may do in all namespaces."""
    bindings = json.loads(field.cluster.kubectl("get", "clusterrolebindings", "--output", "json"))["items"]
    return [
        one for one in bindings if any(who["name"] == extender.ACCOUNT for who in one.get("subjects", ()))
    ]


def test_the_pods_events_explain_why_the_extender_cannot_bind(field: Field) -> None:
    (binding,) = rights(field)
    role = binding["roleRef"]["name"]
    rules = json.loads(field.cluster.kubectl("get", "clusterrole", role, "--output", "json"))["rules"]
    kept = [rule for rule in rules if "pods/binding" not in rule["resources"]]
    with without(field, "clusterrole", role, instead={"rules": kept}):
        eventually(lambda: not allows(field, "binding"), deadline=PATIENCE)
        field.create("unbound", scheduler=DEDICATED.gpu_pods, gpus=1)
        message = "The API server refused the Binding (403 Forbidden)."
        eventually(lambda: reported(field, "unbound", message), deadline=PATIENCE)

    assert field.placed("unbound")


def test_the_pods_events_explain_why_the_extender_cannot_answer(field: Field) -> None:
    """It has just begun, and may not read the cluster any more: from here on nothing is placed."""
    with ExitStack() as stack:
        for binding in rights(field):
            stack.enter_context(without(field, "clusterrolebinding", binding["metadata"]["name"]))
        field.cluster.daemon(extender.NAME).restart()
        field.create("waits", scheduler=DEDICATED.gpu_pods, gpus=1)
        message = "The pods of the cluster have not been read yet."
        eventually(lambda: reported(field, "waits", message), deadline=PATIENCE)

    assert field.placed("waits")
