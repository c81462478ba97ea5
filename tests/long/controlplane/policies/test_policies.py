"""The chart's policies on a real API server: which account may write what, each with its own token."""

import json
from typing import Any, Final

import pytest

from cluster import names
from cluster.fake.clock import eventually
from cluster.kube.interface import Selection
from cluster.kube.resources import PODS
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.product import chart
from tests.e2e.playground import PATIENCE
from tests.long.controlplane.policies.meddling import BETWEEN, meddled
from tests.long.controlplane.policies.policed import (
    APPLY,
    BLIND,
    BY_FIELD,
    HOME,
    STRATEGIC,
    US,
    Json,
    People,
    Somebody,
    a_binding,
    a_pod,
    is_denied,
    pods,
    seen,
)

pytestmark = pytest.mark.controlplane

NODES: Final = "/api/v1/nodes"
NODE: Final = f"{NODES}/node-a"
NAMESPACES: Final = "/api/v1/namespaces"
TEMPLATES: Final = f"{NAMESPACES}/{HOME}/podtemplates"
CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
VISIBLE: Final = names.VISIBLE_DEVICES_VARIABLE
GPU: Final = {
    "op": "add",
    "path": "/spec/containers/0/resources",
    "value": {"limits": {names.GPU_RESOURCE: "1"}},
}


def test_every_policy_is_understood_for_all_kinds_that_it_is_about(cluster: Cluster, people: People) -> None:
    assert people
    found = json.loads(cluster.kubectl("get", "validatingadmissionpolicies", "--output=json"))["items"]
    ours = [policy for policy in found if policy["metadata"]["name"].startswith(names.COMEBACK_PREFIX)]
    eventually(lambda: ours and all("status" in policy for policy in ours))
    assert {p["metadata"]["name"]: p["status"]["typeChecking"] for p in ours} == {
        p["metadata"]["name"]: {} for p in ours
    }


# --- our keys on pods ------------------------------------------------------------------------------------
FORGERIES: Final = [
    {"annotations": {names.USER: "bob"}},
    {"annotations": {names.HOLD: None}},
    {"annotations": {names.TERMINATE_AT: "2999-01-01T00:00:00Z"}},
    {"labels": {names.COMEBACK: None}},
    {"labels": {names.TERMINATE_AT: "never"}},
    {"finalizers": []},
    {"finalizers": [names.COMEBACK, f"{names.COMEBACK}-more"]},
]


@pytest.mark.parametrize("forgery", FORGERIES, ids=str)
def test_l7_nobody_changes_our_keys_of_a_pod(people: People, pod: str, forgery: Json) -> None:
    before = people.root.get(pod).kept
    for path in (pod, f"{pod}/status"):
        answer = people.operator.change(path, forgery)
        assert is_denied(answer, "Only GPU Booking writes", pod.rpartition("/")[2]), answer
    assert is_denied(people.alice.change(pod, forgery), "Only GPU Booking writes")
    assert people.root.get(pod).kept == before


def test_l7_put_apply_and_json_patch_do_not_change_our_keys_of_a_pod_either(people: People, pod: str) -> None:
    whole = people.root.get(pod).body
    before = people.root.get(pod).kept
    del whole["metadata"]["annotations"][names.USER], whole["metadata"]["resourceVersion"]
    applied = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": whole["metadata"]["name"], "annotations": {names.USER: "bob"}},
    }
    escaped = names.USER.replace("/", "~1")
    removing: Any = [{"op": "remove", "path": f"/metadata/annotations/{escaped}"}]
    assert is_denied(people.alice.replace(pod, whole), names.USER)
    assert is_denied(people.alice.patch(pod, applied, APPLY), names.USER)
    assert is_denied(people.alice.patch(pod, removing, "application/json-patch+json"), names.USER)
    assert people.root.get(pod).kept == before


@pytest.mark.parametrize("subresource", ["ephemeralcontainers", "resize"])
@pytest.mark.parametrize("forgery", FORGERIES, ids=str)
def test_l7_ephemeral_containers_and_resize_do_not_change_our_keys_of_a_pod_either(
    people: People, pod: str, subresource: str, forgery: Json
) -> None:
    before = people.root.get(pod).kept
    answer = people.operator.change(f"{pod}/{subresource}", forgery)
    assert answer.status == 200 or is_denied(answer, "Only GPU Booking writes")
    assert people.root.get(pod).kept == before


