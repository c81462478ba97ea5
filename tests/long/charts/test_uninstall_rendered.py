"""What goes before the release, and what outlives it: rendered, and as a real API server takes it."""

import json
from pathlib import Path
from typing import Any

import pytest

from booking.controller.settings import UninstallSettings
from cluster import names
from cluster.kube.resources import BOOKINGS
from cluster.process.settings import load
from devcluster.cluster import Cluster
from devcluster.commands import output
from devcluster.errors import ClusterError
from devcluster.product import chart
from tests.architecture import commands
from tests.charts.conftest import Document, Render
from tests.charts.matrix import MATRIX
from tests.long.charts.conftest import NO_PULL

pytestmark = pytest.mark.controlplane

BY_HAND: dict[str, Any] = {"uninstall": {"now": True}}
OTHERS_FORGET: dict[str, Any] = {"uninstall": {"keepBookings": False}}
SOME = {name: MATRIX[name] for name in ("defaults", "a registry", "a site's own")}
RESOURCE = f"{BOOKINGS.plural}.{BOOKINGS.group}"


def of_the_job(documents: list[Document]) -> list[Document]:
    return [one for one in documents if one["metadata"]["name"] == names.UNINSTALLER]


def helm(cluster: Cluster, *words: str) -> str:
    """What Helm says of the release."""
    where = (f"--kubeconfig={cluster.kubeconfig}", f"--namespace={names.NAMESPACE}")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(cluster.state / "helm")}
    return output([cluster.program("helm"), *words, *where], env=environment)


@pytest.mark.parametrize("values", SOME.values(), ids=SOME.keys())
def test_the_chart_rendered_and_applied_removes_nothing(render: Render, values: dict[str, Any]) -> None:
    assert of_the_job(render(values)) == []


def test_helm_has_the_job_and_its_rights_ready_before_it_deletes(installed: Cluster) -> None:
    stored = helm(installed, "get", "hooks", chart.RELEASE)
    assert stored.count(f"name: {names.UNINSTALLER}\n") >= len(("account", "roles", "bindings", "job"))
    assert stored.count("helm.sh/hook: pre-delete") == 6
    chart.install(installed, NO_PULL | {"uninstall": {"hook": False}})
    assert names.UNINSTALLER not in helm(installed, "get", "hooks", chart.RELEASE)
    chart.install(installed, NO_PULL)


def test_a_job_that_would_remove_the_release_at_once_cannot_be_installed_with_it(installed: Cluster) -> None:
    with pytest.raises(ClusterError, match="for `helm template` alone"):
        chart.install(installed, NO_PULL | BY_HAND)


@pytest.mark.parametrize("values", SOME.values(), ids=SOME.keys())
def test_the_job_to_be_applied_by_hand_is_an_ordinary_job_without_hooks(
    render: Render, values: dict[str, Any]
) -> None:
    documents = of_the_job(render({**values, **BY_HAND}))
    assert {one["kind"] for one in documents} == {
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Job"),
    }
    assert not any("annotations" in one["metadata"] for one in documents)
    (job,) = (one for one in documents if one["kind"] == "Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    given = {one["name"]: one["value"] for one in container["env"]}
    assert load(UninstallSettings, given).namespace == names.NAMESPACE
    assert set(given) <= {names.setting(field) for field in UninstallSettings.__struct_fields__}
    assert not job["spec"]["template"]["spec"].get("hostNetwork")


def test_the_api_server_accepts_the_job_and_its_pod_is_restricted(installed: Cluster, render: Render) -> None:
    documents = of_the_job(render(BY_HAND))
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    words = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--filename=-")
    assert len(installed.kubectl(*words, "--output=name", given=items).splitlines()) == len(documents)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "restricted-job"}}
    namespace["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "restricted"}
    installed.kubectl("apply", "--server-side", "--filename=-", given=json.dumps(namespace))
    (job,) = (one for one in documents if one["kind"] == "Job")
    spec = {**job["spec"]["template"]["spec"], "serviceAccountName": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "uninstall"}, "spec": spec}
    create = ("create", "--namespace=restricted-job", "--dry-run=server", "--filename=-")
    installed.kubectl(*create, given=json.dumps(pod))


def test_the_job_has_the_rights_that_it_needs_and_few_others(render: Render) -> None:
    (role,) = (one for one in of_the_job(render(BY_HAND)) if one["kind"] == "ClusterRole")
    verbs = {
        (resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]
    }
    assert ("pods", "delete") not in verbs
    assert not {resource for resource, _ in verbs} & {"secrets", "pods/eviction", "namespaces", "*"}
    assert not any(verb == "*" for _, verb in verbs)


def test_the_custom_resource_belongs_to_the_release_so_that_an_upgrade_reaches_it(render: Render) -> None:
    (found,) = (one for one in render() if one["kind"] == "CustomResourceDefinition")
    assert found["metadata"]["name"] == RESOURCE
    assert found["metadata"]["labels"]["app.kubernetes.io/name"] == names.PRODUCT
    assert not Path(chart.CHART, "crds").exists()


def test_bookings_are_kept_with_all_that_they_need_unless_the_values_say_otherwise(render: Render) -> None:
    def kept(values: dict[str, Any]) -> set[str]:
        policies = {one["kind"]: one["metadata"].get("annotations", {}) for one in render(values)}
        return {kind for kind, found in policies.items() if found.get("helm.sh/resource-policy") == "keep"}

    assert kept({}) == {"CustomResourceDefinition", "PersistentVolumeClaim"}
    assert kept(OTHERS_FORGET) == set()


def test_a_release_whose_job_has_failed_is_restored_as_documented(installed: Cluster) -> None:
    """No image is here, so that the Job never ends; it would have deleted the controller first."""
    with pytest.raises(ClusterError, match="not ready"):
        helm(installed, "uninstall", chart.RELEASE, "--timeout=1s")
    where = f"--namespace={names.NAMESPACE}"
    installed.kubectl("delete", "deployment", names.CONTROLLER, where)
    installed.kubectl("delete", "job", names.UNINSTALLER, where)
    documented = commands.lifecycle("Removing it")
    assert f"helm history {chart.RELEASE} {where.replace('=', ' ')}" in documented
    (back,) = (command for command in documented if " REVISION " in command)
    newest = helm(installed, "history", chart.RELEASE).splitlines()[-1].split()[0]
    words = back.replace("REVISION", newest).replace(where.replace("=", " "), "").split()[1:]
    helm(installed, *words)
    assert installed.kubectl("get", "deployment", names.CONTROLLER, where, "--output=name")
    chart.install(installed, NO_PULL)
    assert "deployed" in helm(installed, "history", chart.RELEASE).splitlines()[-1]
