"""Whether enough of a node is free, at the edges."""

import msgspec
import pytest

from cluster.decide.scheduler_filters.existing_pods import ExistingPod, node_pods_of
from cluster.decide.scheduler_filters.node_resources_fit import CROWDED, FULL, Resources
from cluster.objects.nodes import Node
from tests.cluster.decide.scheduler_filters import cases


def a_node(**allocatable: str) -> Node:
    return msgspec.convert({"metadata": {"name": "n0"}, "status": {"allocatable": allocatable}}, Node)


def others(*cpus: int) -> list[ExistingPod]:
    return [
        ExistingPod(uid=f"u{number}", namespace="team", labels={}, requests=(("cpu", cpu),) if cpu else ())
        for number, cpu in enumerate(cpus)
    ]


def rejection(requests: dict[str, int], node: Node, *cpus: int, gone: int = 0) -> str | None:
    """Pods on the node with these amounts of CPU; the first ``gone`` of them leave."""
    there = others(*cpus)
    return Resources(tuple(requests.items())).rejection(node, node_pods_of(there), there[:gone])


FOUR = {"cpu": "4", "pods": "3"}


@pytest.mark.parametrize(
    ("requests", "cpus", "gone", "reason"),
    [
        ({"cpu": 4000}, (), 0, None),
        ({"cpu": 4001}, (), 0, FULL),
        ({"cpu": 1000}, (2000, 1000), 0, None),
        ({"cpu": 1001}, (2000, 1000), 0, FULL),
        ({"cpu": 3000}, (2000, 1000), 1, None),
        ({"cpu": 3001}, (2000, 1000), 1, FULL),
        ({"cpu": 4000}, (2000, 1000), 2, None),
        ({}, (2000, 2000), 0, None),
        ({cases.WIDGET: 1}, (), 0, FULL),
        ({}, (0, 0, 0), 0, CROWDED),
        ({}, (0, 0), 0, None),
        ({}, (0, 0, 0), 1, None),
        ({}, (0, 0, 0, 0), 1, CROWDED),
        ({"cpu": 9000}, (0, 0, 0), 0, CROWDED),
    ],
)
def test_a_pod_fits_up_to_the_last_unit_and_the_last_slot(
    requests: dict[str, int], cpus: tuple[int, ...], gone: int, reason: str | None
) -> None:
    assert rejection(requests, a_node(**FOUR), *cpus, gone=gone) == reason


@pytest.mark.parametrize(
    ("has", "reason"),
    [({}, None), ({"cpu": "1"}, FULL), ({"cpu": "4"}, None), ({"pods": "1"}, FULL)],
    ids=["no amounts", "too little CPU", "enough CPU", "a number of pods, and no CPU"],
)
def test_a_resource_missing_in_a_kubelet_s_status_counts_as_zero(
    has: dict[str, str], reason: str | None
) -> None:
    assert rejection({"cpu": 2000}, a_node(**has)) == reason
