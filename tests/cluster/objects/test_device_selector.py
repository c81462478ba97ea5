"""What a pod requests of its devices, and which of them will do."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.objects.device_selector import MIB, DeviceSelector, device_selector_of, mebibytes
from cluster.objects.inventory import Device
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


LONG = "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition-MIG-1g.24gbme"
CARDS = {
    "bracketed": a100(0, model="NVIDIA-RTX-A6000-Ada"),
    "part": a100(1, uuid="MIG-b", model=LONG, parent="GPU-n0-9", profile="1g.24gb+me"),
}


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("NVIDIA RTX A6000 [Ada]", "bracketed"),
        ("NVIDIA-RTX-A6000-[Ada]", "bracketed"),
        ("NVIDIA-RTX-A6000-Ada", "bracketed"),
        (LONG, "part"),
        (LONG[:63].strip("-_."), "part"),
        ("1g.24gb+me", "part"),
    ],
)
def test_a_model_is_known_by_the_drivers_name_by_its_label_and_by_what_a_label_has_room_for(
    text: str, taken: str
) -> None:
    wanted = device_selector_of(a_pod().with_annotation(names.MODEL, text).obj)
    unwanted = device_selector_of(a_pod().with_annotation(names.NOT_MODEL, text).obj)
    assert [name for name, card in CARDS.items() if wanted.takes(card)] == [taken]
    assert taken not in [name for name, card in CARDS.items() if unwanted.takes(card)]


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
def test_unreadable_memory_is_no_amount(text: str) -> None:
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


MODELS = (A100, A6000, f"{A100}-MIG-1g.10gb", "1g.10gb")
KNOWN = ("GPU-n0-0", "GPU-n0-1", "MIG-a", "GPU-gone")
SELECTORS = st.builds(
    DeviceSelector,
    models=st.frozensets(st.sampled_from(MODELS), max_size=2),
    not_models=st.frozensets(st.sampled_from(MODELS), max_size=2),
    min_memory=st.sampled_from([0, 9728, 9729, 49140, 49141, 81920, 81921]),
    uuids=st.frozensets(st.sampled_from(KNOWN), max_size=2),
    not_uuids=st.frozensets(st.sampled_from(KNOWN), max_size=2),
)
SOME = st.sampled_from([a100(0), a100(2), a6000(1), PART, a100(3, memory=0)])


def named(device: Device) -> set[str | None]:
    return {device.uuid, device.parent}


def of(device: Device) -> set[str | None]:
    return {device.model, device.profile}


@given(SELECTORS, SOME)
def test_a_device_will_do_where_no_part_of_the_selector_refuses_it(
    selector: DeviceSelector, device: Device
) -> None:
    refusals = (
        bool(selector.models) and not of(device) & selector.models,
        bool(of(device) & selector.not_models),
        selector.min_memory > device.memory,
        bool(selector.uuids) and not named(device) & selector.uuids,
        bool(named(device) & selector.not_uuids),
    )
    assert selector.takes(device) is not any(refusals)


@given(SELECTORS, SOME)
def test_a_selector_by_model_takes_every_device_of_a_model_or_none(
    selector: DeviceSelector, device: Device
) -> None:
    twin = msgspec.structs.replace(device, uuid="GPU-twin", index=7, memory=1, parent=None)
    if selector.is_by_model:
        assert selector.takes(device) == selector.takes(twin)


@pytest.mark.parametrize(
    ("selector", "is_by_model"),
    [
        pytest.param(DeviceSelector(), True, id="anything"),
        pytest.param(DeviceSelector(models=frozenset({A100})), True, id="models"),
        pytest.param(DeviceSelector(not_models=frozenset({A100})), True, id="other models"),
        pytest.param(DeviceSelector(min_memory=1), False, id="memory"),
        pytest.param(DeviceSelector(uuids=frozenset({"GPU-0"})), False, id="single devices"),
        pytest.param(DeviceSelector(not_uuids=frozenset({"GPU-0"})), False, id="but single devices"),
    ],
)
def test_only_some_selectors_distinguish_devices_of_one_model(
    selector: DeviceSelector, *, is_by_model: bool
) -> None:
    assert selector.is_by_model is is_by_model


@given(SELECTORS, SELECTORS)
def test_two_selectors_have_the_same_text_only_if_they_are_equal(
    one: DeviceSelector, other: DeviceSelector
) -> None:
    """Pods are counted together by it."""
    assert (one.text == other.text) == (one == other)


@given(st.integers(0, 10**12), st.sampled_from(["", "k", "Ki", "M", "Mi", "G", "Gi", "Ti"]))
def test_a_quantity_of_memory_is_rounded_up_to_whole_mebibytes(number: int, suffix: str) -> None:
    factor = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3}.get(suffix) or 1024 ** "KMGT".index(
        suffix[0]
    ) * 1024
    size = number * factor
    if size >= 2**63:
        with pytest.raises(QuantityError):
            mebibytes(f"{number}{suffix}")
    elif suffix:
        found = mebibytes(f"{number}{suffix}")
        assert (found - 1) * MIB < size <= found * MIB


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("999999999999", 999_999_999_999, id="twelve digits are mebibytes"),
        pytest.param("1048576000000", 1_000_000, id="thirteen are bytes"),
        pytest.param("1", 1, id="one"),
        pytest.param("1k", 1, id="less than one"),
        pytest.param("1.5Gi", 1536, id="a fraction"),
        pytest.param("40960.0", 1, id="with a point it is a quantity: bytes"),
    ],
)
def test_a_plain_number_of_ordinary_length_counts_mebibytes(text: str, found: int) -> None:
    assert mebibytes(text) == found
