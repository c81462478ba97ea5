"""Which labels the chart lets a node agent write, besides those that it has, and the value for none."""

import re

import pytest

from cluster import names
from deviceplugin.node.feature_labels import LabelInputs, Labels, labels
from deviceplugin.nvml.mig_strategy import MigStrategy
from tests.charts.conftest import Document, Render
from tests.deviceplugin.node.cards import A6000, card, cut, label_inputs

pytestmark = pytest.mark.component


def nodes() -> tuple[LabelInputs, ...]:
    """With everything that a label can be about."""
    gpus = (cut(card(0), "1g.10gb", "1g.10gb+me", "3g.40gb"), card(1), card(2, A6000))
    alike = cut(card(0), *["1g.10gb"] * 7)
    return (
        *(label_inputs(*gpus, strategy=strategy) for strategy in MigStrategy),
        label_inputs(alike, strategy=MigStrategy.SINGLE),
    )


def node_labels() -> Labels:
    return {key: value for one in nodes() for key, value in labels(one).items()}


def allowed(documents: list[Document]) -> re.Pattern[str]:
    (policy,) = (
        one
        for one in documents
        if one["kind"] == "ValidatingAdmissionPolicy" and one["metadata"]["name"] == "gpu-booking-node-agents"
    )
    expressions = " ".join(one["expression"] for one in policy["spec"]["validations"])
    (pattern,) = set(re.findall(r"k\.matches\(r'([^']*)'\)", expressions))
    return re.compile(pattern)


def test_a_node_agent_may_write_every_label_that_it_has(render: Render) -> None:
    pattern = allowed(render())
    of_nvidia = [key for key in node_labels() if not key.startswith(names.MODEL_LABEL)]
    assert len(of_nvidia) > 40
    assert [key for key in of_nvidia if not pattern.search(key)] == []


def test_a_node_agent_may_not_write_labels_that_control_other_software(render: Render) -> None:
    pattern = allowed(render())
    orders = (
        "mig.config",
        "gpu.present",
        "gpu.deploy.device-plugin",
        "mig.config.state",
        "device-plugin.config",
    )
    assert [order for order in orders if pattern.search(names.NVIDIA_PREFIX + order)] == []


def test_every_label_is_one_that_kubernetes_accepts() -> None:
    name = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
    for key, value in node_labels().items():
        assert name.fullmatch(key.split("/")[1])
        assert not value or name.fullmatch(value)


@pytest.mark.parametrize("word", ["true", "false"])
def test_labels_are_switched_by_a_value(render: Render, word: str) -> None:
    documents = render({"nodeAgent": {"nodeLabels": word == "true"}})
    (agent,) = (one for one in documents if one["kind"] == "DaemonSet")
    environment = {
        one["name"]: one.get("value") for one in agent["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert environment[names.setting("node_labels")] == word
