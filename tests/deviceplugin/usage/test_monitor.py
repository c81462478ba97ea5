"""The usage of GPUs together with their holders: as metrics, on the Lease, as Events."""

from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from cluster import names
from cluster.objects.device_usage import DeviceUsage, decode_use
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.nvml.interface import GpuProcess, GpuUsage
from deviceplugin.nvml.inventory import NodeDevice
from deviceplugin.usage.claimed import ClaimedPart
from tests.deviceplugin.usage.node import (
    GIB,
    MIB,
    UID_A,
    UID_B,
    MeasuredNode,
    busy,
    gpu,
    owned,
    part,
)

ALICES = {"namespace": "default", "pod": "train", "user": "alice", "booking": "b-1"}
FREE = {"namespace": "", "pod": "", "user": "", "booking": ""}
ON_0 = {"device": "GPU-0", "index": "0"}
ON_1 = {"device": "GPU-1", "index": "1"}


@pytest.fixture
def node(tmp_path: Path) -> MeasuredNode:
    """Alice's pod holds GPU-0, GPU-1 is free."""
    return MeasuredNode(tmp_path)


def test_measurements_are_reported_in_base_units_with_pod_user_and_booking(node: MeasuredNode) -> None:
    node.measured(GPU_0=busy(), GPU_1=GpuUsage(utilisation=0))
    assert node.says("device_utilisation_ratio", **ON_0, **ALICES) == 0.87
    assert node.says("device_memory_activity_ratio", **ON_0, **ALICES) == 0.4
    assert node.says("device_memory_used_bytes", **ON_0, **ALICES) == 20 * GIB
    assert node.says("device_memory_total_bytes", **ON_0, **ALICES) == 80 * GIB
    assert node.says("device_temperature_celsius", **ON_0, **ALICES) == 61
    assert node.says("device_power_watts", **ON_0, **ALICES) == 288.4
    assert node.says("device_utilisation_ratio", **ON_1, **FREE) == 0
    assert node.series("device_power_watts") == [ON_0 | ALICES], (
        "what a card does not report is not published"
    )


def test_the_memory_of_a_pod_is_that_of_its_processes(node: MeasuredNode) -> None:
    node.run(7, uid=UID_A)
    node.run(8, uid=UID_A)
    node.measured(GPU_0=busy(GpuProcess(7, 3 * GIB), GpuProcess(8, GIB)))
    assert node.says("pod_memory_bytes", **ON_0, **ALICES) == 4 * GIB


def test_the_series_of_a_pod_are_removed_with_it(node: MeasuredNode) -> None:
    node.run(7, uid=UID_A)
    node.measured(GPU_0=busy(GpuProcess(7, GIB)))
    node.holdings, node.pods = PodDevices(), ()
    node.measured(GPU_0=busy())
    assert node.series("pod_memory_bytes") == []
    assert node.series("device_holder") == []
    assert node.series("device_power_watts") == [ON_0 | FREE]


def test_people_are_not_named_where_that_is_switched_off(tmp_path: Path) -> None:
    node = MeasuredNode(tmp_path, include_users=False)
    node.measured(GPU_0=busy())
    nobody = {**ALICES, "user": "", "booking": ""}
    assert node.series("device_holder") == [ON_0 | nobody | {"source": "kubelet"}]
    assert node.series("device_power_watts") == [ON_0 | nobody]


def test_a_hanging_driver_leaves_holders_but_no_old_measurement(node: MeasuredNode) -> None:
    node.measured(GPU_0=busy())
    node.clock.advance(30)
    node.pods = (owned(UID_A, "renamed", user="alice"),)
    node.measurer.once()
    assert node.series("device_power_watts") == []
    assert [one["pod"] for one in node.series("device_holder")] == ["renamed"]
    assert node.measurer.age() == 30
    assert node.measurer.annotations() == {names.USE: None}


def test_a_measurement_is_shown_for_half_a_minute(node: MeasuredNode) -> None:
    node.measured(GPU_0=busy())
    node.clock.advance(29)
    node.measurer.once()
    assert node.series("device_power_watts") == [ON_0 | ALICES]
    assert node.measurer.text() is not None
    node.clock.advance(1)
    node.measurer.once()
    assert node.measurer.text() is None


