"""What a site adds of its own: labels, administrators, budgets, volumes, and how people come in."""

from typing import Any

import pytest

from booking.server.settings import ServerSettings
from booking.server.web.roles import ADMINISTER
from cluster import names
from cluster.process.settings import load
from devcluster.errors import ClusterError
from tests.charts.conftest import Render
from tests.charts.matrix import MATRIX
from tests.charts.test_rendered import of_kind, rules
from tests.long.charts.test_pods_rendered import environment, workloads

pytestmark = pytest.mark.component

OWN = MATRIX["a site's own"]
URL = "https://gpus.example.org"


def test_a_common_label_is_on_every_object_and_pod_and_in_no_selector(render: Render) -> None:
    documents = render(OWN)
    labelled = [d for d in documents if d["kind"] != "CustomResourceDefinition"]
    assert {d["metadata"]["labels"].get("team") for d in labelled} == {"platform"}
    assert {t["metadata"]["labels"]["team"] for t in workloads(documents).values()} == {"platform"}
    selectors = [
        d["spec"]["selector"]["matchLabels"] for d in documents if d["kind"] in {"Deployment", "DaemonSet"}
    ]
    assert selectors
    assert not any("team" in selector for selector in selectors)


def test_labels_and_annotations_given_to_a_part_are_on_its_pods_and_accounts_alone(render: Render) -> None:
    documents = render(OWN)
    tiers = {part: t["metadata"]["labels"].get("tier") for part, t in workloads(documents).items()}
    assert tiers == {"node-agent": "node", "extender": None, "server": None, "controller": None}
    annotated = {
        name
        for name, account in of_kind(documents, "ServiceAccount").items()
        if account["metadata"].get("annotations") == {"site": "north"}
    }
    assert annotated == {names.SCHEDULER_ACCOUNT}


def test_nobody_is_made_an_administrator_by_default(render: Render) -> None:
    role = f"{names.PRODUCT}-administrator"
    assert role not in of_kind(render(), "ClusterRole")
    assert role not in of_kind(render(), "ClusterRoleBinding")


def test_named_administrators_get_the_verb_that_our_parts_ask_about_and_change_nothing(
    render: Render,
) -> None:
    role = f"{names.PRODUCT}-administrator"
    documents = render(OWN)
    (rule,) = rules(documents, "ClusterRole", role)
    assert rule["verbs"] == [ADMINISTER, "get", "list", "watch"]
    assert (rule["apiGroups"], rule["resources"]) == ([names.DOMAIN], ["bookings"])
    subjects = of_kind(documents, "ClusterRoleBinding")[role]["subjects"]
    assert [subject["name"] for subject in subjects] == ["gpu-admins", "robot"]


@pytest.mark.parametrize("mode", ["dedicated", "existing"])
def test_a_single_replica_never_blocks_a_drain_indefinitely(render: Render, mode: str) -> None:
    one = {"replicas": 1}
    documents = render({"scheduler": {"mode": mode}, "controller": one, "extender": one})
    budgets = of_kind(documents, "PodDisruptionBudget")
    assert len(budgets) == 2
    for budget in budgets.values():
        assert budget["spec"]["maxUnavailable"] == 1
        assert "minAvailable" not in budget["spec"]


def test_a_budget_has_the_size_that_the_site_configures_or_is_absent(render: Render) -> None:
    (budget,) = of_kind(render(OWN), "PodDisruptionBudget").values()
    assert budget["spec"]["maxUnavailable"] == "50%"
    assert budget["spec"]["selector"]["matchLabels"][names.COMPONENT] == "extender"


