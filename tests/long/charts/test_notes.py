"""What Helm says of this cluster before and after an installation, from the packaged chart."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import names
from cluster.objects.inventory import encode_inventory
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.product import chart
from tests.fakes.objects import a100
from tests.long.charts.conftest import NO_PULL

pytestmark = pytest.mark.controlplane

REGISTRY = "registry.example.org"
VALUES: dict[str, Any] = {**NO_PULL, "image": {**NO_PULL["image"], "registry": REGISTRY}}
ENFORCED = "pod-security.kubernetes.io/enforce"
PRESENT = {"nvidia.com/gpu.present": "true"}


def node(name: str, *, ready: bool = True, gpus: str = "0", **metadata: Any) -> dict[str, Any]:
    condition = {"type": "Ready", "status": str(ready), "reason": "Test", "message": "Test."}
    status = {"capacity": {names.GPU_RESOURCE: gpus} if gpus != "0" else {}, "conditions": [condition]}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, **metadata},
        "spec": {},
        "status": status,
    }


def lease(of: str, age: timedelta) -> dict[str, Any]:
    renewed = (SystemClock().now() - age).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": names.node_lease(of), "namespace": names.NAMESPACE},
        "spec": {"holderIdentity": "agent", "leaseDurationSeconds": 30, "renewTime": renewed},
    }


def published(name: str, *ill: int) -> dict[str, Any]:
    devices = (a100(n, name, health="unhealthy" if n in ill else "healthy") for n in range(2))
    return {"annotations": {names.INVENTORY: encode_inventory(tuple(devices))}}


NODES = (
    node("serves", **published("serves", 1)),
    node("silent", **published("silent")),
    node("tainted", labels=PRESENT) | {"spec": {"taints": [{"key": "team", "effect": "NoSchedule"}]}},
    node("tolerated", labels=PRESENT)
    | {"spec": {"taints": [{"key": names.GPU_RESOURCE, "value": "x", "effect": "NoSchedule"}]}},
    node("theirs", gpus="8"),
    node("gone", labels=PRESENT, ready=False),
    node("without"),
)
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "earlier", "namespace": "default"},
    "spec": {
        "nodeName": "theirs",
        "containers": [{"name": "main", "image": "x", "resources": {"limits": {names.GPU_RESOURCE: "1"}}}],
    },
}


@pytest.fixture(scope="module")
def populated(cluster: Cluster) -> Cluster:
    """Nodes of all kinds, as the API server knows them before anything of ours is there."""
    cluster.kubectl("create", "namespace", names.NAMESPACE)
    cluster.kubectl("label", "namespace", names.NAMESPACE, f"{ENFORCED}=restricted")
    for made in NODES:
        cluster.kubectl("create", "--filename=-", given=json.dumps(made))
        patch = json.dumps({"status": made["status"]})
        words = ("patch", "node", made["metadata"]["name"], "--subresource=status", f"--patch={patch}")
        cluster.kubectl(*words)
    for name, age in (("serves", timedelta()), ("silent", timedelta(minutes=10))):
        cluster.kubectl("create", "--filename=-", given=json.dumps(lease(name, age)))
    cluster.kubectl("create", "--filename=-", given=json.dumps(POD))
    return cluster


@pytest.fixture(scope="module")
def package(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chart.package(program, tmp_path_factory.mktemp("package"))


def notes_of(cluster: Cluster, package: Path, values: dict[str, Any], *words: str) -> str:
    """Helm's notes of an installation."""
    where = (f"--kubeconfig={cluster.kubeconfig}", f"--namespace={names.NAMESPACE}")
    folder = cluster.state / "helm"
    output = chart.helm(
        cluster.program("helm"), folder, *words, names.PRODUCT, str(package), *where, values=values
    )
    return output.partition("NOTES:\n")[2]


def line(notes: str, beginning: str) -> str:
    (found,) = (each.strip() for each in notes.splitlines() if each.strip().startswith(beginning))
    return found


