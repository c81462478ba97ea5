"""The pods of the chart: their settings are settings, their rights the least, the API server takes them."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from booking.controller.settings import ControllerSettings
from booking.server.settings import ServerSettings
from cluster import names
from cluster.process.settings import load
from cluster.version import VERSION
from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.paths import CHECKOUT
from devcluster.product import chart
from deviceplugin.settings import Settings as AgentSettings
from extender.settings import Settings as ExtenderSettings
from tests.architecture import commands
from tests.charts.conftest import Document, Render
from tests.charts.matrix import MATRIX

pytestmark = pytest.mark.controlplane

OF_THE_SCHEDULER = ("ConfigMap", names.SCHEDULER_LEASE)
SETTINGS: dict[str, type[msgspec.Struct]] = {
    "node-agent": AgentSettings,
    "extender": ExtenderSettings,
    "server": ServerSettings,
    "controller": ControllerSettings,
}


def workloads(documents: list[Document]) -> dict[str, dict[str, Any]]:
    """Part -> the template of its pods."""
    templates = [d["spec"]["template"] for d in documents if d["kind"] in {"Deployment", "DaemonSet"}]
    return {t["metadata"]["labels"][names.COMPONENT]: t for t in templates}


def environment(container: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one.get("value", "of-the-pod") for one in container["env"]}


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX.keys())
def test_every_variable_of_ours_is_a_setting_that_the_part_takes(
    render: Render, values: dict[str, Any]
) -> None:
    found = workloads(render(values))
    assert found.keys() == SETTINGS.keys()
    for part, template in found.items():
        given = environment(template["spec"]["containers"][0])
        ours = {name for name in given if name.startswith(names.setting(""))}
        assert ours <= {names.setting(field) for field in SETTINGS[part].__struct_fields__}
        load(SETTINGS[part], given)


def test_a_value_reaches_the_part_that_it_is_about(render: Render) -> None:
    found = workloads(render(MATRIX["other settings"]))
    loaded = {
        part: load(SETTINGS[part], environment(found[part]["spec"]["containers"][0])) for part in SETTINGS
    }
    assert loaded["controller"].end_action_with_controller == "delete"
    assert loaded["extender"].placement == "spread"
    assert loaded["server"].requests_per_second == 50


def test_everybody_who_ranks_victims_knows_what_a_restart_costs(render: Render) -> None:
    found = workloads(render({"restartCostSeconds": 7}))
    parts = ("server", "controller", "extender")
    loaded = [load(SETTINGS[part], environment(found[part]["spec"]["containers"][0])) for part in parts]
    assert [settings.restart_cost_seconds for settings in loaded] == [7, 7, 7]


def test_the_node_agent_sees_the_processes_of_its_node_unless_the_values_turn_it_off(render: Render) -> None:
    assert workloads(render())["node-agent"]["spec"]["hostPID"] is True
    without = {
        part: one["spec"] for part, one in workloads(render({"nodeAgent": {"hostPID": False}})).items()
    }
    assert not any(spec.get("hostPID") for spec in without.values())


def test_the_readers_of_the_node_agents_metrics_can_be_configured(render: Render) -> None:
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}

    def ingress(values: dict[str, Any]) -> dict[str, Any]:
        policies = [one for one in render(values) if one["kind"] == "NetworkPolicy"]
        return {one["metadata"]["name"]: one["spec"]["ingress"] for one in policies}

    ingress_rules = ingress({"networkPolicies": {"metricsFrom": [peer]}})
    assert ingress_rules[names.NODE_AGENT] == [{"ports": [{"port": 9400}], "from": [peer]}]
    assert all(
        "from" not in rule
        for name, rules in ingress_rules.items()
        if name != names.NODE_AGENT
        for rule in rules
    )
    assert ingress({})[names.NODE_AGENT] == [{"ports": [{"port": 9400}]}]


def judged(cluster: Cluster, level: str, part: str, template: dict[str, Any]) -> str:
    """What the API server says to such a pod in a namespace that enforces a level of Pod Security."""
    labels = {"pod-security.kubernetes.io/enforce": level}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": level, "labels": labels}}
    cluster.kubectl("apply", "--server-side", "--filename=-", given=json.dumps(namespace))
    # Of the account only what Pod Security judges is of interest: that of this namespace will do.
    spec = {**template["spec"], "serviceAccountName": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": part}, "spec": spec}
    words = ("create", f"--namespace={level}", "--dry-run=server", "--filename=-")
    return cluster.kubectl(*words, given=json.dumps(pod))


@pytest.mark.parametrize("mode", ["defaults", "existing"])
def test_pods_are_restricted_but_for_the_node_agent(installed: Cluster, render: Render, mode: str) -> None:
    found = workloads(render(MATRIX[mode]))
    agent = found.pop("node-agent")
    for part, template in found.items():
        judged(installed, "restricted", part, template)
    with pytest.raises(ClusterError, match='violates PodSecurity "baseline'):
        judged(installed, "baseline", "node-agent", agent)


def test_the_list_says_of_each_objection_to_the_node_agent_why_it_stays(
    installed: Cluster, render: Render
) -> None:
    with pytest.raises(ClusterError) as refused:
        judged(installed, "restricted", "node-agent", workloads(render())["node-agent"])
    _, _, objections = str(refused.value).partition('violates PodSecurity "restricted:latest": ')
    named = set(re.findall(r"(?:^|, )([a-zA-Z][a-zA-Z0-9 !=]*) \(", objections))
    listed = re.findall(
        r"^\| `([^`]+)` \|", (CHECKOUT / "docs" / "pod-security.md").read_text(), re.MULTILINE
    )
    assert named == set(listed), objections


def test_the_node_agent_is_admitted_where_the_namespace_is_labelled_as_in_the_manual(
    installed: Cluster, render: Render
) -> None:
    documented = commands.all_in(CHECKOUT / "docs" / "operations" / "installing.md")
    (label,) = (command for command in documented if command.startswith("kubectl label namespace"))
    level = label.partition("enforce=")[2].split()[0]
    judged(installed, level, "node-agent", workloads(render())["node-agent"])


def test_the_node_agent_is_root_without_a_capability_and_writes_nothing_of_its_own(render: Render) -> None:
    (container,) = workloads(render())["node-agent"]["spec"]["containers"]
    rights = container["securityContext"]
    assert rights["runAsUser"] == 0
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert not rights["allowPrivilegeEscalation"]
    assert not rights.get("privileged")
    assert rights["readOnlyRootFilesystem"]


@pytest.mark.parametrize("strategy", ["single", "mixed"])
def test_the_node_agent_has_what_it_needs_to_see_mig_instances_only_where_they_are_advertised(
    render: Render, strategy: str
) -> None:
    def agent(values: dict[str, Any]) -> dict[str, Any]:
        (container,) = workloads(render({"nodeAgent": values}))["node-agent"]["spec"]["containers"]
        return container

    usual, seeing = agent({}), agent({"migStrategy": strategy})
    assert seeing["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_ADMIN"]}
    assert not seeing["securityContext"].get("privileged")
    added = environment(seeing).items() - environment(usual).items()
    assert dict(added) == {"NVIDIA_MIG_MONITOR_DEVICES": "all", names.setting("mig_strategy"): strategy}


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX.keys())
def test_every_account_is_used_by_a_pod(render: Render, values: dict[str, Any]) -> None:
    """One without pods would have rights that nobody needs, for anybody who gets a token of it."""
    documents = render(values)
    accounts = {d["metadata"]["name"] for d in documents if d["kind"] == "ServiceAccount"}
    assert accounts == {template["spec"]["serviceAccountName"] for template in workloads(documents).values()}


def test_no_service_of_the_namespace_becomes_a_setting(render: Render) -> None:
    assert not any(t["spec"]["enableServiceLinks"] for t in workloads(render()).values())


def test_images_are_those_of_this_release_unless_the_values_say_otherwise(render: Render) -> None:
    def images(values: dict[str, Any]) -> set[str]:
        return {t["spec"]["containers"][0]["image"] for t in workloads(render(values)).values()}

    targets = ("node-agent", "extender", "booking")
    assert images({}) == {f"localhost/{names.PRODUCT}/{target}:{VERSION}" for target in targets}
    assert images(MATRIX["a registry"]) == {
        f"registry.example.org/{names.PRODUCT}/{target}:2.0" for target in targets
    }


@pytest.mark.parametrize("version", ["v1.37.1", "v1.37.1-eks-3af4770", "v1.37.1-gke.1002000", "v1.37.1+k3s1"])
def test_the_stock_scheduler_is_the_one_that_kubernetes_releases_on_every_provider(
    program: Path, tmp_path: Path, version: str
) -> None:
    """A provider's own suffix is in no tag of Kubernetes' images; one with a plus is no tag at all."""
    text = chart.render(program, tmp_path, kubernetes=version)
    documents = [document for document in yaml.safe_load_all(text) if document]
    (_, scheduler) = workloads(documents)["extender"]["spec"]["containers"]
    assert scheduler["image"].endswith("/kube-scheduler:v1.37.1")


def configured(render: Render, scheduler: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """kube-scheduler's configuration, and its pods as the Deployment makes them."""
    documents = render({"scheduler": scheduler})
    (config,) = (d for d in documents if (d["kind"], d["metadata"]["name"]) == OF_THE_SCHEDULER)
    return config["data"]["scheduler.yaml"], workloads(documents)["extender"]


@pytest.mark.parametrize("change", [{"weight": 20}, {"migProfiles": ["1g.10gb"]}], ids=str)
def test_a_scheduler_whose_configuration_changes_is_started_again(
    render: Render, change: dict[str, Any]
) -> None:
    """It reads its configuration once. The same configuration is no reason."""
    configuration, pods = configured(render, {})
    assert configured(render, {}) == (configuration, pods)
    otherwise, others = configured(render, change)
    assert otherwise != configuration
    assert others != pods


def test_bookings_survive_an_uninstallation(render: Render) -> None:
    (claim,) = [d for d in render() if d["kind"] == "PersistentVolumeClaim"]
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert not [d for d in render(MATRIX["postgresql"]) if d["kind"] == "PersistentVolumeClaim"]


def test_parts_outside_the_cluster_have_no_pods(render: Render) -> None:
    assert not workloads(render(chart.external_values("192.0.2.10")))
