"""Numbered GPUs: how many there are beside another plugin, and which are healthy."""

from collections.abc import Iterable
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.objects.inventory import Device, is_mixed, is_replica
from cluster.objects.slots import slot_id
from deviceplugin.beside.numbering import Observed, numbered, really_has, serves
from deviceplugin.nvml.inventory import NodeDevice

A100, A6000 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-RTX-A6000"
GPU = names.GPU_RESOURCE


def gpu(index: int, *, model: str = A100, unhealthy: bool = False, **fields: Any) -> NodeDevice:
    published = Device(
        uuid=f"GPU-{index}", index=index, model=model, memory=81920 if model == A100 else 49140
    )
    device = NodeDevice(published=published, minor=index, pci=f"{index}")
    device = msgspec.structs.replace(device, **fields)
    return device.as_unhealthy("XID 79") if unhealthy else device


def part(of: int, number: int, profile: str = "1g.10gb") -> NodeDevice:
    published = Device(
        uuid=f"MIG-{of}{number}", index=of, model=f"{A100}-MIG-{profile}", parent=f"GPU-{of}", profile=profile
    )
    return NodeDevice(published=published, minor=of, pci=f"{of}")


def seen(devices: Iterable[NodeDevice], amounts: dict[str, int], **fields: Any) -> Observed:
    devices = tuple(devices)
    ids = {GPU: frozenset(device.uuid for device in devices if device.published.is_healthy)}
    return Observed(
        **{"node": "node-a", "devices": devices, "allocatable": amounts, "registered": ids, **fields}
    )


def healthy(devices: Iterable[Device]) -> list[str]:
    return [device.uuid for device in devices if device.is_healthy]


def test_the_gpus_have_the_node_s_name_and_a_number() -> None:
    found = numbered(seen(map(gpu, range(2)), {GPU: 2}))
    assert [(one.uuid, one.model, one.memory, one.numbered) for one in found] == [
        ("node-a-0", A100, 81920, True),
        ("node-a-1", A100, 81920, True),
    ]


def test_a_unhealthy_gpu_takes_a_free_one_out_and_gives_the_reason() -> None:
    found = numbered(seen([gpu(0, unhealthy=True), gpu(1)], {GPU: 2}, assigned=frozenset({"node-a-0"})))
    assert healthy(found) == ["node-a-0"]
    assert "GPU 0 (GPU-0) is unhealthy: XID 79" in (found[1].reason or "")


@given(
    unhealthy=st.sets(st.integers(0, 5)),
    held=st.sets(st.integers(0, 5)),
    out=st.sets(st.integers(0, 5)),
    allocatable=st.integers(0, 6),
)
def test_as_many_are_healthy_as_can_be_had_and_never_one_less_than_pods_hold(
    unhealthy: set[int], held: set[int], out: set[int], allocatable: int
) -> None:
    assigned = frozenset(f"node-a-{number}" for number in held)
    before = seen([gpu(n, unhealthy=n in unhealthy) for n in range(6)], {GPU: allocatable}, assigned=assigned)
    found = numbered(before, frozenset(f"node-a-{number}" for number in out))
    assert assigned <= set(healthy(found))
    assert len(healthy(found)) == max(len(held), min(allocatable, 6 - len(unhealthy)))
    unhealthy = frozenset(one.uuid for one in found if not one.is_healthy)
    assert numbered(before, unhealthy) == found
    assert all(one.reason for one in found if not one.is_healthy)


def test_gpus_of_several_models_are_of_no_certain_one() -> None:
    found = numbered(seen([gpu(0), gpu(1, model=A6000)], {GPU: 2}))
    assert [(one.model, one.memory) for one in found] == [(names.MIXED_MODEL, 49140)] * 2
    assert all(map(is_mixed, found))


def test_replicas_are_turns_and_not_gpus() -> None:
    ids = {GPU: frozenset(slot_id(f"GPU-{n}", turn) for n in range(2) for turn in range(3))}
    found = numbered(seen(map(gpu, range(2)), {GPU: 6}, registered=ids))
    assert len(healthy(found)) == len({one.uuid for one in found}) == 6
    assert all(map(is_replica, found))
    assert {one.memory for one in found} == {0}


def test_renamed_replicas_keep_the_name_that_they_were_given() -> None:
    ids = {names.SHARED_RESOURCE: frozenset(slot_id("GPU-0", turn) for turn in range(2))}
    found = numbered(seen([gpu(0)], {names.SHARED_RESOURCE: 2}, registered=ids))
    assert [one.resource for one in found] == [names.SHARED_RESOURCE] * 2
    assert all(map(is_replica, found))


def test_mig_devices_are_counted_under_the_name_that_the_strategy_gives_them() -> None:
    devices = [gpu(0, partitioned=True), part(0, 0), part(0, 1), gpu(1)]
    profile = "nvidia.com/mig-1g.10gb"
    ids = {profile: frozenset({"MIG-00", "MIG-01"}), GPU: frozenset({"GPU-1"})}
    mixed = numbered(seen(devices, {profile: 2, GPU: 1}, registered=ids))
    assert [(one.uuid, one.profile, one.resource) for one in mixed] == [
        ("node-a-0.0", "1g.10gb", None),
        ("node-a-0.1", "1g.10gb", None),
        ("node-a-1", None, None),
    ]
    single = numbered(seen(devices[:3], {GPU: 2}, registered={GPU: frozenset({"MIG-00", "MIG-01"})}))
    assert [(one.uuid, one.resource) for one in single] == [("node-a-0.0", GPU), ("node-a-0.1", GPU)]
    none = numbered(
        seen([gpu(0, partitioned=True), part(0, 0)], {GPU: 1}, registered={GPU: frozenset({"GPU-0"})})
    )
    assert [one.uuid for one in none] == ["node-a-0"]


def test_a_node_serves_while_registered_gpus_are_allocatable() -> None:
    assert serves({GPU: frozenset({"GPU-0"})}, {GPU: 1}) is None
    assert "allocatable" in (serves({GPU: frozenset({"GPU-0"})}, {GPU: 0, "cpu": 4}) or "")
    assert "checkpoint" in (serves({}, {GPU: 1}) or "")


def test_what_a_pod_really_has_is_reported_under_its_number() -> None:
    shown = numbered(seen(map(gpu, range(3)), {GPU: 3}))
    found = really_has(
        shown, ("GPU-0", "GPU-1", "GPU-2"), {"uid": {"node-a-0"}}, {"uid": frozenset({"GPU-2"})}
    )
    assert found == {"node-a-0": "GPU-2", "node-a-1": "GPU-0", "node-a-2": "GPU-1"}
