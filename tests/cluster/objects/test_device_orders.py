"""What administrators have said about single GPUs, on the Node."""

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


def test_each_device_has_what_counts_for_it() -> None:
    text = encode_device_orders({"GPU-1": CLEARED, "GPU-0": CORDONED})
    assert text == (
        '{"GPU-0":{"cordoned":"alice: the fan is loud"},"GPU-1":{"cleared":"2026-11-23T09:00:00Z"}}'
    )
    assert read(text) == {"GPU-0": CORDONED, "GPU-1": CLEARED}


def test_a_device_may_be_cordoned_and_cleared() -> None:
    both = DeviceOrder(cordoned="alice", cleared=EPOCH)
    assert read(encode_device_orders({"GPU-0": both})) == {"GPU-0": both}


def test_an_order_without_a_reason_is_an_order() -> None:
    assert read(encode_device_orders({"GPU-0": DeviceOrder(cordoned="")})) == {
        "GPU-0": DeviceOrder(cordoned="")
    }


@pytest.mark.parametrize(
    "orders", [{}, {"GPU-0": DeviceOrder()}, {"GPU-0": DeviceOrder(), "GPU-1": DeviceOrder(cordoned=None)}]
)
def test_without_orders_there_is_no_text(orders: dict[str, DeviceOrder]) -> None:
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
def test_what_is_not_said_is_not_ordered(text: str | None, orders: dict[str, DeviceOrder]) -> None:
    assert read(text) == orders


@pytest.mark.parametrize(
    "text",
    ["{", "null", '"GPU-0"', '["GPU-0"]', '{"GPU-0": "cordoned"}', '{"GPU-0": {"cordoned": true}}'],
)
def test_orders_that_cannot_be_read_are_an_error(text: str) -> None:
    with pytest.raises(DeviceOrdersError, match=f"The annotation {names.DEVICE_ORDERS} cannot be read"):
        read(text)


def test_a_clearance_is_one_instant_in_whatever_zone_it_was_given() -> None:
    """Each is carried out once: the agent tells them apart by their instant."""
    local = CLEARED.cleared and CLEARED.cleared.astimezone(timezone(timedelta(hours=1)))
    assert read(encode_device_orders({"GPU-0": DeviceOrder(cleared=local)})) == {"GPU-0": CLEARED}


def test_what_is_read_may_be_changed_by_its_reader() -> None:
    text = encode_device_orders({"GPU-0": CORDONED})
    first = read(text)
    first["GPU-1"] = msgspec.structs.replace(CORDONED, cordoned="bob")
    assert read(text) == {"GPU-0": CORDONED}