def test_a_user_keeps_requests_and_all_other_keys(people: People, pod: str) -> None:
    theirs = {
        "annotations": {names.MODEL: "NVIDIA-L4", names.CHECKPOINT_AT: "2026-03-02T09:00:00Z"},
        "labels": {"app": "x"},
        "finalizers": [names.COMEBACK, "example.org/mine"],
    }
    answer = people.alice.change(pod, theirs)
    assert answer.status == 200
    assert answer.annotations[names.MODEL] == "NVIDIA-L4"
    assert people.alice.change(pod, {"finalizers": [names.COMEBACK]}).status == 200


def test_an_ephemeral_container_may_be_added_to_a_pod_of_ours(people: People, pod: str) -> None:
    debugger = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "example.invalid/none"}]}}
    assert people.operator.patch(f"{pod}/ephemeralcontainers", debugger, STRATEGIC).status == 200


def test_a_write_that_leaves_our_keys_as_they_are_is_allowed(people: People, pod: str) -> None:
    """The kubelet reports on a pod that the extender has bound; its status patches touch no key."""
    name = pod.rpartition("/")[2]
    body = a_binding(name, "node-a", annotations={names.ASSIGNED: "{}"})
    assert people.extender.create(f"{pod}/binding", body).status == 201
    eventually(lambda: "containerStatuses" in people.root.get(pod).body["status"], deadline=PATIENCE)
    assert people.root.get(pod).annotations[names.ASSIGNED] == "{}"


def test_an_administrator_removes_a_finalizer_that_hangs(people: People, pod: str) -> None:
    assert people.alice.delete(pod).status == 200
    assert is_denied(people.operator.change(pod, {"finalizers": None}), names.COMEBACK, "administer")
    assert people.administrator.change(pod, {"finalizers": None}).status == 200
    assert people.root.get(pod).status == 404


# --- binding ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("part", ["annotations", "labels"])
def test_law_l1_only_the_extender_binds_with_devices(people: People, pod: str, part: str) -> None:
    name = pod.rpartition("/")[2]
    body = a_binding(name, **{part: {names.ASSIGNED: "x"}})
    for path in (f"{pod}/binding", f"{NAMESPACES}/{HOME}/bindings"):
        for somebody in (people.operator, people.administrator, people.scheduler):
            assert is_denied(somebody.create(path, body), "Only GPU Booking's extender")
    assert "nodeName" not in people.root.get(pod).body["spec"]


def test_the_extender_may_share_the_account_of_our_scheduler(people: People, pod: str) -> None:
    body = a_binding(pod.rpartition("/")[2], annotations={names.ASSIGNED: "{}"})
    shared = people.account(US, names.SCHEDULER_ACCOUNT)
    assert shared.create(f"{pod}/binding", body).status == 201
    assert people.root.get(pod).annotations[names.ASSIGNED] == "{}"


def test_rbac_lets_no_ordinary_user_bind(people: People, pod: str) -> None:
    body = a_binding(pod.rpartition("/")[2])
    for path in (f"{pod}/binding", f"{NAMESPACES}/{HOME}/bindings"):
        answer = people.alice.create(path, body)
        assert answer.status == 403
        assert "cannot create resource" in answer.message


def test_only_listed_schedulers_bind_where_the_administrator_wants_it_so(
    people: People, cluster: Cluster, values: Json
) -> None:
    def binds(somebody: Somebody, door: str) -> Any:
        waiting = a_pod(spec={"schedulerName": "nobody"})
        name = people.alice.create(pods(), waiting).body["metadata"]["name"]
        return somebody.create(f"{NAMESPACES}/{HOME}/{door.format(name)}", a_binding(name))

    doors = ("pods/{}/binding", "bindings")
    assert all(binds(people.operator, door).status == 201 for door in doors)
    chart.install(cluster, values | {"policies": {"binders": {"restricted": True}}})
    try:
        eventually(
            lambda: is_denied(binds(people.operator, doors[0]), "policies.binders.allowed"), deadline=PATIENCE
        )
        for door in doors:
            assert is_denied(binds(people.operator, door), "may not bind pods", "operator")
            assert is_denied(binds(people.administrator, door), "may not bind pods", "administrator")
        ours = people.account(US, names.SCHEDULER_ACCOUNT)
        assert all(binds(one, doors[0]).status == 201 for one in (people.scheduler, people.extender, ours))
    finally:
        chart.install(cluster, values)
        eventually(lambda: binds(people.operator, doors[0]).status == 201, deadline=PATIENCE)


