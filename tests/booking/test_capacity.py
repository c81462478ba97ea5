import msgspec

from booking.capacity import Capacity, capacity_of
from cluster import names
from cluster.objects.nodes import Node
from tests.fakes.objects import A100, A6000, a100, a6000, a_node


def test_devices_are_counted_per_model_and_node() -> None:
    nodes = [a_node("n0", a100(0), a100(1)), a_node("n1", a100(0, "n1"), a6000(1, "n1"))]
    assert capacity_of(nodes).devices == {A100: {"n0": 2, "n1": 1}, A6000: {"n1": 1}}


def test_total_and_largest_speak_of_all_nodes() -> None:
    capacity = Capacity({A100: {"n0": 4, "n1": 2}})
    assert (capacity.total(A100), capacity.largest(A100)) == (6, 4)
    assert (capacity.total(A6000), capacity.largest(A6000)) == (0, 0)


def test_a_sick_device_cannot_be_booked_but_its_model_is_known() -> None:
    capacity = capacity_of([a_node("n0", a100(0, health="unhealthy"), a6000(1))])
    assert capacity.models == (A100, A6000)
    assert (capacity.total(A100), capacity.total(A6000)) == (0, 1)


def test_a_gpu_that_is_cut_into_mig_devices_is_left_out_and_so_are_those() -> None:
    cut = a100(0)
    part = a100(1, parent=cut.uuid, profile="1g.10gb", model="NVIDIA-A100-SXM4-80GB-MIG-1g.10gb")
    assert capacity_of([a_node("n0", cut, part, a100(2))]).devices == {A100: {"n0": 1}}


def test_both_spellings_of_a_model_are_one() -> None:
    spaced = a100(0, model="NVIDIA A100-SXM4-80GB")
    assert capacity_of([a_node("n0", spaced, a100(1))]).devices == {A100: {"n0": 2}}


def test_a_node_whose_inventory_cannot_be_read_has_nothing_to_promise() -> None:
    meta = {"name": "broken", "annotations": {names.INVENTORY: "{"}}
    broken = msgspec.convert({"metadata": meta}, Node)
    assert capacity_of([broken, a_node("n0", a100(0)), a_node("bare")]).devices == {A100: {"n0": 1}}


def test_nothing_is_known_of_no_nodes() -> None:
    assert capacity_of([]).models == ()
