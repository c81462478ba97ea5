"""What Helm makes of the chart: names, rights, the webhook, and values that are refused."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from booking.controller.admission import endpoint
from booking.durations import Duration
from booking.policy.policy import Policy
from booking.policy.reading import read_policy
from cluster import names
from devcluster.errors import ClusterError
from devcluster.product import chart, existing, extender, scheduler_profile
from docs.tables import scheduler as documented_scheduler
from tests.charts.conftest import Document, Render
from tests.charts.matrix import MATRIX

pytestmark = pytest.mark.component

OUTSIDE = {"external": {"address": "192.0.2.10", "port": 9443}}


def of_kind(documents: list[Document], kind: str) -> dict[str, Document]:
    return {d["metadata"]["name"]: d for d in documents if d["kind"] == kind}


def rules(documents: list[Document], kind: str, name: str) -> list[dict[str, Any]]:
    return list(of_kind(documents, kind)[name]["rules"])


def test_helm_lint_passes(program: Path, tmp_path: Path) -> None:
    assert "0 chart(s) failed" in chart.lint(program, tmp_path)


class Unique(yaml.SafeLoader):
    """Refuses a key that is there twice, of which others take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - PyYAML's own
        keys = [self.construct_object(key) for key, _ in node.value]  # type: ignore[no-untyped-call]
        assert len(set(keys)) == len(keys), f"{node.start_mark}: a key is there twice: {keys}"
        return dict(super().construct_mapping(node, deep))


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX.keys())
def test_no_document_has_a_key_twice(program: Path, tmp_path: Path, values: dict[str, Any]) -> None:
    assert list(yaml.load_all(chart.render(program, tmp_path, values), Unique))


def test_every_value_is_explained() -> None:
    lines = Path(chart.CHART, "values.yaml").read_text().splitlines()
    unexplained = [
        line
        for before, line in pairwise(lines)
        if line.startswith("  ") and line.strip()[0] not in "-#" and not before.strip().startswith("#")
    ]
    assert not unexplained


def test_the_folder_of_device_plugins_does_not_move_with_the_kubelet_s_root(render: Render) -> None:
    documents = render({"nodeAgent": {"kubeletRoot": "/data/kubelet"}})
    pod = of_kind(documents, "DaemonSet")[names.NODE_AGENT]["spec"]["template"]["spec"]
    mounted = {one["name"]: one["hostPath"]["path"] for one in pod["volumes"] if "hostPath" in one}
    assert mounted["device-plugins"] == "/var/lib/kubelet/device-plugins"
    assert (mounted["pods-api"], mounted["pod-resources"]) == (
        "/data/kubelet/pods-api",
        "/data/kubelet/pod-resources",
    )
    inside = {one["name"]: one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}
    assert {name: inside[name] for name in ("device-plugins", "pods-api", "pod-resources")} == {
        name: mounted[name] for name in ("device-plugins", "pods-api", "pod-resources")
    }


@pytest.mark.parametrize(
    ("values", "deciding"),
    [
        ({}, {names.SCHEDULER_ACCOUNT}),
        ({"scheduler": {"mode": "existing"}}, {names.EXTENDER}),
        # Both are outside the cluster.
        ({"extender": {"enabled": False}}, {names.EXTENDER, names.SCHEDULER_ACCOUNT}),
    ],
    ids=["dedicated", "existing", "outside"],
)
def test_each_part_has_its_own_account_and_parts_of_the_schedulers_pod_share_one(
    render: Render, values: dict[str, Any], deciding: set[str]
) -> None:
    others = {names.NODE_AGENT, names.BOOKING_SERVER, names.CONTROLLER}
    assert of_kind(render(values), "ServiceAccount").keys() == others | deciding


def test_accounts_are_bound_to_roles_that_exist_in_the_namespace_of_the_release(render: Render) -> None:
    documents = render()
    accounts = of_kind(documents, "ServiceAccount")
    bindings = [d for d in documents if d["kind"] in {"RoleBinding", "ClusterRoleBinding"}]
    assert bindings
    for binding in bindings:
        role = binding["roleRef"]
        assert role["name"] in of_kind(documents, role["kind"]) or not role["name"].startswith("gpu-booking")
        for subject in binding["subjects"]:
            assert subject["name"] in accounts
            assert subject["namespace"] == names.NAMESPACE