# --- pods with GPUs --------------------------------------------------------------------------------------
def test_a_pod_with_gpus_that_our_webhook_has_seen_is_admitted(people: People, cluster: Cluster) -> None:
    assert names.ADMITTED in people.alice.create(pods(), a_pod(gpus=1)).annotations
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": HOME},
        "spec": {"template": a_pod(gpus=1, spec={"restartPolicy": "Never"}, labels={"app": "job"})},
    }
    assert people.alice.create(f"/apis/batch/v1/namespaces/{HOME}/jobs", job).status == 201
    kube, of_job = administrator(cluster), Selection(namespace=HOME, label_selector="app=job")
    eventually(lambda: kube.list(PODS, of_job).items, deadline=PATIENCE)


FORGED: Final = {
    names.ADMITTED: "true",
    names.USER: "alice",
    names.BOOKING: "b-1",
}


@pytest.mark.usefixtures("meddler")
@pytest.mark.parametrize("forged", [{}, FORGED], ids=["honest", "forged"])
def test_l7_gpus_that_another_webhook_adds_after_ours_are_refused(people: People, forged: Json) -> None:
    spec = {"schedulerName": names.SCHEDULER_NAME, "priorityClassName": names.OPPORTUNISTIC_CLASS}
    metadata = meddled([GPU])
    metadata["annotations"] |= forged
    for somebody in (people.alice, people.administrator):
        answer = somebody.create(pods(), a_pod(spec=spec, **metadata))
        assert is_denied(answer, "another webhook has added them", "get mutatingwebhookconfigurations"), (
            answer
        )


@pytest.mark.usefixtures("meddler")
@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("/spec/schedulerName", "default-scheduler", "only scheduler gpu-booking gives out"),
        ("/spec/priorityClassName", "system-cluster-critical", "priorityClassName is neither"),
        ("/spec/nodeName", "node-a", "names its node"),
    ],
)
def test_l7_a_later_webhook_may_not_undo_what_ours_did(
    people: People, path: str, value: str, words: str
) -> None:
    patch = [{"op": "add", "path": path, "value": value}]
    answer = people.alice.create(pods(), a_pod(gpus=1, **meddled(patch)))
    assert is_denied(answer, words), answer


RENAMED: Final = {**GPU, "op": "replace", "value": {"limits": {"example.org/slice": "1"}}}
REMOVED: Final = {**GPU, "op": "replace", "value": {}}


@pytest.mark.usefixtures("meddler")
@pytest.mark.parametrize("change", [REMOVED, RENAMED], ids=["removed", "renamed"])
def test_l7_a_pod_whose_gpu_another_webhook_takes_is_created_without_priority(
    people: People, change: Json
) -> None:
    pod = people.alice.create(pods(), a_pod(gpus=1, **meddled([change], BETWEEN)))
    assert pod.status == 201, pod
    assert pod.body["spec"].get("priorityClassName") is None
    assert (pod.body["spec"]["priority"], pod.body["spec"]["schedulerName"]) == (0, "default-scheduler")
    assert [key for key in pod.annotations if names.is_ours(key)] == [names.STRIPPED]
    refused = people.alice.create(pods(), a_pod(gpus=1, **meddled([change])))
    assert is_denied(refused, "asked for GPUs when GPU Booking looked", "get mutatingwebhookconfigurations")


@pytest.mark.usefixtures("meddler")
def test_a_limit_range_gives_no_gpu_for_one_that_another_webhook_takes(people: People) -> None:
    ranges = f"/api/v1/namespaces/{HOME}/limitranges"
    limits = {"limits": [{"type": "Container", "max": {names.GPU_RESOURCE: "2"}}]}
    assert people.root.create(ranges, {"metadata": {"name": "gpus"}, "spec": limits}).status == 201
    try:
        eventually(
            lambda: names.LIMIT_RANGER in people.alice.create(pods(), a_pod(), dry=True).annotations,
            deadline=PATIENCE,
        )
        pod = people.alice.create(pods(), a_pod(gpus=1, **meddled([REMOVED], BETWEEN)))
        assert pod.status == 201, pod
        (container,) = pod.body["spec"]["containers"]
        assert container["resources"]["limits"] == {names.GPU_RESOURCE: "0"}
        assert names.STRIPPED in pod.annotations
        assert names.ADMITTED not in pod.annotations
    finally:
        people.root.delete(f"{ranges}/gpus")


