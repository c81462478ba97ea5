"""A pod's own ``NVIDIA_VISIBLE_DEVICES`` would override the node agent's: GPU pods do not keep it."""

import base64
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from booking.controller.admission.metrics import Metrics
from booking.controller.admission.patch import Operation
from booking.controller.admission.visible_devices import hide_devices
from booking.controller.admission.webhook import Answering
from cluster import names
from demo.simulation.json_patch import applied
from tests.booking.controller.admission.fake_cluster_view import a_pod, reviewed

Json = dict[str, Any]

ALL = {"name": names.VISIBLE_DEVICES_VARIABLE, "value": "all"}
FROM = {
    "name": names.VISIBLE_DEVICES_VARIABLE,
    "valueFrom": {"configMapKeyRef": {"name": "x", "key": "y"}},
}
VOID = {"name": names.VISIBLE_DEVICES_VARIABLE, "value": "void"}
OTHER = {"name": "A", "value": "b"}
WITH_GPU = {"resources": {"limits": {names.GPU_RESOURCE: "1"}}}


def containers_after(*containers: Json, group: str = "containers", creator: str = "alice") -> list[Json]:
    pod = a_pod()
    if group == "containers":
        pod["spec"]["containers"] = [*containers]
    else:
        pod["spec"][group] = [*containers]
    found: list[Json] = reviewed(pod, creator)[0]["spec"][group]
    return found


@pytest.mark.parametrize("variable", [ALL, FROM, VOID])
@pytest.mark.parametrize("creator", ["alice", "bob"])
@pytest.mark.parametrize("group", ["containers", "initContainers"])
def test_the_variable_is_removed_from_a_container_with_a_gpu(
    variable: Json, creator: str, group: str
) -> None:
    (after,) = containers_after({**WITH_GPU, "env": [OTHER, variable]}, group=group, creator=creator)
    assert after == {**WITH_GPU, "env": [OTHER]}


@pytest.mark.parametrize("variable", [ALL, FROM, VOID])
@pytest.mark.parametrize("group", ["containers", "initContainers"])
def test_a_container_without_a_gpu_in_a_gpu_pod_sees_no_gpu(variable: Json, group: str) -> None:
    other = {"name": "other", "env": [variable, OTHER, variable]}
    *_, after = containers_after(WITH_GPU, other, group=group)
    assert after == {"name": "other", "env": [OTHER, VOID]}


def test_a_variable_from_a_config_map_is_overridden() -> None:
    source = {"envFrom": [{"configMapRef": {"name": "x"}}]}
    with_gpu, other = containers_after({**WITH_GPU, **source}, {"name": "other", **source})
    assert with_gpu == {**WITH_GPU, **source}
    assert other == {"name": "other", **source, "env": [VOID]}


@pytest.mark.parametrize("env", [None, [], [OTHER]])
def test_a_container_without_the_variable_is_left_alone(env: list[Json] | None) -> None:
    before = [{**WITH_GPU, "env": env}, {"name": "other", "env": env}]
    assert containers_after(*before) == before


def test_a_pod_without_gpus_is_left_alone() -> None:
    pod = a_pod(gpus=0)
    pod["spec"]["containers"][0]["env"] = [ALL]
    assert reviewed(pod)[1].kind == "untouched"


# --- pods without a GPU, in namespaces where they are to see none -----------------------------------


def without_sight(pod: Json, *, old: Json | None = None) -> Json:
    """The pod after the answer to a review of it; ``old``: it gets ephemeral containers."""
    request = {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "UPDATE" if old else "CREATE",
        "subResource": "ephemeralcontainers" if old else "",
        "userInfo": {"username": "alice"},
        "object": pod,
        "oldObject": old,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    reply = Answering(hide_devices, Metrics(CollectorRegistry()))(msgspec.json.encode(review))
    response = msgspec.json.decode(reply.body)["response"]
    assert response["allowed"]
    steps = msgspec.json.decode(base64.b64decode(response.get("patch") or b"W10="))
    after: Json = applied(pod, msgspec.convert(steps, tuple[Operation, ...]))
    return after


@pytest.mark.parametrize("group", ["containers", "initContainers"])
@pytest.mark.parametrize("variable", [ALL, VOID, None])
def test_a_container_of_a_pod_without_a_gpu_sees_none(variable: Json | None, group: str) -> None:
    pod = a_pod()
    pod["spec"] = {"containers": [{"name": "main"}]}
    pod["spec"][group] = [{"name": "main", "env": [variable, OTHER] if variable else [OTHER]}]
    (after,) = without_sight(pod)["spec"][group]
    assert after["env"] == ([VOID, OTHER] if variable else [OTHER, VOID])


def test_what_comes_from_elsewhere_is_left_for_the_policy_to_refuse_and_none_is_as_good_as_void() -> None:
    none = {**VOID, "value": "none"}
    for variable in (FROM, none):
        pod = a_pod()
        pod["spec"] = {"containers": [{"name": "main", "env": [variable]}]}
        assert without_sight(pod) == pod


def test_a_pod_with_a_gpu_is_left_as_it_is() -> None:
    pod = a_pod()
    pod["spec"] = {"containers": [{"name": "main", **WITH_GPU}, {"name": "other"}]}
    assert without_sight(pod) == pod


def test_ephemeral_containers_see_none_and_those_that_exist_are_not_changed() -> None:
    before = a_pod()
    before["spec"] = {"containers": [{"name": "main", **WITH_GPU}], "ephemeralContainers": [{"name": "old"}]}
    after = {**before, "spec": {**before["spec"], "ephemeralContainers": [{"name": "old"}, {"name": "new"}]}}
    spec = without_sight(after, old=before)["spec"]
    assert spec["ephemeralContainers"] == [{"name": "old"}, {"name": "new", "env": [VOID]}]
    assert spec["containers"] == before["spec"]["containers"]
