import pytest

from cluster import names
from cluster.objects.assignment import (
    Assignment,
    AssignmentError,
    assignment_of,
    decode_assignment,
    devices_of,
    drift_of,
    encode_assignment,
    encode_drift,
)
from cluster.objects.inventory import InventoryError, decode_inventory, encode_inventory, inventory_of
from tests.fakes.objects import a100, a_node, a_pod


def test_an_inventory_is_read_back_as_it_was_written() -> None:
    devices = (a100(0, links={"GPU-n0-1": 12}, numa=1), a100(1, health="unhealthy", reason="XID 79"))

    assert decode_inventory(encode_inventory(devices)) == devices


def test_a_node_without_annotation_has_no_devices() -> None:
    assert inventory_of(a_node("n0")) == ()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"devices": [{"index": 0}]}', '{"devices": null}'])
def test_an_unreadable_inventory_is_an_error_with_a_message(text: str) -> None:
    with pytest.raises(InventoryError, match=names.INVENTORY):
        decode_inventory(text)


def test_unknown_fields_of_an_inventory_are_skipped() -> None:
    (device,) = decode_inventory('{"devices": [{"uuid": "GPU-1", "index": 0, "model": "M", "new": 1}]}')

    assert device.is_healthy


def test_an_assignment_is_read_back_as_it_was_written() -> None:
    assignment = {"main": ("GPU-1", "GPU-0"), "setup": ("GPU-0",)}

    assert decode_assignment(encode_assignment(assignment)) == assignment
    assert devices_of(assignment) == {"GPU-0", "GPU-1"}


def test_a_pod_without_assignment_has_none() -> None:
    assert assignment_of(a_pod().obj) is None


@pytest.mark.parametrize("text", ["x", "[]", '{"main": "GPU-0"}', '{"main": [1]}'])
def test_an_unreadable_assignment_is_an_error_with_a_message(text: str) -> None:
    with pytest.raises(AssignmentError, match=names.ASSIGNED):
        assignment_of(a_pod().with_annotation(names.ASSIGNED, text).obj)


def test_drift_is_read_back_as_it_was_written() -> None:
    drift: dict[str, Assignment] = {"uid-b": {"main": ("GPU-1",)}, "uid-a": {"main": ("GPU-0",)}}

    assert drift_of(a_node("n0", drift=encode_drift(drift))) == drift
    assert drift_of(a_node("n0")) == {}


def test_unreadable_drift_is_an_error_with_a_message() -> None:
    with pytest.raises(AssignmentError, match=names.DRIFT):
        drift_of(a_node("n0", drift="[]"))