@pytest.mark.usefixtures("meddler")
def test_a_pod_to_which_another_webhook_adds_gpus_is_admitted_like_any_with_gpus(people: People) -> None:
    pod = people.alice.create(pods(), a_pod(**meddled([GPU], BETWEEN)))
    assert pod.status == 201, pod
    assert pod.annotations[names.ADMITTED] == "true"
    assert pod.annotations[names.USER] == people.alice.create(pods(), a_pod(gpus=1)).annotations[names.USER]
    spec = pod.body["spec"]
    assert (spec["priorityClassName"], spec["schedulerName"]) == (
        names.OPPORTUNISTIC_CLASS,
        names.SCHEDULER_NAME,
    )


@pytest.mark.usefixtures("meddler")
@pytest.mark.parametrize(
    ("path", "value"),
    [("/spec/schedulerName", "default-scheduler"), ("/spec/priorityClassName", "system-cluster-critical")],
)
def test_what_another_webhook_undoes_is_done_again(people: People, path: str, value: str) -> None:
    patch = [{"op": "replace", "path": path, "value": value}]
    spec = people.alice.create(pods(), a_pod(gpus=1, **meddled(patch, BETWEEN))).body["spec"]
    assert (spec["priorityClassName"], spec["schedulerName"]) == (
        names.OPPORTUNISTIC_CLASS,
        names.SCHEDULER_NAME,
    )


@pytest.mark.parametrize("resource", [names.GPU_RESOURCE, "nvidia.com/mig-1g.10gb"])
def test_law_l1_a_pod_with_gpus_does_not_choose_its_node(people: People, resource: str) -> None:
    asking = a_pod(container={"resources": {"limits": {resource: "1"}}}, spec={"nodeName": "node-a"})
    assert is_denied(people.alice.create(pods(), asking, dry=True), "names its node", "spec.nodeSelector")
    setup = {"name": "setup", "image": "example.invalid/none", "resources": {"limits": {resource: "1"}}}
    first = a_pod(spec={"nodeName": "node-a", "initContainers": [setup]})
    assert is_denied(people.administrator.create(pods(), first, dry=True), "names its node")


@pytest.mark.parametrize("amount", ["0", "0k"])
def test_a_pod_that_requests_no_gpu_may_choose_its_node(people: People, amount: str) -> None:
    none = {"resources": {"limits": {names.GPU_RESOURCE: amount}}}
    spec = {"nodeName": "node-a", "schedulerName": "another"}
    assert people.alice.create(pods(), a_pod(container=none, spec=spec), dry=True).status == 201


def test_the_kubelet_may_create_the_mirror_pod_of_a_static_pod_with_gpus(people: People) -> None:
    node = people.root.get(NODE).body["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": node["uid"], "controller": True}
    mirror = {names.STATIC_POD: "x", "kubernetes.io/config.source": "file"}
    metadata = {"name": "static-node-a", "annotations": mirror, "ownerReferences": [owner]}
    pod = a_pod(gpus=1, spec={"nodeName": "node-a"}, **metadata)
    assert people.kubelet.create(pods(), pod, dry=True).status == 201
    assert is_denied(people.alice.create(pods(), pod, dry=True), "names its node")


def test_policies_do_not_apply_to_namespaces_that_the_webhook_does_not_see(people: People) -> None:
    pod = a_pod(gpus=1, spec={"nodeName": "node-a"})
    assert people.operator.create(pods("kube-system"), pod, dry=True).status == 201


# --- our priority classes --------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [names.BOOKED_CLASS, names.OPPORTUNISTIC_CLASS])
@pytest.mark.parametrize("namespace", [HOME, "kube-system"])
def test_l7_no_pod_without_a_gpu_has_a_class_of_ours(people: People, name: str, namespace: str) -> None:
    forged = a_pod(spec={"priorityClassName": name}, annotations=dict(FORGED), generateName="p-")
    answer = people.administrator.create(pods(namespace), forged, dry=True)
    assert is_denied(answer, "asks for no GPU", name, "leave priorityClassName out")


