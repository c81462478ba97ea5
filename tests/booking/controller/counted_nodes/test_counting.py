"""Counting a node's GPUs without an agent: by GPU feature discovery's labels and the kubelet's amounts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.controller.counted_nodes.counting import counted, wanted
from cluster import names
from cluster.objects.inventory import Device, encode_inventory, is_replica, resource_of
from cluster.objects.meta import Meta
from cluster.objects.nodes import Node, NodeStatus
from cluster.objects.pods import Condition

GPU = names.GPU_RESOURCE
LABELS = {f"{GPU}.product": "NVIDIA-A100-SXM4-80GB", f"{GPU}.memory": "81920", f"{GPU}.count": "4"}


def a_node(
    allocatable: dict[str, str | int],
    *,
    ready: bool = True,
    capacity: dict[str, str | int] | None = None,
    labels: dict[str, str] | None = None,
    before: tuple[Device, ...] = (),
) -> Node:
    published = {names.INVENTORY: encode_inventory(before), names.COUNTED: "true"} if before else {}
    return Node(
        metadata=Meta(
            name="node-c",
            labels=LABELS if labels is None else labels,
            annotations=published,
        ),
        status=NodeStatus(
            allocatable=allocatable,
            capacity=allocatable if capacity is None else capacity,
            conditions=(Condition(type="Ready", status="True" if ready else "Unknown"),),
        ),
    )


def healthy(devices: tuple[Device, ...]) -> list[str]:
    return [device.uuid for device in devices if device.is_healthy]


def test_model_and_memory_are_the_labels_and_the_number_is_the_kubelet_s() -> None:
    found = counted(a_node({GPU: "4"}), frozenset())
    assert [device.uuid for device in found] == [f"node-c-{number}" for number in range(4)]
    assert {(device.model, device.memory, device.numbered) for device in found} == {
        ("NVIDIA-A100-SXM4-80GB", 81920, True)
    }


def test_no_gpu_of_a_node_that_is_not_ready_can_be_had() -> None:
    found = counted(a_node({GPU: "4"}, ready=False), frozenset({"node-c-1"}))
    assert healthy(found) == ["node-c-1"]
    assert {device.reason for device in found if not device.is_healthy} == {"The Node is not Ready"}


@given(allocatable=st.integers(0, 4), held=st.sets(st.integers(0, 3)), again=st.integers(0, 4))
def test_as_many_are_healthy_as_are_allocatable_and_all_that_are_held(
    allocatable: int, held: set[int], again: int
) -> None:
    ours = frozenset(f"node-c-{number}" for number in held)
    before = counted(a_node({GPU: allocatable}, capacity={GPU: 4}), ours)
    assert len(healthy(before)) == max(len(held), allocatable)
    assert ours <= set(healthy(before))
    after = counted(a_node({GPU: again}, capacity={}, before=before), ours)
    assert [device.uuid for device in after] == [device.uuid for device in before]
    if again == allocatable:
        assert after == before


@pytest.mark.parametrize(
    ("amounts", "more", "models", "memory"),
    [
        ({GPU: "4"}, {f"{GPU}.count": "4"}, {"NVIDIA-A100-SXM4-80GB"}, 81920),
        ({GPU: "4"}, {f"{GPU}.count": "2"}, {names.MIXED_MODEL}, 0),
        ({GPU: "8"}, {f"{GPU}.count": "2", f"{GPU}.replicas": "2"}, {names.MIXED_REPLICA}, 0),
        (
            {names.SHARED_RESOURCE: "8"},
            {f"{GPU}.count": "2", f"{GPU}.replicas": "2"},
            {names.MIXED_REPLICA},
            0,
        ),
    ],
)
def test_gpus_are_of_several_models_where_the_labels_count_fewer_than_the_kubelet(
    amounts: dict[str, str | int], more: dict[str, str], models: set[str], memory: int
) -> None:
    """GPU feature discovery writes the labels of one of the models, and how many GPUs are of it."""
    found = counted(a_node(amounts, labels=LABELS | more), frozenset())
    assert ({device.model for device in found}, {device.memory for device in found}) == (models, {memory})


def test_replicas_are_turns_whether_they_are_renamed_or_not() -> None:
    shared = LABELS | {f"{GPU}.replicas": "2", f"{GPU}.product": "NVIDIA-A100-SXM4-80GB-SHARED"}
    found = counted(a_node({GPU: "8"}, labels=shared), frozenset())
    assert len(found) == 8
    assert all(map(is_replica, found))
    renamed = counted(
        a_node({names.SHARED_RESOURCE: "8"}, labels=LABELS | {f"{GPU}.replicas": "2"}), frozenset()
    )
    assert {resource_of(device) for device in renamed} == {names.SHARED_RESOURCE}
    assert all(map(is_replica, renamed))


def test_turns_that_nobody_has_are_gone_when_gpus_are_given_whole_again() -> None:
    shared = LABELS | {f"{GPU}.replicas": "2", f"{GPU}.product": "NVIDIA-A100-SXM4-80GB-SHARED"}
    turns = counted(a_node({GPU: "8"}, labels=shared), frozenset())
    whole = counted(a_node({GPU: "4"}, before=turns), frozenset())
    assert healthy(whole) == [device.uuid for device in whole] == [f"node-c-{n}" for n in range(4)]
    held = counted(a_node({GPU: "4"}, before=turns), frozenset({"node-c-5"}))
    assert "node-c-5" in healthy(held)
    assert len(held) == 6


def test_mig_devices_of_the_strategy_mixed_have_their_own_resource() -> None:
    profile = "nvidia.com/mig-1g.10gb"
    labels = {f"{profile}.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", f"{profile}.memory": "9728"}
    found = counted(a_node({profile: "2", GPU: "0"}, labels=labels), frozenset())
    assert [(resource_of(device), device.model, device.memory) for device in found] == [
        (profile, "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", 9728)
    ] * 2
    assert len({device.uuid for device in found}) == 2


def test_an_agent_s_node_is_left_alone_and_a_counted_one_is_given_up_when_an_agent_comes() -> None:
    node = a_node({GPU: "4"})
    assert wanted(node, frozenset(), "none") == {}
    assert wanted(node, frozenset(), "labelled") == {}
    text = wanted(node, frozenset(), "all")
    assert text[names.COUNTED] == "true"
    back = a_node({GPU: "4"}, before=counted(node, frozenset()))
    assert wanted(back, frozenset(), "none") == {names.COUNTED: None, names.INVENTORY: None}
