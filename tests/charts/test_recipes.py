"""The values in docs/recipes: Helm takes them, and what comes out is what each page promises."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from booking.controller.settings import ControllerSettings
from booking.server.settings import ServerSettings
from cluster import names
from cluster.decide.identity import Rule, user_of
from cluster.process.settings import load
from deviceplugin.settings import Settings as AgentSettings
from tests.architecture import commands
from tests.architecture.checkout import MANUAL, ROOT
from tests.charts.conftest import Document, Render
from tests.charts.test_rendered import of_kind
from tests.fakes.identity import users_of
from tests.long.actors import hub
from tests.long.charts.test_pods_rendered import environment, workloads

pytestmark = pytest.mark.component

FOLDER = ROOT / "docs" / "recipes"
PAGES = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "README")
HOST = "gpus.example.org"
LONGEST = 60
"""Lines: a screen or two."""


def values(page: str) -> dict[str, Any]:
    """The part of my-values.yaml that a page shows."""
    (block,) = re.findall(
        r"^```yaml\n(.*?)^```$", (FOLDER / f"{page}.md").read_text(), re.MULTILINE | re.DOTALL
    )
    return dict(yaml.safe_load(block))


def rendered(render: Render, page: str) -> list[Document]:
    return render(values(page))


def settings(documents: list[Document], part: str) -> dict[str, str]:
    return environment(workloads(documents)[part]["spec"]["containers"][0])


def server(documents: list[Document]) -> ServerSettings:
    return load(ServerSettings, settings(documents, "server"))


@pytest.mark.parametrize("page", PAGES)
def test_a_recipe_is_at_most_two_screens_and_says_what_was_tried(page: str) -> None:
    text = (FOLDER / f"{page}.md").read_text()
    assert text.count("\n") <= LONGEST
    assert "**Tried**" in text
    assert f"]({page}.md)" in (FOLDER / "README.md").read_text()


@pytest.mark.parametrize(
    ("page", "alice", "others"),
    [
        ("keycloak", "alice", "alice@elsewhere.org"),
        ("another-provider", "alice@example.org", "alice@elsewhere.org"),
    ],
)
def test_the_name_of_a_provider_and_that_of_the_api_server_are_one_person(
    render: Render, page: str, alice: str, others: str
) -> None:
    found = server(rendered(render, page))
    rules = tuple(found.identity_rules)
    assert all(isinstance(rule, Rule) for rule in rules)
    prefix = found.oidc_username_prefix
    assert {user_of("oidc", alice, rules), user_of("kubernetes", f"{prefix}{alice}", rules)} == {"alice"}
    assert {user_of("oidc", others, rules), user_of("kubernetes", f"{prefix}{others}", rules)} == {None}
    assert found.oidc_client_secret_file is not None
    assert found.public_url == f"https://{HOST}"


@pytest.mark.parametrize("page", ["keycloak", "another-provider"])
def test_administrators_are_a_group_as_the_api_server_names_it(render: Render, page: str) -> None:
    documents = rendered(render, page)
    (group,) = (
        subject["name"]
        for binding in of_kind(documents, "ClusterRoleBinding").values()
        for subject in binding["subjects"]
        if subject["kind"] == "Group"
    )
    assert group.startswith(server(documents).oidc_groups_prefix)


def hubs_values() -> dict[str, Any]:
    """The values for the hub's own chart."""
    text = (FOLDER / "jupyterhub.md").read_text()
    (block,) = re.findall(r"^        hub:\n(?:^ {8}.*\n)+", text, re.MULTILINE)
    return dict(yaml.safe_load(block))