@pytest.mark.usefixtures("meddler")
def test_l7_only_a_booked_pod_has_the_booked_class(people: People) -> None:
    patch = [{"op": "replace", "path": "/spec/priorityClassName", "value": names.BOOKED_CLASS}]
    answer = people.alice.create(pods(), a_pod(gpus=1, **meddled(patch)))
    assert is_denied(answer, "no running booking covers it")


@pytest.mark.parametrize("name", [names.BOOKED_CLASS, names.OPPORTUNISTIC_CLASS])
def test_only_administrators_change_our_priority_classes(people: People, name: str) -> None:
    path = f"{CLASSES}/{name}"
    assert is_denied(
        people.operator.change(path, {"labels": {"a": "b"}}), "leave them as the chart made them"
    )
    assert is_denied(people.operator.delete(path), "leave them as the chart made them")
    assert people.administrator.change(path, {"labels": {"a": "b"}}).status == 200
    other = {"metadata": {"generateName": "other-"}, "value": 7}
    assert people.operator.create(CLASSES, other).status == 201


# --- what comes back -------------------------------------------------------------------------------------
def a_template(name: str, **labels: str) -> Json:
    return {"metadata": {"name": name, "labels": labels}, "template": a_pod()}


def test_l7_pods_come_back_from_templates_of_our_controller_alone(people: People) -> None:
    ours = a_template(f"{names.COMEBACK_PREFIX}1", **{names.COMEBACK: "true"})
    assert people.controller.create(TEMPLATES, ours).status == 201
    path = f"{TEMPLATES}/{names.COMEBACK_PREFIX}1"
    mine = a_template("mine")
    assert people.operator.create(TEMPLATES, mine).status == 201
    refused = [
        people.operator.create(TEMPLATES, a_template(f"{names.COMEBACK_PREFIX}2")),
        people.operator.create(TEMPLATES, a_template("theirs", **{names.COMEBACK: "true"})),
        people.operator.change(f"{TEMPLATES}/mine", {"labels": {names.COMEBACK: "true"}}),
        people.operator.change(path, {"labels": {names.COMEBACK: None}}),
        people.operator.patch(path, {"template": {"metadata": {"annotations": {names.USER: "bob"}}}}),
        people.operator.delete(path),
        people.operator.delete(TEMPLATES),
    ]
    assert all(is_denied(answer, "Only GPU Booking writes PodTemplate") for answer in refused), refused
    assert people.controller.change(path, {"annotations": {names.COMEBACK_DUE: "now"}}).status == 200
    assert people.administrator.delete(path).status == 200


def test_a_namespace_in_which_a_pod_would_come_back_can_be_deleted(people: People) -> None:
    assert people.operator.create(NAMESPACES, {"metadata": {"name": "ending"}}).status == 201
    ours = a_template(f"{names.COMEBACK_PREFIX}3", **{names.COMEBACK: "true"})
    templates = f"{NAMESPACES}/ending/podtemplates"
    orphan = a_template(f"{names.COMEBACK_PREFIX}4", **{names.COMEBACK: "true"})
    gone = {"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "11111111-2222-3333-4444-555555555555"}
    orphan["metadata"]["ownerReferences"] = [gone]
    assert people.controller.create(templates, ours).status == 201
    assert people.controller.create(templates, orphan).status == 201
    eventually(
        lambda: people.root.get(f"{templates}/{names.COMEBACK_PREFIX}4").status == 404, deadline=PATIENCE
    )  # by the garbage collector
    assert people.operator.delete(f"{NAMESPACES}/ending").status == 200
    eventually(lambda: people.root.get(f"{NAMESPACES}/ending").status == 404, deadline=PATIENCE)


# --- namespaces ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "keys",
    [
        {"annotations": {names.OWNER: "alice"}},
        {"annotations": {names.NEVER_EVICT: "true"}},
        {"annotations": {names.DEFAULT_SHARE: "25%"}},
        {"labels": {names.NO_VISIBLE_DEVICES: "true"}},
    ],
    ids=str,
)
def test_l7_only_administrators_write_our_keys_of_a_namespace(people: People, keys: Json) -> None:
    ((part, ((key, _),)),) = [(part, found.items()) for part, found in keys.items()]
    refused = people.operator.create(NAMESPACES, {"metadata": {"generateName": "n-", **keys}}, dry=True)
    assert is_denied(refused, "Only administrators of GPU Booking write", key)
    made = people.administrator.create(NAMESPACES, {"metadata": {"generateName": "n-", **keys}})
    path = f"{NAMESPACES}/{made.body['metadata']['name']}"
    for value in ("bob", None):
        for where in (path, f"{path}/status"):
            assert is_denied(people.operator.change(where, {part: {key: value}}), key)
    assert people.operator.change(path, {part: {"other": "x"}}).status == 200
    assert people.administrator.change(path, {part: {key: None}}).status == 200
    assert is_denied(people.operator.change(path, {part: {key: "bob"}}), key)


