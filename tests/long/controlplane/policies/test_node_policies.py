"""The chart's policies on a real API server: who may write what on Nodes and Leases."""

from typing import Final

import pytest

from cluster import dialect_names, names
from devcluster.cluster import Cluster
from tests.long.controlplane.policies.policed import US, Json, People, Somebody, a_pod, is_denied, pods

pytestmark = pytest.mark.controlplane

NODES: Final = "/api/v1/nodes"
NODE: Final = f"{NODES}/node-a"
PRODUCT: Final = f"{names.NVIDIA_PREFIX}gpu.product"
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{US}/leases"


def of_node(**annotations: str | None) -> Json:
    return {"metadata": {"annotations": annotations}}


def test_a_node_agent_writes_its_own_node_and_lease(agent: Somebody) -> None:
    annotations = {names.INVENTORY: "[]", names.DRIFT: "{}", names.LABELS: PRODUCT}
    assert agent.patch(NODE, of_node(**annotations)).status == 200
    assert agent.patch(NODE, of_node(**{names.DRIFT: None})).status == 200
    lease = {"metadata": {"name": names.node_lease("node-a")}, "spec": {"holderIdentity": "x"}}
    assert agent.create(LEASES, lease).status == 201
    stopping = {"annotations": {names.STOPPING: "true"}}
    assert agent.change(f"{LEASES}/{names.node_lease('node-a')}", stopping).status == 200


def test_a_node_agent_labels_its_node_with_its_gpus(agent: Somebody) -> None:
    labels = {
        PRODUCT: "NVIDIA-H200",
        f"{names.NVIDIA_PREFIX}cuda.driver-version.full": "580.159.04",
        f"{names.NVIDIA_PREFIX}mig-1g.10gb.me.engines.copy": "1",
        f"{names.MODEL_LABEL}NVIDIA-H200": "8",
        names.GIVEN_BY: "ours",
    }
    assert agent.change(NODE, {"labels": labels}).status == 200
    answer = agent.change(NODE, {"labels": dict.fromkeys(labels)})
    assert (answer.status, labels.keys() & answer.kept[1].keys()) == (200, set())


@pytest.mark.parametrize(
    "key",
    [
        f"{names.NVIDIA_PREFIX}mig.config",
        f"{names.NVIDIA_PREFIX}gpu.present",
        f"{names.NVIDIA_PREFIX}gpu.deploy.driver",
        f"{names.NVIDIA_PREFIX}mig-x.count",
        "node-role.kubernetes.io/control-plane",
        "kubernetes.io/hostname",
    ],
)
def test_a_node_agent_writes_no_other_labels(people: People, agent: Somebody, key: str) -> None:
    there = dict(people.root.get(NODE).kept[1])
    assert is_denied(agent.change(NODE, {"labels": {key: "x"}}), "labels of its Node that say which GPUs")
    if key in there:
        assert is_denied(agent.change(NODE, {"labels": {key: None}}), "labels of its Node")


def test_a_node_agent_writes_nothing_of_another_node(
    people: People, agent: Somebody, other_node: str
) -> None:
    answer = agent.patch(other_node, of_node(**{names.INVENTORY: "[]"}))
    assert is_denied(answer, "agent of node node-a may not write Node node-b")
    for name in (names.node_lease("node-b"), names.MIRROR_LEASE):
        lease = {"metadata": {"name": name}}
        assert is_denied(agent.create(LEASES, lease), f"may not write Lease {name}")
        people.root.create(LEASES, lease)
        assert is_denied(agent.change(f"{LEASES}/{name}", {"labels": {"a": "b"}}), f"Lease {name}")


@pytest.mark.parametrize(
    "change",
    [
        of_node(**{names.USER: "x"}),
        of_node(**{"node.alpha.kubernetes.io/ttl": "1"}),
        {"metadata": {"finalizers": ["example.org/x"]}},
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": None, "podCIDR": None, "providerID": "x://y"}},
    ],
    ids=str,
)
def test_a_node_agent_writes_only_its_three_annotations(agent: Somebody, change: Json) -> None:
    assert is_denied(agent.patch(NODE, change), names.INVENTORY, names.DRIFT, names.LABELS)


def test_of_its_node_s_status_a_node_agent_writes_only_gpushare_s_amounts(
    agent: Somebody, other_node: str
) -> None:
    ours = {names.ALIYUN_MEMORY: "632", dialect_names.GPUSHARE_COUNT: "8"}
    written = agent.patch(f"{NODE}/status", {"status": {"capacity": ours, "allocatable": ours}})
    assert written.status == 200
    assert written.body["status"]["capacity"].items() >= ours.items()
    gone = {"status": {"capacity": dict.fromkeys(ours), "allocatable": dict.fromkeys(ours)}}
    assert agent.patch(f"{NODE}/status", gone).status == 200
    for status in (
        {"capacity": {names.GPU_RESOURCE: "8"}},
        {"allocatable": {"cpu": "1"}},
        {"capacity": {"cpu": None}},
        {"conditions": None, "addresses": None},
        {"phase": "Running"},
    ):
        assert is_denied(agent.patch(f"{NODE}/status", {"status": status}), "in its status"), status
    elsewhere = agent.patch(f"{other_node}/status", {"status": {"capacity": ours}})
    assert is_denied(elsewhere, "may not write Node node-b")


