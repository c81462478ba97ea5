"""Annotations of ours that are not JSON, of another shape, of a newer version, or made to be unreadable."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.objects.assignment import AssignmentError, assignment_of, drift_of
from cluster.objects.device_orders import DeviceOrdersError, device_orders_of
from cluster.objects.device_usage import UseError, decode_use
from cluster.objects.evict_orders import order_of
from cluster.objects.hold import HoldError, hold_of
from cluster.objects.inventory import InventoryError, inventory_of
from cluster.objects.maintenance import BlocksError, decode_blocks
from cluster.objects.meta import Meta
from cluster.objects.nodes import Node
from cluster.objects.pods import first_created
from cluster.objects.replaced_fields import Replaced, replaced_in
from tests.fakes.objects import EPOCH, a_pod

BRACKETS: Final = "[" * 5_000 + "]" * 5_000
"""The value of ``DEEP``, below an unknown field: nested deeper than a reader can follow."""
LOCAL: Final = '"2026-11-23T09:00:00"'
"""A time without a zone: no instant, and compared with one it would raise."""
AT: Final = '"at": "2026-11-23T09:00:00Z"'
START_AND_END: Final = '"start": "2026-11-23T09:00:00Z", "end": "2026-11-23T10:00:00Z"'


def on_node(key: str, text: str) -> Node:
    return Node(metadata=Meta(name="n0", annotations={key: text}))


def hold(text: str) -> object:
    return hold_of(a_pod().with_annotation(names.HOLD, text).obj)


def inventory(text: str) -> object:
    return inventory_of(on_node(names.INVENTORY, text))


def device_orders(text: str) -> object:
    return device_orders_of(on_node(names.DEVICE_ORDERS, text))


@pytest.mark.parametrize(
    ("read", "error", "key", "text"),
    [
        (hold, HoldError, names.HOLD, "{"),
        (hold, HoldError, names.HOLD, '{"node": "n0"}'),
        (hold, HoldError, names.HOLD, '{"node": "n0", "devices": null}'),
        (hold, HoldError, names.HOLD, '{"node": "n0", "devices": [], "at": "noon"}'),
        (hold, HoldError, names.HOLD, '{"version": 2, "node": "n0", "devices": []}'),
        (hold, HoldError, names.HOLD, '{"node": "n0", "devices": [], "new": DEEP}'),
        (inventory, InventoryError, names.INVENTORY, '{"version": 2}'),
        (inventory, InventoryError, names.INVENTORY, '{"devices": [{"uuid": "A", "health": "ill"}]}'),
        (inventory, InventoryError, names.INVENTORY, '{"new": DEEP}'),
        (device_orders, DeviceOrdersError, names.DEVICE_ORDERS, "[]"),
        (device_orders, DeviceOrdersError, names.DEVICE_ORDERS, '{"GPU-0": null}'),
        (device_orders, DeviceOrdersError, names.DEVICE_ORDERS, '{"GPU-0": {"cleared": "today"}}'),
        (device_orders, DeviceOrdersError, names.DEVICE_ORDERS, f'{{"GPU-0": {{"cleared": {LOCAL}}}}}'),
        (device_orders, DeviceOrdersError, names.DEVICE_ORDERS, '{"GPU-0": {"new": DEEP}}'),
        (decode_use, UseError, names.USE, f'{{"at": {LOCAL}}}'),
        (decode_use, UseError, names.USE, f'{{{AT}, "new": DEEP}}'),
        (decode_blocks, BlocksError, names.BLOCKS, f'[{{{START_AND_END}, "count": "all"}}]'),
        (decode_blocks, BlocksError, names.BLOCKS, f'[{{{START_AND_END}, "new": DEEP}}]'),
        (decode_blocks, BlocksError, names.BLOCKS, f'[{{"start": {LOCAL}, "end": {LOCAL}}}]'),
    ],
)
def test_an_unreadable_annotation_is_an_error_that_names_it(
    read: Callable[[str], object], error: type[Exception], key: str, text: str
) -> None:
    with pytest.raises(error, match=key):
        read(text.replace("DEEP", BRACKETS))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        f'{{"by": "alice", {AT}}}',
        '{"by": "alice", "reason": "fire", "at": "now"}',
        f'{{"by": "alice", "reason": "fire", "at": {LOCAL}}}',
        f'{{"version": 2, "by": "alice", "reason": "fire", {AT}}}',
        f'{{"by": "alice", "reason": "fire", {AT}, "new": DEEP}}',
    ],
)
def test_an_unreadable_evict_order_is_ignored(text: str) -> None:
    assert order_of(a_pod().with_annotation(names.EVICT, text.replace("DEEP", BRACKETS)).obj) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        '{"schedulerName": 1}',
        '{"version": 2, "schedulerName": "mine"}',
        '{"schedulerName": "mine", "new": DEEP}',
    ],
)
def test_unreadable_replaced_fields_are_ignored(text: str) -> None:
    assert replaced_in({names.REPLACED: text.replace("DEEP", BRACKETS)}) == Replaced()


def test_fields_that_a_newer_writer_adds_within_the_version_are_skipped() -> None:
    found = hold_of(a_pod().with_annotation(names.HOLD, '{"node": "n0", "devices": ["A"], "new": [1]}').obj)
    assert found is not None
    assert (found.node, found.devices) == ("n0", ("A",))
    order = order_of(
        a_pod().with_annotation(names.EVICT, f'{{"by": "a", "reason": "r", {AT}, "new": 1}}').obj
    )
    assert order is not None
    assert order.at == EPOCH


def test_an_original_creation_time_without_a_zone_is_ignored() -> None:
    pod = a_pod().with_annotation(names.FIRST_CREATED, "2026-11-20T09:00:00").obj
    assert first_created(pod) == first_created(a_pod().obj)


@pytest.mark.parametrize("read", [hold, inventory, device_orders])
def test_an_empty_text_is_read_like_a_missing_annotation(read: Callable[[str], object]) -> None:
    assert not read("")


def assignment(text: str) -> object:
    return assignment_of(a_pod().asks(1).with_annotation(names.ASSIGNED, text).obj)


def drift(text: str) -> object:
    return drift_of(on_node(names.DRIFT, text))


def evict_order(text: str) -> object:
    return order_of(a_pod().with_annotation(names.EVICT, text).obj)


def replaced(text: str) -> object:
    return replaced_in({names.REPLACED: text})


READERS: Final = (
    pytest.param(hold, HoldError, id="hold"),
    pytest.param(inventory, InventoryError, id="inventory"),
    pytest.param(device_orders, DeviceOrdersError, id="device orders"),
    pytest.param(decode_use, UseError, id="use"),
    pytest.param(decode_blocks, BlocksError, id="maintenance"),
    pytest.param(assignment, AssignmentError, id="assignment"),
    pytest.param(drift, AssignmentError, id="drift"),
    pytest.param(evict_order, (), id="evict order"),
    pytest.param(replaced, (), id="replaced fields"),
)
"""Each reader, and the only error that it may raise."""
WORDS: Final = st.sampled_from(
    [
        *("node", "devices", "victims", "at", "version", "uuid", "model", "health", "parent", "start", "end"),
        *("count", "by", "reason", "cordoned", "cleared", "schedulerName", "squatters", "main", "GPU-0"),
        "2026-11-23T09:00:00Z",
    ]
)
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)
"""Values that nearly are what some annotation holds."""


@pytest.mark.parametrize(("read", "error"), READERS)
@given(value=JSON)
def test_any_json_is_read_or_raises_the_reader_s_own_error(
    read: Callable[[str], object], error: type[Exception], value: object
) -> None:
    with suppress(error):
        read(msgspec.json.encode(value).decode())


@pytest.mark.parametrize(("read", "error"), READERS)
@given(text=st.text(max_size=30))
def test_any_text_is_read_or_raises_the_reader_s_own_error(
    read: Callable[[str], object], error: type[Exception], text: str
) -> None:
    with suppress(error):
        read(text)


@pytest.mark.parametrize(("read", "error"), READERS)
@pytest.mark.parametrize(
    "text", [BRACKETS, f'{{"main": {BRACKETS}}}', '{"main": ' * 5_000, "\ufeff{}", "\x00"]
)
def test_a_text_made_to_be_unreadable_raises_no_other_error(
    read: Callable[[str], object], error: type[Exception], text: str
) -> None:
    with suppress(error):
        read(text)