SERVERS: dict[str, dict[str, Any]] = {
    "no address": {},
    "a forwarded port": {"url": "http://localhost:8080"},
    "a database elsewhere": {"database": {"url": "postgresql://booking@db/booking"}},
    "no TLS": {"url": "http://gpus.example.org"},
    "an ingress and a provider": {
        "url": "https://gpus.example.org",
        "ingress": {"enabled": True},
        "oidc": {"issuer": "https://id.example.org", "clientId": "gpus", "clientSecret": "oidc"},
    },
}


@pytest.fixture(scope="module")
def before(populated: Cluster, package: Path) -> dict[str, str]:
    """What is said while nothing is installed yet, by the values of the server."""
    return {
        name: notes_of(populated, package, {**VALUES, "server": server}, "install", "--dry-run=server")
        for name, server in SERVERS.items()
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("serves", "serves: 2 NVIDIA-A100-SXM4-80GB, 1 unhealthy."),
        ("silent", r"does not serve: its node agent has not answered for 6\d\d s"),
        ("tainted", "does not serve: its taint team is not in nodeAgent.tolerations."),
        ("tolerated", "does not serve: its node agent has not reported yet: it starts now."),
        ("theirs", "does not serve: another device plugin gives out its 8 GPUs"),
        ("gone", "does not serve: its kubelet is not Ready."),
    ],
)
def test_each_node_with_gpus_is_named_with_what_keeps_it_from_serving(
    before: dict[str, str], name: str, expected: str
) -> None:
    assert re.match(f"{name} {expected}", line(before["no address"], f"{name} "))


def test_what_changes_for_running_pods_is_said_before_anything_is_installed(before: dict[str, str]) -> None:
    notes = before["no address"]
    assert "\n  1 pods that hold GPUs run on" in notes
    assert "in every namespace but kube-system, gpu-booking." in notes
    assert not re.search(r"^  (without|idle) ", notes, re.MULTILINE)


def test_what_keeps_our_own_pods_from_starting_is_said(before: dict[str, str]) -> None:
    notes = before["no address"]
    assert "enforces Pod Security restricted" in notes
    assert f"kubectl label namespace {names.NAMESPACE} {ENFORCED}=privileged --overwrite" in notes
    assert "No StorageClass is the cluster's default" in notes
    assert "StorageClass" not in before["a database elsewhere"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("no address", ["kubectl port-forward --namespace gpu-booking service/gpu-booking-server 8480:80"]),
        ("a forwarded port", ["service/gpu-booking-server 8080:80"]),
        ("no TLS", ["over https only"]),
        (
            "an ingress and a provider",
            ["gpus.example.org must lead to", "https://gpus.example.org/login/callback"],
        ),
    ],
)
def test_the_address_and_the_way_to_sign_in_are_those_of_the_values(
    before: dict[str, str], values: str, expected: list[str]
) -> None:
    assert [text for text in expected if text not in before[values]] == []


@pytest.mark.parametrize(("tag", "is_said"), [("stable", True), ("v1.30.0", False), ("", False)])
def test_a_scheduler_whose_tag_names_no_version_is_reported(
    populated: Cluster, package: Path, tag: str, *, is_said: bool
) -> None:
    values = {**VALUES, "scheduler": {"image": {"tag": tag}}}
    notes = notes_of(populated, package, values, "install", "--dry-run=server")
    assert (f"scheduler.image.tag is {tag}, which names no version" in notes) == is_said


def test_the_packaged_chart_installs_with_images_of_the_registry_that_one_value_names(
    before: dict[str, str], populated: Cluster, package: Path
) -> None:
    notes = notes_of(populated, package, VALUES, "upgrade", "--install")
    assert ("What changes for running pods" in notes) == bool(before)
    workloads = ("deployments,daemonsets", f"--namespace={names.NAMESPACE}", "--output=yaml")
    items = yaml.safe_load(populated.kubectl("get", *workloads))["items"]
    containers = [c for item in items for c in item["spec"]["template"]["spec"]["containers"]]
    ours = {c["image"] for c in containers if "kube-scheduler" not in c["image"]}
    assert len(ours) == 3
    assert all(image.startswith(f"{REGISTRY}/{names.PRODUCT}/") for image in ours)
    again = notes_of(populated, package, VALUES, "upgrade", "--install")
    assert "What changes for running pods" not in again
    assert "serves serves: 2" in again
