"""What a stock kube-scheduler makes of the extender's answers: events of pods, and a volume to be bound."""

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from cluster import names
from cluster.fake.clock import eventually
from cluster.kube.port import Selection, WatchOptions
from cluster.kube.resources import PODS
from devcluster.parts import extender
from tests.e2e.playground import PATIENCE
from tests.long.controlplane import scheduling
from tests.long.controlplane.scheduling import DEDICATED, NAMESPACE, Field

pytestmark = pytest.mark.controlplane

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
    eventually(lambda: "Scheduled" in [reason for reason, _ in field.said("writes")], deadline=PATIENCE)
    assert [message for reason, message in field.said("writes") if reason == FAILED] == []


def test_why_the_extender_cannot_answer_is_read_in_the_pods_events(field: Field) -> None:
    """It has just begun, and may not read the cluster any more: from here on nothing is placed."""
    bindings = json.loads(field.cluster.kubectl("get", "clusterrolebindings", "--output", "json"))["items"]
    for binding in bindings:
        if any(subject["name"] == names.EXTENDER for subject in binding.get("subjects", ())):
            field.cluster.kubectl("delete", "clusterrolebinding", binding["metadata"]["name"])
    field.cluster.daemon(extender.NAME).restart()
    field.create("waits", scheduler=DEDICATED.gpu_pods, gpus=1)

    def is_told() -> bool:
        told = [message for reason, message in field.said("waits") if reason == FAILED]
        return any("The pods of the cluster have not been read yet." in message for message in told)

    eventually(is_told, deadline=PATIENCE)