def test_pods_are_spread_by_counting_those_of_their_own_part(render: Render) -> None:
    found = workloads(render(OWN))
    (spread,) = found["controller"]["spec"]["topologySpreadConstraints"]
    assert spread["topologyKey"] == "topology.kubernetes.io/zone"
    counted = spread["labelSelector"]["matchLabels"]
    assert counted.items() <= found["controller"]["metadata"]["labels"].items()
    assert counted[names.COMPONENT] == "controller"
    mine = {"matchLabels": {"mine": "yes"}}
    given = [
        {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": mine}
    ]
    (spread,) = workloads(render({"extender": {"topologySpreadConstraints": given}}))["extender"]["spec"][
        "topologySpreadConstraints"
    ]
    assert spread == given[0]


def test_a_controller_on_the_host_network_still_finds_services_by_name(render: Render) -> None:
    assert "hostNetwork" not in workloads(render())["controller"]["spec"]
    spec = workloads(render(OWN))["controller"]["spec"]
    assert spec["hostNetwork"]
    assert spec["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_a_controller_on_the_host_network_frees_its_ports_for_the_next_release(render: Render) -> None:
    """With no more nodes than controllers the new one would wait for the old one's indefinitely."""

    def strategy(*, shared: bool) -> dict[str, int]:
        deployment = of_kind(render({"controller": {"hostNetwork": shared}}), "Deployment")[names.CONTROLLER]
        return dict(deployment["spec"]["strategy"]["rollingUpdate"])

    assert strategy(shared=False) == {"maxUnavailable": 0, "maxSurge": 1}
    assert strategy(shared=True) == {"maxUnavailable": 1, "maxSurge": 1}


def test_a_volume_of_the_site_is_mounted_where_the_servers_settings_expect_it(render: Render) -> None:
    spec = workloads(render(OWN))["server"]["spec"]
    (container,) = spec["containers"]
    (mount,) = [m for m in container["volumeMounts"] if m["name"] == "authority"]
    assert "authority" in {volume["name"] for volume in spec["volumes"]}
    loaded = load(ServerSettings, environment(container))
    assert str(loaded.oidc_ca_file).startswith(mount["mountPath"])


def test_the_servers_service_has_the_type_that_the_site_configures(render: Render) -> None:
    plain = of_kind(render(), "Service")[names.BOOKING_SERVER]
    assert plain["spec"]["type"] == "ClusterIP"
    assert "nodePort" not in plain["spec"]["ports"][0]
    assert "annotations" not in plain["metadata"]
    service = of_kind(render(OWN), "Service")[names.BOOKING_SERVER]
    assert service["spec"]["type"] == "NodePort"
    assert service["spec"]["ports"][0]["nodePort"] == 30080
    assert service["metadata"]["annotations"] == {"balancer": "internal"}


def test_an_ingress_leads_from_the_public_address_to_the_servers_service(
    render: Render,
) -> None:
    documents = render(OWN)
    ingress = of_kind(documents, "Ingress")[names.BOOKING_SERVER]
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    (tls,) = ingress["spec"]["tls"]
    assert (
        f"https://{rule['host']}"
        == URL
        == of_kind(documents, "ConfigMap")[names.CLIENT_CONFIG]["data"]["server"]
    )
    assert tls == {"hosts": [rule["host"]], "secretName": "gpus-tls"}
    backend = path["backend"]["service"]
    ports = of_kind(documents, "Service")[backend["name"]]["spec"]["ports"]
    assert backend["port"]["name"] in {port["name"] for port in ports}
    assert ingress["metadata"]["annotations"] == {"cert-manager.io/cluster-issuer": "site"}


def test_an_ingress_without_tls_mentions_no_certificates(render: Render) -> None:
    documents = render({"server": {"url": "http://gpus.example.org", "ingress": {"enabled": True}}})
    assert "tls" not in of_kind(documents, "Ingress")[names.BOOKING_SERVER]["spec"]


def test_an_ingress_without_a_host_is_refused_with_a_remedy(render: Render) -> None:
    with pytest.raises(ClusterError, match=r"server\.ingress needs server\.url"):
        render({"server": {"ingress": {"enabled": True}}})


@pytest.mark.parametrize(
    "values",
    [
        {"commonLabels": {"app.kubernetes.io/instance": "other"}},
        {"controller": {"podLabels": {names.COMPONENT: "server"}}},
        {"server": {"service": {"type": "ExternalName"}}},
        {"server": {"service": {"type": "ClusterIP", "nodePort": 30080}}},
        {"extender": {"podDisruptionBudget": {"maxUnavailable": 0}}},
        {"administrators": ["alice"]},
        {"sharing": {"dialects": ["hami", "mine"]}},
        {"sharing": {"gpushareUnit": "MB"}},
        {"sharing": {"default": 0}},
        {"sharing": {"default": "25%"}},
    ],
)
def test_what_would_break_our_own_parts_is_refused(render: Render, values: dict[str, Any]) -> None:
    with pytest.raises(ClusterError, match="values don't meet the specifications of the schema"):
        render(values)