def test_holders_are_read_every_ten_seconds_without_a_measurement(node: MeasuredNode) -> None:
    node.measured(GPU_0=busy())
    node.pods = (owned(UID_A, "renamed", user="alice"),)

    def holder_after(seconds: float) -> list[str]:
        node.clock.advance(seconds)
        node.measurer.once()
        return [one["pod"] for one in node.series("device_holder")]

    assert holder_after(9.5) == ["train"]
    assert holder_after(0.5) == ["renamed"]


def test_a_mig_device_has_its_own_series(tmp_path: Path) -> None:
    node = MeasuredNode(tmp_path, devices=(gpu(0), part(0, 1), part(0, 2)))
    node.holdings = PodDevices({(UID_A, "main"): frozenset({"MIG-0-1"})})
    node.run(7, uid=UID_A)
    node.measured(
        GPU_0=GpuUsage(power=90.0, processes=(GpuProcess(7, 5 * GIB, 1, 0),), parts={"MIG-0-1": 5 * GIB})
    )
    there = {"device": "MIG-0-1", "index": "0"}
    assert node.says("device_memory_used_bytes", **there, **ALICES) == 5 * GIB
    assert node.says("device_memory_total_bytes", **there, **ALICES) == 10 * GIB
    assert node.says("pod_memory_bytes", **there, **ALICES) == 5 * GIB
    assert node.says("device_power_watts", **ON_0, **FREE) == 90
    assert node.series("squatters") == []


def test_a_gpu_that_several_pods_hold_names_none_of_them_in_its_own_series(node: MeasuredNode) -> None:
    assert node.pods is not None
    node.pods = (*node.pods, owned(UID_B, "lab", user="bob"))
    node.holdings = PodDevices({(uid, "main"): frozenset({"GPU-0"}) for uid in (UID_A, UID_B)})
    node.measured(GPU_0=busy())
    assert node.series("device_power_watts") == [ON_0 | FREE]
    assert sorted(one["pod"] for one in node.series("device_holder")) == ["lab", "train"]


def test_a_holder_whose_name_is_unknown_is_reported_by_its_uid(node: MeasuredNode) -> None:
    node.pods = None
    node.measured(GPU_0=busy())
    nameless = {"namespace": "", "pod": UID_A, "user": "", "booking": ""}
    assert node.series("device_holder") == [ON_0 | nameless | {"source": "kubelet"}]
    assert node.series("device_power_watts") == [ON_0 | nameless]


def test_a_mig_device_whose_size_is_unknown_reports_only_what_is_used_of_it(tmp_path: Path) -> None:
    made = part(0, 1)
    unsized = msgspec.structs.replace(made, published=msgspec.structs.replace(made.published, memory=0))
    node = MeasuredNode(tmp_path, devices=(gpu(0), unsized))
    node.measured(GPU_0=GpuUsage(parts={"MIG-0-1": GIB}))
    assert [one["device"] for one in node.series("device_memory_used_bytes")] == ["MIG-0-1"]
    assert node.series("device_memory_total_bytes") == []


# --- squatters --------------------------------------------------------------------------------------------


def test_a_process_outside_pods_is_reported_once_it_was_seen_twice(node: MeasuredNode) -> None:
    node.run(4711)
    node.measured(GPU_1=busy(GpuProcess(4711, 2 * GIB)))
    assert (node.series("squatters"), node.events) == ([], [])
    node.measured(GPU_1=busy(GpuProcess(4711, 2 * GIB)))
    assert node.says("squatters", **ON_1, namespace="", pod="") == 1
    assert node.says("squatter_memory_bytes", **ON_1, namespace="", pod="") == 2 * GIB
    message = (
        "Process 4711 (python3) of no pod (session-4.scope) uses GPU 1 (GPU-1) and 2048 MiB of its memory."
    )
    assert node.events == [f"{message} No pod holds it."]
    for _ in range(5):
        node.measured(GPU_1=busy(GpuProcess(4711, 3 * GIB)))
    assert len(node.events) == 1
    node.end(4711)
    node.measured(GPU_1=busy())
    assert node.series("squatters") == []


@pytest.mark.parametrize("claimed", [(ClaimedPart("c", "GPU-1"),), None])
def test_a_process_on_a_gpu_that_a_claim_has_is_no_squatter(
    node: MeasuredNode, claimed: tuple[ClaimedPart, ...] | None
) -> None:
    node.claimed = claimed
    node.run(8, uid=UID_B)
    for _ in range(2):
        node.measured(GPU_1=busy(GpuProcess(8, None)))
    assert (node.series("squatters"), node.events) == ([], [])


