"""The Job of docs/examples, which saves its work and continues from there, fitted to the development cluster.

That has one image, without Python, and no storage classes: so the pod gets the machine's own Python by a
mount, and its claim a volume that is made for it.
"""

import os
import re
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from cluster import names
from cluster.objects.pods import Pod, is_live
from devcluster import probe
from devcluster.errors import ClusterError
from devcluster.paths import CHECKOUT
from tests.e2e.persons import A100
from tests.e2e.playground import HOSTNAME, Playground

EXAMPLES: Final = CHECKOUT / "docs" / "examples"
JOB: Final = "training"
PYTHON: Final = Path(os.path.realpath(sys.executable))
OF_PYTHON: Final = (sys.base_prefix, "/usr", "/lib", "/lib64")
"""Folders of the machine in which its Python and what that needs are."""

Json = dict[str, Any]


def documents() -> list[Json]:
    """The example, as people apply it."""
    return [*yaml.safe_load_all((EXAMPLES / "job.yaml").read_text())]


def begin(ground: Playground, folder: Path) -> Pod:
    """Start the example on ``node-a``; its pod, once its work is safe. ``folder`` outlives the pod."""
    (folder / "state").mkdir()
    ground.apply(_volume(ground.namespace, folder / "state"))
    program = f"--from-file={EXAMPLES / 'train.py'}"
    ground.kubectl("create", "configmap", JOB, program, "--namespace", ground.namespace)
    for document in documents():
        ground.apply(fitted(document))

    def has_saved() -> Pod | None:
        pod = pod_of_job(ground)
        return pod if pod and pod.metadata.annotation(names.CHECKPOINT_AT) else None

    return ground.await_that("the training says that its work is safe", has_saved)


def end(ground: Playground) -> None:
    """Remove what no namespace takes along."""
    ground.kubectl("delete", "persistentvolume", ground.namespace, "--wait=false")


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


def _volume(namespace: str, folder: Path) -> Json:
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


def resumed(ground: Playground, before: Pod) -> int | None:
    """The step at which the pod begins that came in the place of one; None before it has said so."""
    pod = pod_of_job(ground)
    if pod is None or pod.metadata.uid == before.metadata.uid:
        return None
    try:
        text = ground.kubectl("logs", "--namespace", ground.namespace, pod.metadata.name)
    except ClusterError:  # the container is not there yet
        return None
    found = re.search(r"begins at step (\d+)", text)
    return int(found[1]) if found else None