def test_every_role_is_bound(render: Render) -> None:
    documents = render()
    roles = {(d["kind"], d["metadata"]["name"]) for d in documents if d["kind"] in {"Role", "ClusterRole"}}
    bound = {
        (d["roleRef"]["kind"], d["roleRef"]["name"])
        for d in documents
        if d["kind"] in {"RoleBinding", "ClusterRoleBinding"}
    }
    assert roles <= bound


def test_priority_classes_have_our_names_and_never_preempt(render: Render) -> None:
    classes = of_kind(render(), "PriorityClass")
    assert {name: c["value"] for name, c in classes.items()} == {
        names.BOOKED_CLASS: 1_000_000_000,
        names.OPPORTUNISTIC_CLASS: 0,
    }
    assert {c["preemptionPolicy"] for c in classes.values()} == {"Never"}
    assert not any(c.get("globalDefault") for c in classes.values())


BOTH_WEBHOOKS = pytest.mark.parametrize(
    ("configuration", "entry", "path"),
    [
        (names.WEBHOOK, names.WEBHOOK_ENTRY, endpoint.PATH),
        (names.LAST_WEBHOOK, names.LAST_WEBHOOK_ENTRY, endpoint.LAST_PATH),
    ],
)


@BOTH_WEBHOOKS
def test_the_webhook_leads_to_the_controllers_service_and_brings_no_authority(
    render: Render, configuration: str, entry: str, path: str
) -> None:
    documents = render()
    (webhook,) = of_kind(documents, "MutatingWebhookConfiguration")[configuration]["webhooks"]
    service = webhook["clientConfig"]["service"]
    assert webhook["clientConfig"].keys() == {"service"}
    assert (service["name"], service["namespace"]) == (names.WEBHOOK_SERVICE, names.NAMESPACE)
    assert (webhook["name"], service["path"]) == (entry, path)
    ports = of_kind(documents, "Service")[names.WEBHOOK_SERVICE]["spec"]["ports"]
    assert service["port"] in {port["port"] for port in ports}


@BOTH_WEBHOOKS
def test_pods_of_the_release_and_of_the_excluded_namespaces_are_not_sent_to_the_webhook(
    render: Render, configuration: str, entry: str, path: str
) -> None:
    documents = render({"admission": {"excludedNamespaces": ["kube-system", "monitoring"]}})
    (webhook,) = of_kind(documents, "MutatingWebhookConfiguration")[configuration]["webhooks"]
    assert (webhook["name"], webhook["clientConfig"]["service"]["path"]) == (entry, path)
    (expression,) = webhook["namespaceSelector"]["matchExpressions"]
    assert expression["operator"] == "NotIn"
    assert expression["values"] == ["kube-system", "monitoring", names.NAMESPACE]


def test_the_conditions_of_the_webhook_are_those_of_their_file(render: Render) -> None:
    (webhook,) = of_kind(render(), "MutatingWebhookConfiguration")[names.WEBHOOK]["webhooks"]
    file = Path(chart.CHART, "files", "match-conditions.yaml")
    assert webhook["matchConditions"] == yaml.safe_load(file.read_text())


@pytest.mark.parametrize(
    ("kind", "account", "resource", "name"),
    [
        (
            "ClusterRole",
            names.CONTROLLER,
            "mutatingwebhookconfigurations",
            [names.WEBHOOK, names.LAST_WEBHOOK],
        ),
        ("Role", names.CONTROLLER, "secrets", names.WEBHOOK_KEYS),
        ("Role", names.BOOKING_SERVER, "leases", names.MIRROR_LEASE),
        ("Role", names.SCHEDULER_LEASE, "leases", names.SCHEDULER_LEASE),
        ("Role", names.EXTENDER, "leases", names.VERDICT_LEASE),
    ],
)
def test_rights_to_single_objects_name_the_object_but_for_creating_it(
    render: Render, kind: str, account: str, resource: str, name: str | list[str]
) -> None:
    found = [rule for rule in rules(render(), kind, account) if resource in rule["resources"]]
    named = name if isinstance(name, list) else [name]
    assert found
    assert all(
        rule.get("resourceNames") == named
        or rule["verbs"] in (["create"], ["list", "watch"], ["get", "list", "watch"])
        for rule in found
    )


