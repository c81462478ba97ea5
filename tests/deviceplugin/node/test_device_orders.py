"""Administrators' orders about single GPUs."""

from collections.abc import Mapping
from datetime import UTC, datetime

from structlog.testing import capture_logs

from cluster import names
from cluster.objects.device_orders import DeviceOrder, encode_device_orders
from cluster.objects.meta import Meta
from cluster.objects.nodes import Node
from deviceplugin.node.device_orders import DeviceOrdersHandler

THEN = datetime(2026, 11, 27, 16, tzinfo=UTC)


class Handled:
    """What follows from the Node."""

    def __init__(self) -> None:
        self.cordons: list[Mapping[str, str]] = []
        self.clears: list[tuple[str, str]] = []
        self.shares: list[bool] = []
        self.orders = DeviceOrdersHandler(
            self.cordons.append,
            lambda gpu, order: self.clears.append((gpu, order)),
            lambda *, is_wanted: self.shares.append(is_wanted),
        )

    def says(self, text: str) -> None:
        self.orders.upsert(Node(metadata=Meta(name="node-a", annotations={names.DEVICE_ORDERS: text})))


def test_cordons_and_clears_are_distinguished() -> None:
    handled = Handled()
    given = {"GPU-0": DeviceOrder(cordoned="alice: x"), "GPU-1": DeviceOrder(cleared=THEN)}
    handled.says(encode_device_orders(given))
    assert handled.cordons == [{"GPU-0": "alice: x"}]
    assert handled.clears == [("GPU-1", "2026-11-27T16:00:00+00:00")]


def test_unchanged_orders_are_not_reported_again() -> None:
    handled = Handled()
    for _ in range(3):
        handled.says('{"GPU-0":{"cordoned":"alice: x"}}')
    assert handled.cordons == [{"GPU-0": "alice: x"}]


def test_orders_that_are_removed_from_the_node_are_withdrawn() -> None:
    handled = Handled()
    handled.says('{"GPU-0":{"cordoned":"alice: x"}}')
    handled.orders.replace([Node(metadata=Meta(name="node-a"))], "1")
    assert handled.cordons[-1] == {}


def test_unreadable_orders_change_nothing_and_are_reported() -> None:
    handled = Handled()
    handled.says('{"GPU-0":{"cordoned":"alice: x"}}')
    with capture_logs() as logs:
        handled.says('{"GPU-0":{"cordoned":7}}')
    assert len(handled.cordons) == 1
    assert names.DEVICE_ORDERS in logs[0]["message"]


def test_orders_of_a_deleted_node_are_withdrawn() -> None:
    handled = Handled()
    handled.says('{"GPU-0":{"cordoned":"alice: x"}}')
    handled.orders.remove(Node())
    handled.says('{"GPU-0":{"cordoned":"alice: x"}}')
    assert handled.cordons == [{"GPU-0": "alice: x"}, {}, {"GPU-0": "alice: x"}]
