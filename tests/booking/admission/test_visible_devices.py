"""A pod's own ``NVIDIA_VISIBLE_DEVICES`` would override the node agent's: GPU pods do not keep it."""

from typing import Any

import pytest

from cluster import names
from tests.booking.admission.fake_cluster_view import a_pod, reviewed

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
