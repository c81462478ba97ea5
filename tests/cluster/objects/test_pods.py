import pytest

from cluster.objects.pods import asks_for_gpus, container_needs, is_terminal, requested_models
from cluster.objects.quantity import QuantityError, parse_count
from tests.fakes.objects import a_pod


def test_init_containers_are_served_before_app_containers() -> None:
    pod = a_pod().asks(1, container="main").init("setup", 2).sidecar("proxy", 1).obj

    assert [(need.name, need.kind, need.count) for need in container_needs(pod)] == [
        ("setup", "init", 2),
        ("proxy", "sidecar", 1),
        ("main", "app", 1),
    ]


def test_a_pod_without_gpu_limits_does_not_ask() -> None:
    assert not asks_for_gpus(a_pod().obj)
    assert asks_for_gpus(a_pod().asks(1, resource="nvidia.com/mig-1g.5gb").obj)


def test_models_are_accepted_in_both_spellings() -> None:
    pod = a_pod().wants("NVIDIA A100-SXM4-80GB", " NVIDIA-RTX-A6000 ", "").obj

    assert requested_models(pod) == {"NVIDIA-A100-SXM4-80GB", "NVIDIA-RTX-A6000"}


def test_no_requested_model_means_any_model() -> None:
    assert requested_models(a_pod().obj) == frozenset()


@pytest.mark.parametrize(("phase", "ended"), [("Running", False), ("Succeeded", True), ("Failed", True)])
def test_a_pod_has_ended_in_a_terminal_phase(phase: str, *, ended: bool) -> None:
    assert is_terminal(a_pod().ended(phase).obj) is ended


@pytest.mark.parametrize(("text", "number"), [("2", 2), ("2000m", 2), ("2k", 2000), ("0", 0), ("+3", 3)])
def test_a_quantity_is_a_whole_number(text: str, number: int) -> None:
    assert parse_count(text) == number


@pytest.mark.parametrize(
    "text", ["", "x", "1.5", "500m", "-1", "1Q", "NaN", "Infinity", "1e999999999", "16E"]
)
def test_anything_else_is_no_quantity_of_devices(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_count(text)