def notebook(profile: str, config: Path) -> Document:
    """The pod that KubeSpawner makes of a profile: it reads a kubeconfig before, of a cluster never asked."""
    cluster = {"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    written = {"current-context": "x", "clusters": [cluster], "contexts": [context], "users": []}
    config.write_text(json.dumps(written))
    profiles = json.dumps(hubs_values()["singleuser"]["profileList"])
    done = subprocess.run(
        [sys.executable, "-m", hub.__name__, "jupyter", "alice", "x", "0", profiles, profile],
        cwd=ROOT,
        env={**os.environ, "KUBECONFIG": str(config)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("profile", "gpus", "model"),
    [("none", None, None), ("gpu", "1", None), ("a100", "1", "NVIDIA-A100-SXM4-80GB")],
)
def test_a_profile_of_the_hub_asks_for_what_it_says(
    tmp_path: Path, profile: str, gpus: str | None, model: str | None
) -> None:
    pod = notebook(profile, tmp_path / "config")
    (container,) = pod["spec"]["containers"]
    assert container["resources"].get("limits", {}).get(names.GPU_RESOURCE) == gpus
    assert pod["metadata"]["annotations"].get(names.MODEL) == model
    assert pod["metadata"]["annotations"][names.HUB_USER] == "alice"


def test_the_hub_is_asked_to_check_and_its_notebooks_belong_to_their_users(render: Render) -> None:
    documents = rendered(render, "jupyterhub")
    found = load(ControllerSettings, settings(documents, "controller"))
    (hub,) = found.hubs
    assert found.trusted_creators == (f"system:serviceaccount:{hub.namespace}:hub",)
    pod = workloads(documents)["controller"]
    assert pod["metadata"]["labels"]["hub.jupyter.org/network-access-hub"] == "true"
    token = (FOLDER / "jupyterhub.md").read_text().partition("kubectl create secret generic ")[2].split()[0]
    assert {"secretName": token} in [
        {"secretName": volume["secret"]["secretName"]}
        for volume in pod["spec"]["volumes"]
        if "secret" in volume
    ]
    values = hubs_values()["hub"]
    assert values["loadRoles"]["gpu-booking"] == {"scopes": ["proxy"], "services": [*values["services"]]}


def test_maias_people_are_one_user_by_every_name_and_its_tools_are_answered(render: Render) -> None:
    documents = rendered(render, "maia")
    found = load(ControllerSettings, settings(documents, "controller"))
    assert found.maia
    assert users_of("alice@example.org", tuple(found.identity_rules)) == {"alice"}
    assert "pod-terminator" in of_kind(documents, "Service")
    assert server(documents).maia_token_file is not None


def test_the_commands_of_changing_over_are_those_that_are_typed_beside_maias_release() -> None:
    known = list(commands.blocks_in((MANUAL / "maia.md").read_text()))
    flat = [line for block in known for line in block]
    typed = [line for block in commands.blocks_in((FOLDER / "maia.md").read_text()) for line in block]
    assert typed == [line for line in flat if line in typed]
    assert len(typed) == 4


def test_the_objects_for_prometheus_are_those_that_the_stacks_default_selectors_find(render: Render) -> None:
    documents = rendered(render, "kube-prometheus-stack")
    for kind in ("PodMonitor", "PrometheusRule"):
        (found,) = of_kind(documents, kind).values()
        assert found["metadata"]["labels"]["release"] == "kube-prometheus-stack"
    dashboard = of_kind(documents, "ConfigMap")["gpu-booking-dashboard"]["metadata"]
    assert (dashboard["namespace"], dashboard["labels"]["grafana_dashboard"]) == ("monitoring", "1")
    (rule,) = of_kind(documents, "NetworkPolicy")[names.NODE_AGENT]["spec"]["ingress"]
    (peer,) = rule["from"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "monitoring"}


def test_the_agent_gets_the_driver_that_the_operators_container_installs(render: Render) -> None:
    documents = rendered(render, "gpu-operator")
    pods = workloads(documents)["node-agent"]["spec"]
    assert pods["runtimeClassName"] == "nvidia"
    assert "/run/nvidia/driver" in json.dumps(pods["volumes"])
    load(AgentSettings, settings(documents, "node-agent"))


def test_cert_manager_makes_the_webhooks_and_the_pages_certificate(render: Render) -> None:
    documents = rendered(render, "cert-manager")
    assert names.WEBHOOK_KEYS in of_kind(documents, "Certificate")
    (ingress,) = of_kind(documents, "Ingress").values()
    assert ingress["metadata"]["annotations"] == {"cert-manager.io/cluster-issuer": "letsencrypt"}
    assert ingress["spec"]["tls"] == [{"hosts": [HOST], "secretName": "gpu-booking-tls"}]


@pytest.mark.parametrize("page", ["ingress", "gateway"])
def test_the_word_of_the_proxy_counts(render: Render, page: str) -> None:
    assert server(rendered(render, page)).trusted_proxies == ("10.244.0.0/16",)


def test_the_ingress_leads_to_the_service(render: Render) -> None:
    documents = rendered(render, "ingress")
    (ingress,) = of_kind(documents, "Ingress").values()
    assert ingress["spec"]["ingressClassName"] == "nginx"
    (rule,) = ingress["spec"]["rules"]
    service = rule["http"]["paths"][0]["backend"]["service"]
    assert (rule["host"], service["name"]) == (HOST, names.BOOKING_SERVER)
    assert service["name"] in of_kind(documents, "Service")


def test_the_route_leads_from_the_gateway_to_the_service(render: Render) -> None:
    documents = rendered(render, "gateway")
    (route,) = of_kind(documents, "HTTPRoute").values()
    assert route["spec"]["hostnames"] == [HOST]
    assert route["spec"]["parentRefs"] == [
        {"name": "public", "namespace": "gateways", "sectionName": "https"}
    ]
    (backend,) = route["spec"]["rules"][0]["backendRefs"]
    ports = of_kind(documents, "Service")[backend["name"]]["spec"]["ports"]
    assert backend["port"] in {port["port"] for port in ports}
    assert not of_kind(render(), "HTTPRoute")


@pytest.mark.parametrize(
    ("page", "headings"),
    [("backup", ("Saving and restoring",)), ("upgrade", ("Upgrading", "Rolling back"))],
)
def test_commands_of_the_lifecycle_are_those_that_are_typed_on_a_cluster(
    page: str, headings: tuple[str, ...]
) -> None:
    known = [command for heading in headings for command in commands.lifecycle(heading)]
    typed = [line for block in commands.blocks_in((FOLDER / f"{page}.md").read_text()) for line in block]
    assert typed
    assert [command for command in typed if command not in known] == []
    assert typed == [command for command in known if command in typed]