def test_a_process_of_a_pod_that_does_not_hold_the_gpu_is_reported_with_both_pods(node: MeasuredNode) -> None:
    assert node.pods is not None
    node.pods = (*node.pods, owned(UID_B, "lab", user="bob"))
    node.run(8, uid=UID_B)
    for _ in range(2):
        node.measured(GPU_0=busy(GpuProcess(8, None)))
    assert node.says("squatters", **ON_0, namespace="default", pod="lab") == 1
    (message,) = node.events
    assert (
        message
        == "Process 8 (python3) of pod default/lab uses GPU 0 (GPU-0). It is held by pod default/train."
    )


def test_a_pod_without_any_gpu_resource_is_named_where_it_squats(node: MeasuredNode) -> None:
    node.without_gpus = (owned(UID_B, "lab", user="bob"),)
    node.run(8, uid=UID_B)
    for _ in range(2):
        node.measured(GPU_0=busy(GpuProcess(8, None)))
    assert node.says("squatters", **ON_0, namespace="default", pod="lab") == 1
    assert "of pod default/lab uses" in node.events[0]
    (squatter,) = decode_use(node.measurer.text() or "").squatters
    assert (squatter.namespace, squatter.name, squatter.user) == ("default", "lab", "bob")


def test_no_squatter_is_reported_while_the_kubelet_s_checkpoint_is_unreadable(node: MeasuredNode) -> None:
    node.run(7, uid=UID_A)
    node.holdings = None
    for _ in range(3):
        node.measured(GPU_0=busy(GpuProcess(7, GIB)))
    assert (node.series("squatters"), node.events) == ([], [])


def test_a_process_that_outlives_its_pod_for_a_moment_is_not_reported(node: MeasuredNode) -> None:
    node.run(7, uid=UID_A)
    node.measured(GPU_0=busy(GpuProcess(7, GIB)))
    node.holdings, node.pods = PodDevices(), ()
    node.measured(GPU_0=busy(GpuProcess(7, GIB)))
    node.end(7)
    node.measured(GPU_0=busy(GpuProcess(7, GIB)))
    assert node.events == []


def test_the_memory_of_a_squatter_is_not_counted_as_that_of_a_holder(node: MeasuredNode) -> None:
    node.run(7, uid=UID_A)
    for _ in range(2):
        node.measured(GPU_0=busy(), GPU_1=busy(GpuProcess(7, GIB)))
    first, second = decode_use(node.measurer.text() or "").devices
    assert (first.pods, second.pods) == (None, None)
    assert node.series("pod_memory_bytes") == []
    assert node.says("squatter_memory_bytes", **ON_1, namespace="default", pod="train") == GIB


def test_squatters_that_use_as_much_memory_are_in_the_order_of_device_and_pid(node: MeasuredNode) -> None:
    for pid in (30, 20, 10):
        node.run(pid)
    for _ in range(2):
        node.measured(GPU_1=busy(GpuProcess(10, GIB)), GPU_0=busy(GpuProcess(30, GIB), GpuProcess(20, GIB)))
    use = decode_use(node.measurer.text() or "")
    assert [(one.device, one.pid) for one in use.squatters] == [("GPU-0", 20), ("GPU-0", 30), ("GPU-1", 10)]


def test_a_process_is_not_seen_twice_in_one_measurement(node: MeasuredNode) -> None:
    node.run(4711)
    node.measured(GPU_1=busy(GpuProcess(4711, GIB)))
    node.clock.advance(10)
    node.measurer.once()
    assert (node.series("squatters"), node.events) == ([], [])


def test_a_squatter_is_shown_until_a_measurement_without_it_or_for_half_a_minute(node: MeasuredNode) -> None:
    node.run(4711)
    for _ in range(2):
        node.measured(GPU_1=busy(GpuProcess(4711, GIB)))
    squatter = [ON_1 | {"namespace": "", "pod": ""}]
    node.clock.advance(10)
    node.measurer.once()
    assert node.series("squatters") == squatter
    node.holdings = None
    node.measured(GPU_1=busy(GpuProcess(4711, GIB)))
    assert node.series("squatters") == squatter, "the checkpoint cannot be read for a moment"
    node.clock.advance(30)
    node.measurer.once()
    assert node.series("squatters") == []


def test_a_squatter_is_reported_once_the_node_is_known(tmp_path: Path) -> None:
    node = MeasuredNode(tmp_path, knows_node=False)
    node.run(4711)
    for _ in range(3):
        node.measured(GPU_1=busy(GpuProcess(4711, GIB)))
    assert node.events == []
    node.observe()
    node.measured(GPU_1=busy(GpuProcess(4711, GIB)))
    assert len(node.events) == 1


