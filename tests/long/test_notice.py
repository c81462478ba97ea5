"""A pod on a real kubelet reads its notice in a file, and says when it has saved its work.

The development cluster's image has no Python: the pod gets the machine's own by a mount.
"""

import json
import os
import sys
from typing import Any, Final

import pytest

from cluster import names
from cluster.objects.pods import is_live
from devcluster import probe
from devcluster.errors import ClusterError
from tests.e2e.persons import A100, Person
from tests.e2e.playground import HOSTNAME, SPAWNS, Playground

pytestmark = pytest.mark.e2e

NODE: Final = "node-a"
FOLDER: Final = "/etc/pod"
PYTHON: Final = os.path.realpath(sys.executable)
OF_PYTHON: Final = tuple(dict.fromkeys((sys.base_prefix, "/usr", "/lib", "/lib64")))
"""Folders of the machine in which its Python and what that needs are."""
WORKER: Final = """
import datetime, json, os, pathlib, ssl, sys, time, urllib.request
key, path, account = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
file, seen, notices = pathlib.Path("/etc/pod/notice"), None, 0
while True:
    text = file.read_text()
    if text != seen:
        print(json.dumps(text), flush=True)
        seen, notices = text, notices + bool(text)
        if text and notices == 2:
            now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            body = json.dumps({"metadata": {"annotations": {key: now}}}).encode()
            head = {"Authorization": "Bearer " + (account / "token").read_text(),
                    "Content-Type": "application/merge-patch+json"}
            url = "https://" + os.environ["KUBERNETES_SERVICE_HOST"] + path
            request = urllib.request.Request(url, data=body, headers=head, method="PATCH")
            trust = ssl.create_default_context(cafile=str(account / "ca.crt"))
            print(urllib.request.urlopen(request, context=trust).status, flush=True)
    time.sleep(0.1)
"""


def worker(namespace: str) -> dict[str, Any]:
    """Both A100s of a node; it wants five minutes' notice, and reads it as a file."""
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    container = probe.container("main", gpus=2)
    path = f"/api/v1/namespaces/{namespace}/pods/worker"
    container |= {"command": [PYTHON, "-c", WORKER, names.CHECKPOINT_DONE, path, account], "args": []}
    container["volumeMounts"] = [{"name": "pod", "mountPath": FOLDER}]
    field = {"fieldPath": f"metadata.annotations['{names.NOTICE}']"}
    volumes: list[dict[str, Any]] = [
        {"name": "pod", "downwardAPI": {"items": [{"path": "notice", "fieldRef": field}]}}
    ]
    for number, folder in enumerate(OF_PYTHON):
        mount = {"name": f"python-{number}", "mountPath": folder, "readOnly": True}
        container["volumeMounts"].append(mount)
        volumes.append({"name": mount["name"], "hostPath": {"path": folder}})
    extra = {"nodeSelector": {HOSTNAME: NODE}, "volumes": volumes}
    body = probe.pod("worker", [container], model=A100, extra=extra)
    body["metadata"]["annotations"][names.REQUESTED_NOTICE] = "PT5M"
    return body


def notices(ground: Playground) -> list[Any]:
    """What the container has read so far, each time that the file changed."""
    try:
        log = ground.kubectl("logs", "--namespace", ground.namespace, "worker")
    except ClusterError:  # the container is not there yet
        return []
    return [json.loads(line) for line in log.splitlines()]


def test_a_pod_reads_its_notice_and_that_it_may_stay_and_leaves_at_once_when_its_work_is_saved(
    alice: Person, bob: Person, playground: Playground
) -> None:
    ground = playground
    ground.kubectl(
        *("create", "rolebinding", "worker", "--clusterrole=edit", "--namespace", ground.namespace),
        f"--serviceaccount={ground.namespace}:default",
    )
    bob.create(worker(ground.namespace))
    ground.await_phase(["worker"])
    first = ground.pod("worker")
    ground.await_that("the file is there, and empty", lambda: notices(ground) == [""] or None, every=SPAWNS)

    booking = alice.book(2)
    extra = {"nodeSelector": {HOSTNAME: NODE}}
    hers = alice.create(probe.pod("hers", [probe.container("main", gpus=2)], model=A100, extra=extra))
    ground.await_that(
        "the container reads its notice", lambda: len(notices(ground)) > 1 or None, every=SPAWNS
    )
    notice = ground.pod("worker").metadata.annotation(names.NOTICE)
    assert notices(ground)[1] == notice
    assert f"{ground.namespace}/{hers}" in (notice or "")
    assert is_live(ground.pod("worker"))

    alice.release(booking)
    ground.await_that(
        "it may stay", lambda: not ground.pod("worker").metadata.annotation(names.NOTICE) or None
    )
    ground.await_that("the container reads that", lambda: len(notices(ground)) > 2 or None, every=SPAWNS)
    assert notices(ground)[2] == ""
    assert ground.pod("worker").metadata.uid == first.metadata.uid

    alice.book(2)
    ground.await_phase([hers])  # not the five minutes: the container has said that it is ready

    def is_back() -> bool:
        now = next((pod for pod in ground.pods() if pod.metadata.name == "worker"), None)
        came = now and now.metadata.annotation(names.RECREATED_FROM) == first.metadata.uid
        return bool(now and came and not now.metadata.finalizers)

    ground.await_that("the worker is back, and nothing is left to do", is_back)
    assert ground.pod("worker").metadata.annotation(names.NOTICE) is None
