"""Administrators' orders about single GPUs, as written on the Node."""

from datetime import timedelta, timezone

import msgspec
import pytest

from cluster import names
from cluster.objects.device_orders import (
    DeviceOrder,
    DeviceOrdersError,
    device_orders_of,
    encode_device_orders,
)
from cluster.objects.meta import Meta
from cluster.objects.nodes import Node
from tests.fakes.objects import EPOCH

CORDONED = DeviceOrder(cordoned="alice: the fan is loud")
CLEARED = DeviceOrder(cleared=EPOCH)


def read(text: str | None) -> dict[str, DeviceOrder]:
    return device_orders_of(
        Node(metadata=Meta(annotations=None if text is None else {names.DEVICE_ORDERS: text}))
    )


def test_each_device_has_its_own_order() -> None:
    text = encode_device_orders({"GPU-1": CLEARED, "GPU-0": CORDONED})
    assert text == (
        '{"GPU-0":{"cordoned":"alice: the fan is loud"},"GPU-1":{"cleared":"2026-11-23T09:00:00Z"}}'
    )
    assert read(text) == {"GPU-0": CORDONED, "GPU-1": CLEARED}


def test_a_device_may_be_cordoned_and_cleared() -> None:
    both = DeviceOrder(cordoned="alice", cleared=EPOCH)
    assert read(encode_device_orders({"GPU-0": both})) == {"GPU-0": both}


def test_an_order_without_a_reason_is_valid() -> None:
    assert read(encode_device_orders({"GPU-0": DeviceOrder(cordoned="")})) == {
        "GPU-0": DeviceOrder(cordoned="")
    }


@pytest.mark.parametrize(
    "orders", [{}, {"GPU-0": DeviceOrder()}, {"GPU-0": DeviceOrder(), "GPU-1": DeviceOrder(cordoned=None)}]
)
def test_the_text_is_empty_where_nothing_is_ordered(orders: dict[str, DeviceOrder]) -> None:
    """The booking server then removes the annotation."""
    assert encode_device_orders(orders) == ""


@pytest.mark.parametrize(
    ("text", "orders"),
    [
        pytest.param(None, {}, id="no annotation"),
        pytest.param("", {}, id="an empty one"),
        pytest.param("{}", {}, id="of no device"),
        pytest.param('{"GPU-0": {}}', {"GPU-0": DeviceOrder()}, id="of a device without an order"),
        pytest.param('{"GPU-0": {"cordoned": null}}', {"GPU-0": DeviceOrder()}, id="a null"),
        pytest.param(
            '{"GPU-0": {"cordoned": "a", "new": 1}}', {"GPU-0": DeviceOrder(cordoned="a")}, id="more"
        ),
    ],
)
def test_missing_fields_order_nothing(text: str | None, orders: dict[str, DeviceOrder]) -> None:
    assert read(text) == orders


@pytest.mark.parametrize(
    "text",
    ["{", "null", '"GPU-0"', '["GPU-0"]', '{"GPU-0": "cordoned"}', '{"GPU-0": {"cordoned": true}}'],
)
def test_unreadable_orders_are_an_error(text: str) -> None:
    with pytest.raises(DeviceOrdersError, match=f"The annotation {names.DEVICE_ORDERS} cannot be read"):
        read(text)


def test_a_clearance_is_the_same_instant_in_whatever_zone_it_was_given() -> None:
    """Each is carried out once: the agent tells them apart by their instant."""
    local = CLEARED.cleared and CLEARED.cleared.astimezone(timezone(timedelta(hours=1)))
    assert read(encode_device_orders({"GPU-0": DeviceOrder(cleared=local)})) == {"GPU-0": CLEARED}


def test_a_reader_may_change_the_orders_it_has_read() -> None:
    text = encode_device_orders({"GPU-0": CORDONED})
    first = read(text)
    first["GPU-1"] = msgspec.structs.replace(CORDONED, cordoned="bob")
    assert read(text) == {"GPU-0": CORDONED}