def test_many_squatters_are_all_counted_and_reported_a_few_at_a_time(node: MeasuredNode) -> None:
    crowd = tuple(GpuProcess(pid, pid * MIB) for pid in range(100, 130))
    for one in crowd:
        node.run(one.pid)
    node.measured(GPU_1=busy(*crowd))
    node.measured(GPU_1=busy(*crowd))
    assert node.says("squatters", **ON_1, namespace="", pod="") == 30
    assert node.says("squatter_memory_bytes", **ON_1, namespace="", pod="") == sum(range(100, 130)) * MIB
    assert len(node.events) == 10
    text = node.measurer.text()
    assert text is not None
    use = decode_use(text)
    assert ([one.pid for one in use.squatters], use.more) == (list(range(129, 109, -1)), 10)
    for _ in range(3):
        node.measured(GPU_1=busy(*crowd))
    assert len(node.events) == 30


# --- the Lease --------------------------------------------------------------------------------------------


def test_the_lease_carries_the_usage_of_gpus_for_the_booking_server(node: MeasuredNode) -> None:
    node.run(7, uid=UID_A)
    node.run(4711)
    for _ in range(2):
        node.measured(GPU_0=busy(GpuProcess(7, 4 * GIB)), GPU_1=busy(GpuProcess(4711, GIB)))
    use = decode_use(node.measurer.annotations()[names.USE] or "")
    assert use.at == node.clock.now()
    first, _ = use.devices
    assert first == DeviceUsage(
        uuid="GPU-0", utilisation=87, memory=20480, temperature=61, power=288, pods={UID_A: 4096}
    )
    (squatter,) = use.squatters
    assert (squatter.device, squatter.pid, squatter.command, squatter.memory) == (
        "GPU-1",
        4711,
        "python3",
        1024,
    )
    assert squatter.uid is None


def test_nothing_is_written_on_the_lease_while_no_gpu_answers(node: MeasuredNode) -> None:
    node.measured(GPU_0=busy())
    assert node.measurer.text() is not None
    node.measured()
    assert node.measurer.text() is None


def test_the_text_is_rebuilt_no_more_often_than_configured(tmp_path: Path) -> None:
    node = MeasuredNode(tmp_path, report_every=60)
    texts = []
    for _ in range(12):
        node.measured(GPU_0=busy())
        texts.append(node.measurer.text())
    assert len(set(texts)) == 2


def test_sixteen_gpus_of_seven_mig_devices_fit_on_a_lease(tmp_path: Path) -> None:
    devices = tuple(
        lengthened(one)
        for index in range(16)
        for one in (gpu(index), *(part(index, number) for number in range(7)))
    )
    node = MeasuredNode(tmp_path, devices=devices)
    uids = {one.uuid: str(UUID(int=number)) for number, one in enumerate(devices)}
    node.holdings = PodDevices({(uid, "main"): frozenset({uuid}) for uuid, uid in uids.items()})
    node.pods = tuple(owned(uid, f"a-pod-with-a-long-name-{uid}", user="alice") for uid in uids.values())
    usages: dict[str, GpuUsage] = {}
    for whole in (one for one in devices if one.published.parent is None):
        parts = [one for one in devices if one.published.parent == whole.uuid]
        processes = []
        for one in parts:
            pid = 1000 + devices.index(one)
            node.run(pid, uid=uids[one.uuid])
            processes.append(GpuProcess(pid, 9 * GIB, one.gpu_instance, 0))
        used = {one.uuid: 9 * GIB for one in parts}
        usages[whole.uuid] = GpuUsage(
            memory_used=63 * GIB, temperature=88, power=388.0, processes=processes, parts=used
        )
    node.measured(**usages)
    text = node.measurer.text()
    assert text is not None
    use = decode_use(text)
    assert len(use.devices) == 128
    assert sum(one.pods is not None for one in use.devices) == 112
    assert len(text) < 32 * 1024


def lengthened(device: NodeDevice) -> NodeDevice:
    """The device, with UUIDs as long as real ones."""

    def longer(uuid: str) -> str:
        return f"{uuid}-".ljust(40, "x")

    parent = device.published.parent
    published = msgspec.structs.replace(
        device.published, uuid=longer(device.uuid), parent=longer(parent) if parent else None
    )
    return msgspec.structs.replace(device, published=published)
