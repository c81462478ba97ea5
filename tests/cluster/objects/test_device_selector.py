"""What a pod requests of its devices, and which of them will do."""

import pytest

from cluster import names
from cluster.objects.device_selector import DeviceSelector, device_selector_of, mebibytes
from cluster.objects.quantity import QuantityError
from tests.fakes.objects import A100, A6000, a100, a6000, a_pod

PART = a100(4, uuid="MIG-a", model=f"{A100}-MIG-1g.10gb", parent="GPU-n0-0", profile="1g.10gb", memory=9728)


def test_a_pod_without_a_selector_takes_every_device() -> None:
    assert device_selector_of(a_pod().asks(1).obj) == DeviceSelector()
    assert all(map(DeviceSelector().takes, (a100(0), a6000(1), PART, a100(2, memory=0))))
    assert DeviceSelector().text == ""


@pytest.mark.parametrize(
    ("key", "text", "taken"),
    [
        (names.MODEL, "NVIDIA A100-SXM4-80GB", "a"),
        (names.MODEL, f"{A100}, {A6000}", "ab"),
        (names.MODEL, "1g.10gb", "p"),
        (names.MODEL, f"{A100}-MIG-1g.10gb", "p"),
        (names.NOT_MODEL, "NVIDIA A100-SXM4-80GB", "bp"),
        (names.NOT_MODEL, "1g.10gb", "ab"),
        (names.MIN_MEMORY, "49140", "ab"),
        (names.MIN_MEMORY, "49141", "a"),
        (names.MIN_MEMORY, "80Gi", "a"),
        (names.MIN_MEMORY, "plenty", "abp"),
        (names.UUID, "GPU-n0-1", "b"),
        (names.UUID, "GPU-n0-0", "ap"),
        (names.UUID, "MIG-a,GPU-n0-1", "bp"),
        (names.NOT_UUID, "GPU-n0-0", "b"),
        (names.NOT_UUID, " MIG-a , ", "ab"),
    ],
)
def test_a_selector_takes_some_devices(key: str, text: str, taken: str) -> None:
    selector = device_selector_of(a_pod().with_annotation(key, text).obj)
    assert "".join(name for name, device in _DEVICES.items() if selector.takes(device)) == taken


_DEVICES = {"a": a100(0), "b": a6000(1), "p": PART}


def test_all_parts_of_a_selector_must_match() -> None:
    pod = a_pod().wants(A100).with_annotation(names.NOT_UUID, "GPU-n0-0")
    assert not device_selector_of(pod.obj).takes(a100(0))
    assert not device_selector_of(pod.obj).takes(a6000(1))
    assert device_selector_of(pod.obj).takes(a100(2))


def test_memory_that_the_driver_does_not_report_is_none() -> None:
    assert not DeviceSelector(min_memory=1).takes(a100(0, memory=0))


@pytest.mark.parametrize(
    ("text", "found"), [("40960", 40960), (" 40960 ", 40960), ("40Gi", 40960), ("80G", 76294), ("0", 0)]
)
def test_memory_is_given_in_mebibytes_or_as_a_quantity(text: str, found: int) -> None:
    assert mebibytes(text) == found


@pytest.mark.parametrize("text", ["", "much", "-1", "1e", "9" * 5000, "40 Gi", "40_960", "\uff14Gi"])
def test_memory_that_means_nothing_is_no_amount(text: str) -> None:
    with pytest.raises(QuantityError):
        mebibytes(text)


def test_a_selector_has_the_same_text_whatever_its_order() -> None:
    first = a_pod().wants(A6000, A100).with_annotation(names.MIN_MEMORY, "1Gi")
    second = a_pod().wants(A100, A6000).with_annotation(names.MIN_MEMORY, "1024")
    assert device_selector_of(first.obj).text == device_selector_of(second.obj).text
    assert device_selector_of(first.obj).text == f" of model {A100} or {A6000} with at least 1024 MiB"
    others = DeviceSelector(
        not_models=frozenset({A100}), uuids=frozenset({"b", "a"}), not_uuids=frozenset({"c"})
    )
    assert others.text == f" other than model {A100} among a, b not among c"
