"""Nodes say by labels which GPUs they have: pods may choose nodes by them, besides asking for a model."""

from typing import Any

import pytest

from cluster import names
from cluster.objects.assignment import assignment_of, devices_of
from devcluster import probe
from tests.e2e.persons import A100, Person
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e

NODES = ("node-a", "node-b")
A6000 = "NVIDIA-RTX-A6000"
PRODUCT = f"{names.NVIDIA_PREFIX}gpu.product"


def labels(ground: Playground, node: str) -> dict[str, str]:
    return ground.node(node).metadata.labels or {}


def a_pod(name: str, *, selector: dict[str, str], model: str | None = None) -> dict[str, Any]:
    return probe.pod(name, [probe.container("main", gpus=1)], model=model, extra={"nodeSelector": selector})


def test_nodes_are_labelled_with_their_models_and_pods_choose_by_them(
    playground: Playground, bob: Person
) -> None:
    of_models = {names.MODEL_LABEL + A100: "2", names.MODEL_LABEL + A6000: "2", names.MODELS_LABELLED: "4"}
    for node in NODES:
        playground.await_that(
            f"{node} is labelled", lambda node=node: of_models.items() <= labels(playground, node).items()
        )
        node_labels = labels(playground, node)
        assert (node_labels[PRODUCT], node_labels[f"{names.NVIDIA_PREFIX}gpu.count"]) == (A100, "2")
        assert node_labels[f"{names.NVIDIA_PREFIX}cuda.driver-version.major"] == "580"

    bob.create(a_pod("by-label-and-model", selector={names.MODEL_LABEL + A6000: "2"}, model=A6000))
    bob.create(a_pod("by-label", selector={PRODUCT: A100}))
    playground.await_phase(["by-label-and-model", "by-label"])
    (uuid,) = devices_of(assignment_of(playground.pod("by-label-and-model")) or {})
    assert playground.inventory()[uuid][1].model == A6000

    bob.create(a_pod("on-no-node", selector={PRODUCT: "NVIDIA-H200"}))
    playground.await_waiting("on-no-node")
