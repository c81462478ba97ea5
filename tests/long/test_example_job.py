"""The worked example of docs/reclaiming.md: a Job that saves its work at the notice and continues from there.

The files are those of docs/examples. The development cluster has one image, without Python, and no storage
classes: so the pod gets the machine's own Python by a mount, and its claim a volume that is made for it.
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import names
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod, is_live
from devcluster import probe
from devcluster.errors import ClusterError
from devcluster.paths import CHECKOUT
from tests.e2e.persons import A100, Person
from tests.e2e.playground import HOSTNAME, SPAWNS, Playground
from tests.long.workloads import a100

pytestmark = pytest.mark.e2e

EXAMPLES = CHECKOUT / "docs" / "examples"
JOB = "training"
PYTHON = Path(os.path.realpath(sys.executable))
OF_PYTHON = (sys.base_prefix, "/usr", "/lib", "/lib64")
"""Folders of the machine in which its Python and what that needs are."""

Json = dict[str, Any]


def documents() -> list[Json]:
    """The example, as people apply it."""
    return [*yaml.safe_load_all((EXAMPLES / "job.yaml").read_text())]


def fitted(document: Json) -> Json:
    """The example on this cluster: another image, a quicker step, and a node of which bob can have all."""
    if document["kind"] != "Job":
        return document
    template = document["spec"]["template"]
    template["metadata"]["annotations"][names.MODEL] = A100
    template["spec"] |= {"nodeSelector": {HOSTNAME: "node-a"}, "dnsPolicy": "Default"}
    (container,) = template["spec"]["containers"]
    container |= {"image": probe.IMAGE, "imagePullPolicy": "Never"}
    container["command"] = [str(PYTHON), *container["command"][1:]]
    container["env"] += [{"name": "STEP_SECONDS", "value": "0.05"}, {"name": "SAVE_EVERY", "value": "20"}]
    for number, folder in enumerate(dict.fromkeys(OF_PYTHON)):
        mount = {"name": f"python-{number}", "mountPath": folder, "readOnly": True}
        container["volumeMounts"].append(mount)
        volume = {"name": mount["name"], "hostPath": {"path": folder}}
        template["spec"]["volumes"].append(volume)
    return document


def volume(namespace: str, folder: Path) -> Json:
    """What a storage class would make for the example's claim."""
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": str(folder)},
        "claimRef": {"namespace": namespace, "name": JOB},
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": spec,
    }


def pod_of_job(ground: Playground) -> Pod | None:
    """The Job's pod that lives."""
    pods = [pod for pod in ground.pods() if is_live(pod)]
    return next((p for p in pods if (p.metadata.labels or {}).get("job-name") == JOB), None)


def log(ground: Playground, name: str) -> str:
    try:
        return ground.kubectl("logs", "--namespace", ground.namespace, name)
    except ClusterError:  # the container is not there yet
        return ""


def test_the_example_saves_its_work_at_the_notice_leaves_at_once_and_continues_from_there(
    bob: Person, playground: Playground, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    playground.apply(volume(playground.namespace, tmp_path / "state"))
    program = f"--from-file={EXAMPLES / 'train.py'}"
    playground.kubectl("create", "configmap", JOB, program, "--namespace", playground.namespace)
    for document in documents():
        playground.apply(fitted(document))

    def has_saved() -> Pod | None:
        pod = pod_of_job(playground)
        return pod if pod and pod.metadata.annotation(names.CHECKPOINT_AT) else None

    first = playground.await_that("the training says that its work is safe", has_saved)
    bob.book(2)
    hers = bob.create(a100("booked", gpus=2, node="node-a"))
    done: list[str] = []

    def is_served() -> bool:
        now = next((p for p in playground.pods() if p.metadata.uid == first.metadata.uid), None)
        done.extend(filter(None, [now and now.metadata.annotation(names.CHECKPOINT_DONE)]))
        return playground.pod(hers).status.phase == "Running"

    playground.await_that("the booked pod runs, long before the five minutes are over", is_served)
    assert done, "the training has said that it is ready to leave"
    saved = json.loads((tmp_path / "state" / "training.json").read_text())["step"]
    assert saved > 0
    playground.kube.delete(PODS, hers, namespace=playground.namespace, grace_seconds=1)

    def resumed() -> int | None:
        pod = pod_of_job(playground)
        if pod is None or pod.metadata.uid == first.metadata.uid:
            return None
        found = re.search(r"begins at step (\d+)", log(playground, pod.metadata.name))
        return int(found[1]) if found else None

    assert playground.await_that("the next pod of the Job goes on", resumed, every=SPAWNS) == saved
    status = playground.kubectl(
        *("get", "job", JOB, "--namespace", playground.namespace), "--output", "jsonpath={.status.failed}"
    )
    assert status in ("", "0")
    playground.kubectl("delete", "persistentvolume", playground.namespace, "--wait=false")
