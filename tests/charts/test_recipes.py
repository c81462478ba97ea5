"""The values in docs/recipes: Helm takes them, and what comes out is what each page promises."""

import json
import re
from typing import Any

import pytest
import yaml

from booking.settings import ServerSettings
from cluster import names
from cluster.decide.identity import Rule, user_of
from cluster.process.settings import load
from deviceplugin.settings import Settings as AgentSettings
from tests.architecture import commands
from tests.architecture.checkout import ROOT
from tests.charts.conftest import Document, Render
from tests.charts.test_rendered import of_kind
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
    manual = ROOT / "docs" / "operations.md"
    known = [command for heading in headings for command in commands.under(manual, heading)]
    typed = [line for block in commands.blocks_in((FOLDER / f"{page}.md").read_text()) for line in block]
    assert typed
    assert [command for command in typed if command not in known] == []
    assert typed == [command for command in known if command in typed]
