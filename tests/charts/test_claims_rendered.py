"""What Helm makes for GPUs by claims: rights of the node agent, its policy, classes, and what is refused."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml

from booking.controller.admission.endpoint import CLAIMS_PATH, PATH
from cluster import claim_names, names
from devcluster.errors import ClusterError
from devcluster.product import chart
from tests.charts.conftest import Render
from tests.charts.test_rendered import of_kind

pytestmark = pytest.mark.component

BOOKED: dict[str, Any] = {"dra": {"enabled": True, "booking": True}}
EXISTING: dict[str, Any] = {"scheduler": {"mode": "existing"}}
ON = {"dra": {"enabled": True}, "nodeAgent": {"devicePlugin": "dra"}}


def test_the_agent_may_write_slices_of_its_own_node_and_read_claims(render: Render) -> None:
    found = {(one["kind"], one["metadata"]["name"]): one for one in render(ON)}
    rules = found["ClusterRole", claim_names.AGENT_CLAIMS_ROLE]["rules"]
    assert {(one["resources"][0], *one["verbs"]) for one in rules} == {
        ("resourceclaims", "get"),
        ("resourceslices", "list", "create", "patch", "delete"),
    }
    assert ("ValidatingAdmissionPolicyBinding", claim_names.SLICES_POLICY) in found
    assert ("DeviceClass", names.DRA_DRIVER) in found


@pytest.mark.parametrize(("values", "may_take"), [(ON, False), (BOOKED, True)])
def test_the_controller_may_take_devices_out_of_claims_where_they_are_booked(
    render: Render, values: dict[str, Any], *, may_take: bool
) -> None:
    """From 1.36 on the API server asks about both for an allocation."""
    rules = of_kind(render(values), "ClusterRole")[names.CONTROLLER]["rules"]
    found = {(each, *one["verbs"]) for one in rules for each in one["resources"]}
    both = {("resourceclaims/status", "patch"), ("resourceclaims/binding", "patch")}
    assert found & both == (both if may_take else set())


def test_classes_of_another_driver_have_its_name(render: Render) -> None:
    """NVIDIA's own stand beside them."""
    found = of_kind(render({"dra": {"enabled": True, "driverName": "gpu.example.com"}}), "DeviceClass")
    assert found.keys() == {"gpu.example.com", "mig.gpu.example.com"}


def test_without_claims_the_agent_has_no_rights_to_them(render: Render) -> None:
    assert claim_names.AGENT_CLAIMS_ROLE not in {one["metadata"]["name"] for one in render({})}


def test_the_agent_sees_both_records_of_claims(render: Render) -> None:
    """Its own one always: a device that a claim still has is nobody else's. The kubelet's as a folder."""
    for values in (ON, {}):
        pod = of_kind(render(values), "DaemonSet")[names.NODE_AGENT]["spec"]["template"]["spec"]
        mounts = {one["mountPath"]: one for one in pod["containers"][0]["volumeMounts"]}
        assert mounts["/var/lib/kubelet/plugins"].get("readOnly", False) == (values != ON)
        given = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
        state = given.get(names.setting("kubelet_state"))
        assert (state in mounts) == (values == ON)


def test_nodes_of_claims_without_the_rights_for_it_are_refused(render: Render) -> None:
    with pytest.raises(ClusterError, match="set dra"):
        render({"nodeAgent": {"devicePlugin": "dra"}})


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"dra": {"booking": True}}, "set dra.enabled"),
        ({"dra": {"shares": True}}, "set dra.enabled"),
        (BOOKED | EXISTING, "mode dedicated"),
        (BOOKED | {"admission": {"failurePolicy": "Ignore"}}, "failurePolicy Fail"),
        (BOOKED | {"scheduler": {"image": {"tag": "v1.36.4"}}}, "does not look at DeviceTaintRules"),
    ],
    ids=[
        "without the driver",
        "shared without it",
        "with the cluster's own scheduler",
        "unseen",
        "with a scheduler that knows no rules",
    ],
)
def test_claims_are_not_booked_or_shared_where_that_cannot_be_kept(
    render: Render, values: dict[str, Any], why: str
) -> None:
    with pytest.raises(ClusterError, match=why):
        render(values)


@pytest.mark.parametrize(("kubernetes", "is_refused"), [("v1.35.9", True), ("v1.36.0", False)])
def test_claims_share_gpus_only_where_the_api_server_adds_up_capacity(
    program: Path, tmp_path: Path, kubernetes: str, *, is_refused: bool
) -> None:
    values = {"dra": {"enabled": True, "shares": True}}
    with pytest.raises(ClusterError, match="consumable capacity") if is_refused else nullcontext():
        text = chart.render(program, tmp_path, values, ("resource.k8s.io/v1",), kubernetes=kubernetes)
        assert f"name: {names.setting('dra_shares')}" in text


@pytest.mark.parametrize(
    ("kubernetes", "scheduler", "has_counters"),
    [
        ("v1.35.9", {}, "false"),
        ("v1.36.0-rc.1", {}, "true"),
        ("v1.37.1", {"image": {"tag": "v1.35.9"}}, "false"),
        ("v1.37.1", {"image": {"tag": "latest"}}, "true"),
    ],
)
def test_devices_consume_counters_only_where_kube_scheduler_knows_them(
    program: Path, tmp_path: Path, kubernetes: str, scheduler: dict[str, Any], has_counters: str
) -> None:
    values = {**ON, "scheduler": scheduler}
    text = chart.render(program, tmp_path, values, ("resource.k8s.io/v1",), kubernetes=kubernetes)
    assert f'{{name: {names.setting("dra_counters")}, value: "{has_counters}"}}' in text


@pytest.mark.parametrize(("kubernetes", "is_refused"), [("v1.36.4", True), ("v1.37.0-rc.1", False)])
def test_claims_are_booked_only_where_the_api_server_has_taint_rules(
    program: Path, tmp_path: Path, kubernetes: str, *, is_refused: bool
) -> None:
    """Nodes can give GPUs by claims on the older one, all the same."""
    served = ("resource.k8s.io/v1",)
    assert claim_names.SLICES_POLICY in chart.render(program, tmp_path, ON, served, kubernetes=kubernetes)
    with pytest.raises(ClusterError, match="DeviceTaintRules") if is_refused else nullcontext():
        chart.render(program, tmp_path, BOOKED, served, kubernetes=kubernetes)


def test_booked_claims_go_to_one_scheduler_that_asks_about_all_of_its_pods(render: Render) -> None:
    found = {(one["kind"], one["metadata"]["name"]): one for one in render(BOOKED)}
    configuration = found["ConfigMap", names.SCHEDULER_NAME + "-scheduler"]["data"]["scheduler.yaml"]
    assert "managedResources" not in yaml.safe_load(configuration)["extenders"][0]
    webhooks = found["MutatingWebhookConfiguration", names.WEBHOOK]["webhooks"]
    requested = {path["clientConfig"]["service"]["path"]: path["rules"][0]["resources"] for path in webhooks}
    assert requested == {PATH: ["pods"], CLAIMS_PATH: ["resourceclaims"]}
    assert webhooks[1]["name"] == claim_names.CLAIMS_WEBHOOK
    (condition,) = webhooks[0]["matchConditions"]
    assert "resourceClaims" in condition["expression"]
    assert claim_names.CLASS_RESOURCE_PREFIX in condition["expression"]
    for policy in (
        claim_names.CLAIM_PODS_POLICY,
        claim_names.EXTENDED_POLICY,
        claim_names.GIVEN_BACK_POLICY,
    ):
        assert ("ValidatingAdmissionPolicyBinding", policy) in found
