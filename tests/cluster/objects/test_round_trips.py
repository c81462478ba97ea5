"""What is written on pods and nodes is read back as it was, whatever people and machines are called."""

from datetime import UTC, datetime
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.objects.assignment import Assignment, decode_assignment, encode_assignment
from cluster.objects.device_orders import DeviceOrder, device_orders_of, encode_device_orders
from cluster.objects.evict_orders import EvictOrder, encode_order, order_of
from cluster.objects.hold import Hold, encode_hold, encode_versions, hold_of
from cluster.objects.inventory import Device, decode_inventory, encode_inventory
from cluster.objects.maintenance import MaintenanceBlock, decode_blocks, encode_blocks
from cluster.objects.meta import Meta
from cluster.objects.nodes import Node
from cluster.objects.replaced_fields import Replaced, encode_replaced, replaced_in
from tests.fakes.objects import EPOCH, a_pod

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
MODELS = TEXTS.map(names.model_label).filter(bool)
UUIDS = st.lists(TEXTS, max_size=3, unique=True).map(tuple)
INSTANTS = st.integers(0, 2**32).map(lambda second: datetime.fromtimestamp(second, UTC))
ORDERS = st.builds(DeviceOrder, cordoned=st.none() | TEXTS, cleared=st.none() | INSTANTS)
DEVICES = st.builds(
    Device,
    uuid=TEXTS,
    index=st.integers(-1, 15),
    model=MODELS,
    memory=st.integers(0, 2**20),
    health=st.sampled_from(["healthy", "unhealthy"]),
    reason=st.none() | TEXTS,
    numa=st.none() | st.integers(0, 7),
    links=st.none() | st.dictionaries(TEXTS, st.integers(1, 18), max_size=3),
)


@given(st.builds(Hold, node=TEXTS, devices=UUIDS, victims=UUIDS, at=st.none() | INSTANTS, state=TEXTS))
def test_a_hold_is_read_back(hold: Hold) -> None:
    assert hold_of(a_pod().with_annotation(names.HOLD, encode_hold(hold)).obj) == hold


@given(st.builds(EvictOrder, by=TEXTS, reason=TEXTS, at=INSTANTS))
def test_an_evict_order_is_read_back(order: EvictOrder) -> None:
    assert order_of(a_pod().with_annotation(names.EVICT, encode_order(order)).obj) == order


@given(st.builds(Replaced, scheduler_name=st.none() | TEXTS, priority_class_name=st.none() | TEXTS))
def test_replaced_fields_are_read_back(replaced: Replaced) -> None:
    assert replaced_in({names.REPLACED: encode_replaced(replaced)}) == replaced


@given(st.dictionaries(TEXTS, UUIDS, max_size=3))
def test_an_assignment_is_read_back_in_the_order_of_the_choice(assignment: Assignment) -> None:
    assert decode_assignment(encode_assignment(assignment)) == assignment


@given(st.lists(DEVICES, max_size=4, unique_by=lambda device: device.uuid).map(tuple))
def test_an_inventory_of_whole_gpus_is_read_back(devices: tuple[Device, ...]) -> None:
    assert decode_inventory(encode_inventory(devices)) == devices


@given(st.dictionaries(TEXTS, ORDERS, max_size=4), st.randoms())
def test_device_orders_are_read_back_except_those_that_order_nothing(
    orders: dict[str, DeviceOrder], random: Random
) -> None:
    text = encode_device_orders(orders)
    node = Node(metadata=Meta(annotations={names.DEVICE_ORDERS: text}))
    assert device_orders_of(node) == {uuid: one for uuid, one in orders.items() if one != DeviceOrder()}
    shuffled = list(orders.items())
    random.shuffle(shuffled)
    assert encode_device_orders(dict(shuffled)) == text


def test_device_orders_that_order_nothing_leave_no_text() -> None:
    assert encode_device_orders({}) == encode_device_orders({"GPU-0": DeviceOrder()}) == ""


@given(
    st.lists(
        st.builds(
            MaintenanceBlock,
            start=INSTANTS,
            end=INSTANTS,
            model=st.none() | MODELS,
            count=st.none() | st.integers(1, 16),
        ),
        max_size=4,
    )
)
def test_maintenance_is_read_back_and_its_text_depends_on_no_order(blocks: list[MaintenanceBlock]) -> None:
    text = encode_blocks(blocks)
    assert sorted(map(repr, decode_blocks(text))) == sorted(map(repr, blocks))
    assert encode_blocks(reversed(blocks)) == text


def test_blocks_that_differ_in_their_count_alone_have_one_order() -> None:
    few, many = (MaintenanceBlock(start=EPOCH, end=EPOCH, count=count) for count in (1, 2))
    assert encode_blocks([few, many]) == encode_blocks([many, few])


def test_the_default_of_a_field_is_not_written() -> None:
    assert encode_hold(Hold(node="n0", devices=("A",))) == '{"node":"n0","devices":["A"]}'
    assert encode_replaced(Replaced()) == "{}"
    assert encode_order(EvictOrder(by="a", reason="r", at=EPOCH)) == (
        '{"by":"a","reason":"r","at":"2026-11-23T09:00:00Z"}'
    )


def test_known_versions_are_listed_by_kind() -> None:
    assert encode_versions({"pods": "3", "bookings": "1", "nodes": "2"}) == "bookings=1,nodes=2,pods=3"
    assert encode_versions({}) == ""
