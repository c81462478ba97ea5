"""What a pod asks for as a whole, in the units in which a node's is counted."""

from typing import Any

import msgspec
import pytest

from cluster import names
from cluster.decide.scheduler_filters.resource_amounts import capacity, requests
from cluster.objects.pods import Pod
from tests.cluster.decide.scheduler_filters.cases import Json


def one(restart: str | None = None, **amounts: str) -> Json:
    return {
        "restartPolicy": restart,
        "resources": {"requests": {k.replace("_", "-"): v for k, v in amounts.items()}},
    }


def requested(*apps: Json, inits: tuple[Json, ...] = (), **spec: Any) -> dict[str, int]:
    body = {"spec": {"containers": list(apps), "initContainers": list(inits), **spec}}
    return dict(requests(msgspec.convert(body, Pod)))


SIDE = one("Always", cpu="1")


@pytest.mark.parametrize(
    ("inits", "millicores"),
    [
        pytest.param((), 2000, id="none"),
        pytest.param((one(cpu="1"), one(cpu="1500m")), 2000, id="smaller than the app"),
        pytest.param((one(cpu="3"), one(cpu="2")), 3000, id="the largest of those that run alone"),
        pytest.param((SIDE,), 3000, id="a sidecar stays"),
        pytest.param((SIDE, one(cpu="4")), 5000, id="a sidecar runs along with those after it"),
        pytest.param((one(cpu="4"), SIDE), 4000, id="and not with those before it"),
        pytest.param((SIDE, SIDE, one(cpu="500m")), 4000, id="sidecars run along with each other"),
    ],
)
def test_init_containers_run_one_by_one_and_sidecars_beside_them(
    inits: tuple[Json, ...], millicores: int
) -> None:
    assert requested(one(cpu="2"), inits=inits) == {"cpu": millicores}


def test_pod_level_resources_replace_the_sums_of_its_containers() -> None:
    whole = {"requests": {"cpu": "3", names.GPU_RESOURCE: "9"}}
    expected = {"cpu": 3000, "memory": 2**30, "ephemeral-storage": 1}
    assert requested(one(cpu="1", memory="1Gi", ephemeral_storage="1"), resources=whole) == expected


def test_pod_overhead_is_added() -> None:
    assert requested(one(cpu="1"), overhead={"cpu": "250m", "memory": "1Mi"}) == {
        "cpu": 1250,
        "memory": 2**20,
    }


def test_parts_of_a_unit_are_rounded_up_once() -> None:
    assert requested(one(cpu="100u", memory="500m"), one(cpu="100u", memory="600m")) == {
        "cpu": 1,
        "memory": 2,
    }


def test_gpus_zero_and_unreadable_amounts_are_left_out() -> None:
    odd = {"resources": {"requests": {names.GPU_RESOURCE: "1", "cpu": "lots", "memory": "0"}}}
    assert requested(odd) == {}


@pytest.mark.parametrize(
    ("name", "text", "amount"),
    [("cpu", "64", 64_000), ("cpu", "1500m", 1500), ("memory", "1e3", 1000), ("pods", 110, 110)],
)
def test_amounts_of_a_node_are_read_in_the_units_of_their_resource(
    name: str, text: str | int, amount: int
) -> None:
    assert capacity(name, text) == amount