# --- pods without a GPU where none is visible ------------------------------------------------------------
def test_no_container_without_a_gpu_sees_one(people: People) -> None:
    plain = {"image": "example.invalid/none"}
    chosen = {**plain, "env": [{"name": "A", "value": "a"}, {"name": VISIBLE, "value": "all"}]}
    twice = {**plain, "env": [{"name": VISIBLE, "value": "all"}, {"name": VISIBLE, "value": "0"}]}
    setup = [{"name": "a", **chosen}, {"name": "b", **plain, "restartPolicy": "Always"}]
    pod = a_pod(
        spec={"initContainers": setup, "containers": [{"name": "c", **twice}, {"name": "d", **plain}]}
    )
    created = people.alice.create(pods(BLIND), pod)
    assert seen(created, "initContainers", "containers") == [["void"]] * 4
    path = f"{pods(BLIND)}/{created.body['metadata']['name']}/ephemeralcontainers"
    for name in ("e", "f"):
        answer = people.operator.patch(
            path, {"spec": {"ephemeralContainers": [{"name": name, **chosen}]}}, STRATEGIC
        )
        assert answer.status == 200, answer
    assert seen(people.root.get(path.rpartition("/")[0]), "ephemeralContainers") == [["void"]] * 2


def test_a_variable_that_cannot_be_replaced_is_refused(people: People) -> None:
    answer = people.alice.create(pods(BLIND), a_pod(container={"env": [BY_FIELD]}))
    assert is_denied(
        answer, "Container main belongs to a pod without a GPU", f"set its environment variable {VISIBLE}"
    )


@pytest.mark.usefixtures("meddler")
def test_a_later_webhook_does_not_show_a_gpu_to_a_container_without_one(people: People) -> None:
    env = {"op": "replace", "path": "/spec/containers/0/env", "value": [{"name": VISIBLE, "value": "all"}]}
    created = people.alice.create(pods(BLIND), a_pod(**meddled([env])))
    assert seen(created) == [["void"]], created
    # A webhook that takes a pod's GPUs away, ours too, does it after the variable has been checked once.
    stripped = [
        {"op": "remove", "path": "/spec/containers/0/resources"},
        {"op": "remove", "path": "/spec/priorityClassName"},
    ]
    created = people.alice.create(pods(BLIND), a_pod(gpus=1, **meddled(stripped)))
    assert seen(created) == [["void"]], created


def test_pods_with_gpus_and_other_namespaces_are_left_alone(people: People) -> None:
    assert seen(people.alice.create(pods(BLIND), a_pod(gpus=1), dry=True)) != [["void"]]
    assert seen(people.alice.create(pods(), a_pod(), dry=True)) == [[]]


def test_the_value_none_hides_gpus_as_well_where_no_policy_writes_the_variable(
    people: People, cluster: Cluster, values: Json
) -> None:
    def created(*env: Json) -> Any:
        return people.alice.create(pods(BLIND), a_pod(container={"env": [*env]}), dry=True)

    cluster.kubectl("delete", "mutatingadmissionpolicybinding", f"{names.COMEBACK_PREFIX}visible-devices")
    try:
        eventually(lambda: is_denied(created(), "set its environment variable", "to void"), deadline=PATIENCE)
        for value, status in (("none", 201), ("void", 201), ("all", 403), ("", 403)):
            assert created({"name": VISIBLE, "value": value}).status == status
    finally:
        chart.install(cluster, values)
        eventually(lambda: created().status == 201, deadline=PATIENCE)