def test_the_token_of_a_node_agent_in_a_pod_names_its_node(
    people: People, cluster: Cluster, other_node: str
) -> None:
    spec = {"nodeName": "node-a", "serviceAccountName": names.NODE_AGENT}
    name = people.root.create(pods(US), a_pod(spec=spec)).body["metadata"]["name"]
    bound = (f"--namespace={US}", "--bound-object-kind=Pod", f"--bound-object-name={name}")
    agent = Somebody(cluster, cluster.kubectl("create", "token", names.NODE_AGENT, *bound).strip())
    assert agent.patch(NODE, of_node(**{names.INVENTORY: "[]"})).status == 200
    assert is_denied(agent.patch(other_node, of_node(**{names.INVENTORY: "[]"})), "agent of node node-a")


def test_a_node_agent_whose_token_names_no_node_writes_nothing(people: People) -> None:
    nameless = people.account(US, names.NODE_AGENT)
    for answer in (
        nameless.patch(NODE, of_node(**{names.INVENTORY: "[]"})),
        nameless.create(LEASES, {"metadata": {"name": names.node_lease("node-a")}}),
    ):
        assert is_denied(answer, "does not say on which node it runs", "bind its token to its Node")


@pytest.mark.parametrize("part", ["annotations", "labels"])
def test_law_l1_no_other_account_writes_which_gpus_a_node_has(
    people: People, agent: Somebody, other_node: str, part: str
) -> None:
    assert agent.patch(NODE, of_node(**{names.INVENTORY: "[]"})).status == 200
    forged = {part: {names.INVENTORY: "x"}}
    for somebody in (people.operator, people.controller, people.kubelet):
        for path in (NODE, f"{NODE}/status"):
            assert somebody.change(path, forged).status == 403
    assert is_denied(people.operator.change(NODE, forged), "Only the agent of node node-a")
    assert is_denied(people.operator.create(NODES, {"metadata": {"name": "node-c", **forged}}), "node-c")
    assert people.operator.change(NODE, {part: {"other": "x"}}).status == 200
    assert people.administrator.change(other_node, forged).status == 200


def test_only_the_server_and_administrators_write_orders_about_gpus(
    people: People, agent: Somebody, other_node: str
) -> None:
    order = of_node(**{names.DEVICE_ORDERS: '{"GPU-0":{"cordoned":"alice: x"}}'})
    server = people.account(US, names.BOOKING_SERVER)
    assert server.patch(NODE, order).status == 200
    forged = {"annotations": {names.DEVICE_ORDERS: None}}
    for somebody in (people.operator, people.controller, people.kubelet, agent):
        assert somebody.change(NODE, forged).status == 403
    assert is_denied(people.operator.change(NODE, forged), "Only the agent of node node-a")
    # Of two policies that refuse the server's writing an inventory either may be the one that is reported.
    assert server.patch(NODE, of_node(**{names.INVENTORY: "forged"})).status == 403
    assert is_denied(server.patch(NODE, of_node(**{"example.org/of-the-server": "x"})), names.DEVICE_ORDERS)
    assert people.administrator.change(NODE, forged).status == 200
    assert people.administrator.patch(other_node, order).status == 200


def test_our_controller_writes_nothing_of_a_node_but_the_gpus_that_it_has_counted(
    people: People, other_node: str
) -> None:
    counted = of_node(**{names.INVENTORY: "[]", names.COUNTED: "true"})
    assert people.controller.patch(other_node, counted).status == 200
    for change in (
        {"spec": {"unschedulable": True}},
        {"metadata": {"labels": {"a": "b"}}},
        of_node(**{"example.org/x": "x"}),
    ):
        assert is_denied(people.controller.patch(other_node, change), "The controller writes only"), change
    nothing = of_node(**{names.INVENTORY: None, names.COUNTED: None})
    assert people.controller.patch(other_node, nothing).status == 200


def test_the_server_keeps_autoscalers_off_a_node_only_by_an_annotation_of_its_own(people: People) -> None:
    server = people.account(US, names.BOOKING_SERVER)
    kept = of_node(**{names.SCALE_DOWN_DISABLED: "true", names.NODE_KEPT: "true"})
    nothing = of_node(**{names.SCALE_DOWN_DISABLED: None, names.NODE_KEPT: None})
    assert server.patch(NODE, kept).status == 200
    assert server.patch(NODE, nothing).status == 200
    others = names.SCALE_DOWN_DISABLED
    assert is_denied(server.patch(NODE, of_node(**{others: "true"})), names.NODE_KEPT)
    assert is_denied(
        server.patch(NODE, of_node(**{others: "false", names.NODE_KEPT: "true"})), names.NODE_KEPT
    )
    assert people.root.patch(NODE, of_node(**{others: "false"})).status == 200
    for theirs in (of_node(**{others: None}), of_node(**{names.NODE_KEPT: "true"}), kept):
        assert is_denied(server.patch(NODE, theirs), names.NODE_KEPT)
    assert people.root.patch(NODE, nothing).status == 200
    for somebody in (people.operator, people.controller, people.kubelet):
        assert somebody.patch(NODE, of_node(**{names.NODE_KEPT: "true"})).status == 403