def test_no_role_has_a_wildcard(render: Render) -> None:
    for document in render():
        for rule in document.get("rules", ()) if document["kind"] in {"Role", "ClusterRole"} else ():
            assert "*" not in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}, document["metadata"]


def test_bookings_are_written_by_the_server_and_their_status_by_the_controller_alone(render: Render) -> None:
    writers: dict[str, set[str]] = {"bookings": set(), "bookings/status": set()}
    for name, role in of_kind(render(), "ClusterRole").items():
        for rule in role["rules"]:
            for resource in writers.keys() & set(rule["resources"]):
                if set(rule["verbs"]) - {"get", "list", "watch"}:
                    writers[resource].add(name)
    assert writers == {"bookings": {names.BOOKING_SERVER}, "bookings/status": {names.CONTROLLER}}


@pytest.mark.parametrize(
    ("part", "service"),
    [("controller", names.WEBHOOK_SERVICE), ("server", names.BOOKING_SERVER)],
)
def test_a_part_in_pods_is_found_by_its_labels_and_one_outside_by_its_address(
    render: Render, part: str, service: str
) -> None:
    inside, outside = render(), render({part: OUTSIDE})
    selector = of_kind(inside, "Service")[service]["spec"]["selector"]
    assert selector[names.COMPONENT] == part
    assert not of_kind(inside, "EndpointSlice")
    assert "selector" not in of_kind(outside, "Service")[service]["spec"]
    (endpoints,) = of_kind(outside, "EndpointSlice").values()
    assert endpoints["metadata"]["labels"]["kubernetes.io/service-name"] == service
    assert endpoints["endpoints"][0]["addresses"] == ["192.0.2.10"]
    (port,) = endpoints["ports"]
    assert port["port"] == 9443
    assert port["name"] == of_kind(outside, "Service")[service]["spec"]["ports"][0]["name"]


def test_authenticated_users_may_read_the_booking_servers_address_and_nothing_else(render: Render) -> None:
    url = "https://gpus.example.org"
    documents = render({"server": {"url": url}})
    assert of_kind(documents, "ConfigMap")[names.CLIENT_CONFIG]["data"] == {"server": url}
    (rule,) = rules(documents, "Role", names.CLIENT_CONFIG)
    assert (rule["resources"], rule["resourceNames"], rule["verbs"]) == (
        ["configmaps"],
        [names.CLIENT_CONFIG],
        ["get"],
    )
    (subject,) = of_kind(documents, "RoleBinding")[names.CLIENT_CONFIG]["subjects"]
    assert (subject["kind"], subject["name"]) == ("Group", "system:authenticated")


@pytest.mark.parametrize("stated", [{}, {"version": 1}, {"version": 2}])
def test_the_policy_states_its_version_and_can_be_read(render: Render, stated: dict[str, Any]) -> None:
    policy = stated | {"defaults": {"cooldown": "P7D"}}
    documents = render({"server": {"policy": policy}})
    text = of_kind(documents, "ConfigMap")["gpu-booking-policy"]["data"]["policy.yaml"]
    assert yaml.safe_load(text) == {"version": 1} | policy
    if stated.get("version") != 2:
        assert read_policy(text) == Policy(defaults={"cooldown": Duration(days=7)})


def test_the_booking_servers_address_is_not_published_where_none_is_configured(render: Render) -> None:
    assert names.CLIENT_CONFIG not in of_kind(render(), "ConfigMap")


@pytest.mark.parametrize(
    "values",
    [
        {"controller": {"external": {"address": "127.0.0.1", "port": 9443}}},
        {"controller": {"external": {"address": "::1", "port": 9443}}},
        {"controller": {"external": {"address": "booking.example", "port": 9443}}},
        {"server": {"external": {"address": "192.0.2.10"}}},
        {"server": {"external": {"address": "192.0.2.10", "port": 0}}},
        {"server": {"url": "gpus.example.org"}},
        {"server": {"url": "https://gpus.example.org/below"}},
        {"admission": {"failurePolicy": "Perhaps"}},
        {"admission": {"timeoutSeconds": 31}},
        {"admissions": {}},
        {"image": {"registry": "https://images.example.org"}},
        {"image": {"registry": "images.example.org/"}},
        {"image": {"repository": "team:gpu"}},
        {"administrators": [{"kind": "Person", "name": "alice"}]},
        {"administrators": [{"kind": "ServiceAccount", "name": "robot"}]},
    ],
)
def test_values_that_cannot_work_are_refused(render: Render, values: dict[str, Any]) -> None:
    with pytest.raises(ClusterError, match="values don't meet the specifications of the schema"):
        render(values)


