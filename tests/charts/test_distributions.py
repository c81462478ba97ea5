"""What the chart becomes on distributions of Kubernetes: rendered, none of them was run here."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import names
from devcluster.errors import ClusterError
from devcluster.product import chart
from tests.charts.conftest import Document, Render
from tests.charts.matrix import DISTRIBUTIONS

pytestmark = pytest.mark.component

PRESETS = yaml.safe_load(Path(chart.CHART, "files", "distributions.yaml").read_text())
SNAP = "/var/snap/microk8s/common/var/lib/kubelet"


def agent(documents: list[Document]) -> dict[str, Any]:
    (found,) = (d for d in documents if d["kind"] == "DaemonSet")
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


def volumes(spec: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["hostPath"]["path"] for one in spec["volumes"] if "hostPath" in one}


def settings(spec: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in spec["containers"][0]["env"]}


def ids(documents: list[Document]) -> set[Any]:
    """The ids of users and groups that pods name, but for the root of the node agents."""
    text = json.dumps([d["spec"]["template"]["spec"] for d in documents if d["kind"] == "Deployment"])
    return {key for key in ("runAsUser", "runAsGroup", "fsGroup") if f'"{key}"' in text}


def test_every_distribution_that_the_schema_takes_has_its_preset_and_is_rendered_in_every_test() -> None:
    schema = json.loads(Path(chart.CHART, "values.schema.json").read_text())
    taken = schema["properties"]["distribution"]["enum"]
    assert set(taken) - {""} == PRESETS.keys() == set(DISTRIBUTIONS)
    known = schema["properties"]["nodeAgent"]["properties"].keys() | {"ids", "scheduler", "security"}
    assert all(preset.keys() <= known for preset in PRESETS.values())


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_the_agent_sees_the_node_where_its_distribution_has_it(render: Render, name: str) -> None:
    spec, preset = agent(render({"distribution": name})), PRESETS[name]
    root = preset.get("kubeletRoot", "/var/lib/kubelet")
    driver = preset.get("nvidiaDriverRoot", "/")
    assert volumes(spec) == {
        "device-plugins": preset.get("devicePlugins", "/var/lib/kubelet/device-plugins"),
        "pod-resources": f"{root}/pod-resources",
        "pods-api": f"{root}/pods-api",
        "plugins": f"{root}/plugins",
        "cdi": "/var/run/cdi",
        "dev": "/dev",
        "driver-root": driver,
    }
    env = settings(spec)
    assert env[names.setting("kubelet_root")] == root
    assert env[names.setting("host_driver_root")] == driver
    assert env[names.setting("device_list_strategy")] == preset.get("deviceListStrategy", "cdi")
    assert spec.get("runtimeClassName") == preset.get("runtimeClassName")


def test_what_an_administrator_gives_wins(render: Render) -> None:
    given = {"kubeletRoot": "/data/kubelet", "nvidiaDriverRoot": "/opt/driver", "cdiDir": "/etc/cdi"}
    spec = agent(render({"distribution": "microk8s", "nodeAgent": given}))
    assert volumes(spec) == {
        "device-plugins": f"{SNAP}/device-plugins",
        "pod-resources": "/data/kubelet/pod-resources",
        "pods-api": "/data/kubelet/pods-api",
        "plugins": "/data/kubelet/plugins",
        "cdi": "/etc/cdi",
        "dev": "/dev",
        "driver-root": "/opt/driver",
    }


@pytest.mark.parametrize(
    ("version", "served", "found"),
    [
        ("v1.34.2+k3s1", (), "k3s"),
        ("v1.34.2+rke2r1", (), "rke2"),
        ("v1.35.1-gke.1002000", (), "gke"),
        ("v1.34.1-eks-3af4770", (), "eks"),
        ("v1.34.1", ("security.openshift.io/v1",), "openshift"),
        ("v1.34.1", (), "kubeadm"),
    ],
)
def test_a_distribution_that_shows_itself_is_found(
    program: Path, tmp_path: Path, version: str, served: tuple[str, ...], found: str
) -> None:
    def rendered(**values: Any) -> str:
        return chart.render(program, tmp_path, values, served, kubernetes=version)

    assert rendered() == rendered(distribution=found)


def test_on_openshift_ids_are_the_clusters_and_its_constraints_give_the_agents_what_their_pods_ask_for(
    render: Render,
) -> None:
    assert ids(render()) == {"runAsUser", "runAsGroup", "fsGroup"}
    documents = render({"distribution": "openshift"})
    assert not ids(documents)
    (constraints,) = (d for d in documents if d["kind"] == "SecurityContextConstraints")
    assert constraints["users"] == [f"system:serviceaccount:{names.NAMESPACE}:{names.NODE_AGENT}"]
    spec = agent(documents)
    context = spec["containers"][0]["securityContext"]
    assert context["seLinuxOptions"] == {"type": "spc_t"}
    assert constraints["allowHostPID"] is spec["hostPID"] is True
    assert constraints["allowHostDirVolumePlugin"]
    assert not constraints["allowPrivilegedContainer"]
    assert not constraints["allowHostNetwork"]
    kinds = {next(key for key in one if key != "name") for one in spec["volumes"]}
    assert kinds | {"projected"} <= set(constraints["volumes"])
    seeing = render({"distribution": "openshift", "nodeAgent": {"migStrategy": "single"}})
    (more,) = (d for d in seeing if d["kind"] == "SecurityContextConstraints")
    added = agent(seeing)["containers"][0]["securityContext"]["capabilities"]["add"]
    assert (constraints["allowedCapabilities"], more["allowedCapabilities"]) == ([], added)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"distribution": "eks", "scheduler": {"mode": "existing", "name": "default-scheduler"}}, "of eks"),
        ({"distribution": "openshift", "controller": {"hostNetwork": True}}, "Leave it false"),
        ({"distribution": "minikube"}, "values don't meet the specifications"),
    ],
)
def test_what_cannot_work_there_is_refused(render: Render, values: dict[str, Any], why: str) -> None:
    with pytest.raises(ClusterError, match=why):
        render(values)
