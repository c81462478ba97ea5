import pytest

from booking.request_validation import of_demand, of_namespace
from tests.fakes.objects import A100, A6000
from tests.fakes.records import CLUSTER


def wrong(model: str, count: int) -> list[str]:
    found = of_demand(model, count, topology="single-node", capacity=CLUSTER)
    return [violation.rule for violation in found]


@pytest.mark.parametrize("namespace", [None, "lab", "a", "1", "a-b-2", "x" * 63])
def test_what_kubernetes_takes_as_a_namespace_is_one(namespace: str | None) -> None:
    assert not list(of_namespace(namespace))


@pytest.mark.parametrize(
    "namespace", ["", "-a", "a-", "A", "a.b", "a b", "x" * 64, "lab\n", "é", "<b>", "'; --", "a/b"]
)
def test_a_namespace_that_kubernetes_would_refuse_is_reported(namespace: str) -> None:
    assert [violation.rule for violation in of_namespace(namespace)] == ["not-a-namespace"]


def test_of_an_unknown_model_nobody_says_how_many_there_are_unless_it_is_more_than_of_all() -> None:
    total = sum(CLUSTER.total(model) for model in CLUSTER.models)
    assert wrong("H100", total) == ["unknown-model"]
    assert wrong("H100", total + 1) == ["unknown-model", "more-than-exist"]
    assert wrong("H100", 10**9) == ["unknown-model", "more-than-exist"]


@pytest.mark.parametrize("count", [0, -1, -(10**12)])
def test_less_than_one_gpu_is_nothing(count: int) -> None:
    assert wrong(A100, count) == ["count-below-one"]


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        ("a6000", A6000),
        ("nvidia-a100-sxm4-80gb", A100),
        ("NVIDIA-A100-SXM-80GB", A100),
        ("H100-PCIe-9", None),
    ],
)
def test_the_model_that_was_meant_is_proposed_when_there_is_one(model: str, meant: str | None) -> None:
    (violation,) = of_demand(model, 1, topology="any", capacity=CLUSTER)
    assert ("did you mean" in violation.message) == (meant is not None)
    assert meant is None or f"did you mean {meant}?" in violation.message