def test_the_schedulers_configuration_is_the_one_that_development_clusters_run_with(render: Render) -> None:
    (text,) = of_kind(render(), "ConfigMap")[names.SCHEDULER_LEASE]["data"].values()
    ours = scheduler_profile.configuration(kubeconfig=Path("/its/own"), extender_url="http://127.0.0.1:8880")
    # In the cluster kube-scheduler finds the API server, and who it is, by itself.
    del ours["clientConnection"]["kubeconfig"]

    assert yaml.safe_load(text) == ours


def test_the_schedulers_configuration_follows_the_values(render: Render) -> None:
    documents = render({"scheduler": {"name": "mine", "weight": 3, "migProfiles": ["1g.10gb"]}})
    (text,) = of_kind(documents, "ConfigMap")[names.SCHEDULER_LEASE]["data"].values()
    config = yaml.safe_load(text)

    assert [profile["schedulerName"] for profile in config["profiles"]] == ["mine"]
    assert config["extenders"][0]["weight"] == 3
    managed = [one["name"] for one in config["extenders"][0]["managedResources"]]
    assert managed == [names.GPU_RESOURCE, names.SHARED_RESOURCE, f"{names.MIG_RESOURCE_PREFIX}1g.10gb"]
    assert all(map(names.is_gpu_resource, managed))


@pytest.mark.parametrize("name", ["123", "true"])
def test_a_schedulers_name_stays_a_string(render: Render, name: str) -> None:
    documents = render({"scheduler": {"name": name}})
    (text,) = of_kind(documents, "ConfigMap")[names.SCHEDULER_LEASE]["data"].values()
    (profile,) = yaml.safe_load(text)["profiles"]
    assert profile["schedulerName"] == name


def test_a_scheduler_of_our_own_may_not_have_the_name_of_the_clusters(render: Render) -> None:
    with pytest.raises(ClusterError, match="both would bind the same pods"):
        render({"scheduler": {"mode": "dedicated", "name": "default-scheduler"}})


def test_for_the_clusters_own_scheduler_there_is_a_service_and_no_scheduler_of_ours(render: Render) -> None:
    documents = render({"scheduler": {"mode": "existing", "name": "default-scheduler"}})
    assert names.SCHEDULER_LEASE not in of_kind(documents, "ServiceAccount")
    assert names.SCHEDULER_LEASE not in of_kind(documents, "ConfigMap")
    service = of_kind(documents, "Service")[existing.SERVICE]["spec"]
    assert [port["port"] for port in service["ports"]] == [extender.PORT]
    named = [
        rule["resourceNames"]
        for rule in rules(documents, "Role", names.EXTENDER)
        if "leases" in rule["resources"] and "resourceNames" in rule
    ]
    assert named == [[names.EXTENDER_LEASE, names.VERDICT_LEASE]]


def test_the_configuration_of_the_clusters_own_scheduler_is_the_documented_one(render: Render) -> None:
    documents = render({"scheduler": {"mode": "existing", "name": "default-scheduler"}})
    config = yaml.safe_load(of_kind(documents, "ConfigMap")[existing.SERVICE]["data"]["scheduler.yaml"])
    documented = yaml.safe_load(documented_scheduler.existing().replace("```yaml", "").replace("```", ""))
    (documented_extender,) = documented["extenders"]
    documented_extender["urlPrefix"] = f"https://CLUSTER-IP:{extender.PORT}"
    assert {key: config[key] for key in documented} == documented
    assert config["clientConnection"]["kubeconfig"]
    assert config.keys() - documented.keys() == {"apiVersion", "kind", "clientConnection", "leaderElection"}


def test_an_extender_in_the_pod_of_its_scheduler_has_no_service_and_writes_one_lease(render: Render) -> None:
    documents = render()
    assert existing.SERVICE not in of_kind(documents, "Service")
    leases = [rule for rule in rules(documents, "Role", names.EXTENDER) if "leases" in rule["resources"]]
    named = [rule.get("resourceNames") for rule in leases if "patch" in rule["verbs"]]
    assert named == [[names.VERDICT_LEASE]]
    assert ["get", "list", "watch"] in [rule["verbs"] for rule in leases]
