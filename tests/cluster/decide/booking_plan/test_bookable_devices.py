import pytest

from cluster import names
from cluster.decide.booking_plan.supply import bookable_devices
from tests.fakes.objects import A100, a100


def test_mig_devices_are_bookable_in_place_of_the_gpu_that_is_cut() -> None:
    cut, whole = a100(0), a100(2)
    part = a100(1, parent=cut.uuid, profile="1g.10gb", model="NVIDIA-A100-SXM4-80GB-MIG-1g.10gb")
    assert list(bookable_devices((cut, part, whole))) == [(part.model, part), (A100, whole)]


def test_both_spellings_of_a_model_are_one() -> None:
    devices = (a100(0, model="NVIDIA A100-SXM4-80GB"), a100(1))
    assert [model for model, _ in bookable_devices(devices)] == [A100, A100]


def test_an_unhealthy_device_is_known() -> None:
    assert [device.is_healthy for _, device in bookable_devices((a100(0, health="unhealthy"), a100(1)))] == [
        False,
        True,
    ]


def test_devices_that_claims_give_cannot_be_booked() -> None:
    assert not list(bookable_devices((a100(0, resource=names.CLAIM_RESOURCE),)))


@pytest.mark.parametrize("model", [f"{A100}{names.SHARED_MODEL}", names.MIXED_MODEL, names.MIXED_REPLICA])
def test_beside_another_plugin_neither_replicas_nor_gpus_of_an_uncertain_model_can_be_booked(
    model: str,
) -> None:
    assert not list(bookable_devices((a100(0, model=model, numbered=True),)))
    assert list(bookable_devices((a100(0, model=A100, numbered=True),)))
