"""Processes that use a GPU without holding it, and those that are not reported."""

import msgspec
import pytest

from cluster.objects.inventory import Device
from deviceplugin.nvml.interface import GpuProcess, GpuUsage
from deviceplugin.nvml.inventory import NodeDevice
from deviceplugin.usage.cgroups import LiveProcess, ProcessOwner
from deviceplugin.usage.holders import Holder
from deviceplugin.usage.squatters import (
    SquattingProcess,
    Suspects,
    families,
    processes_on_devices,
    squatting,
    used_by_pods,
)

A100 = "NVIDIA-A100-SXM4-80GB"


def gpu(index: int) -> NodeDevice:
    return NodeDevice(published=Device(uuid=f"GPU-{index}", index=index, model=A100), minor=index, pci="")


def part(of: int, number: int) -> NodeDevice:
    whole = gpu(of)
    made = msgspec.structs.replace(whole.published, uuid=f"MIG-{of}-{number}", parent=whole.uuid)
    return msgspec.structs.replace(whole, published=made, gpu_instance=number, compute_instance=0)


NODE = (gpu(0), gpu(1), part(1, 1), part(1, 2))


def holder(device: str, uid: str) -> Holder:
    return Holder(device=device, index=0, model=A100, uid=uid, containers=("main",), source="kubelet")


def seen(pid: int, uid: str | None, command: str = "python3") -> LiveProcess:
    return LiveProcess(pid, "77", command, ProcessOwner(uid, "ssh.service" if uid is None else ""))


def judged(
    process: GpuProcess, who: LiveProcess | None, *held: Holder, on: str = "GPU-0", tolerated: str = ""
) -> list[tuple[str, int]]:
    """(Device, pid) of each process that is found, where one process runs on a GPU."""
    found = squatting(
        processes_on_devices(NODE, {on: GpuUsage(processes=(process,))}),
        {} if who is None else {process.pid: who},
        held,
        family=families(NODE),
        tolerated=frozenset({tolerated}),
    )
    return [(one.device, one.seen.pid) for one in found]


@pytest.mark.parametrize("uid", ["b", None])
def test_a_process_of_another_pod_or_of_none_is_found(uid: str | None) -> None:
    assert judged(GpuProcess(7, 1), seen(7, uid), holder("GPU-0", "a")) == [("GPU-0", 7)]


@pytest.mark.parametrize("uid", ["a", None])
def test_every_process_on_an_unheld_gpu_is_found(uid: str | None) -> None:
    assert judged(GpuProcess(7, 1), seen(7, uid), holder("GPU-1", "a")) == [("GPU-0", 7)]


def test_a_process_that_has_ended_or_is_hidden_is_not_reported() -> None:
    assert judged(GpuProcess(7, 1), None) == []


def test_a_display_server_of_the_node_is_tolerated_and_one_in_a_pod_is_not() -> None:
    assert judged(GpuProcess(7, 1), seen(7, None, "Xorg"), tolerated="Xorg") == []
    assert judged(GpuProcess(7, 1), seen(7, "b", "Xorg"), tolerated="Xorg") == [("GPU-0", 7)]


def test_only_the_pod_of_a_mig_device_may_use_it_and_not_that_of_another() -> None:
    process = GpuProcess(7, 1, 1, 0)
    assert judged(process, seen(7, "a"), holder("MIG-1-1", "a"), on="GPU-1") == []
    assert judged(process, seen(7, "b"), holder("MIG-1-2", "b"), on="GPU-1") == [("MIG-1-1", 7)]


def test_the_holder_of_a_whole_gpu_may_use_its_mig_devices_and_vice_versa() -> None:
    assert judged(GpuProcess(7, 1, 1, 0), seen(7, "a"), holder("GPU-1", "a"), on="GPU-1") == []
    assert judged(GpuProcess(7, 1), seen(7, "a"), holder("MIG-1-2", "a"), on="GPU-1") == []


def test_of_two_compute_instances_of_one_gpu_instance_each_has_its_own_processes() -> None:
    second = msgspec.structs.replace(part(1, 1), compute_instance=1)
    second = msgspec.structs.replace(
        second, published=msgspec.structs.replace(second.published, uuid="MIG-1-1-1")
    )
    devices = (gpu(1), part(1, 1), second)
    processes = (GpuProcess(7, 1, 1, 0), GpuProcess(8, 1, 1, 1), GpuProcess(9, 1, 1))
    on = processes_on_devices(devices, {"GPU-1": GpuUsage(processes=processes)})
    assert [one.device.uuid for one in on] == ["MIG-1-1", "MIG-1-1-1", "MIG-1-1"]


def test_a_measurement_of_a_gpu_that_is_not_among_the_devices_is_ignored() -> None:
    usage = GpuUsage(processes=(GpuProcess(7, 1),))
    assert processes_on_devices((gpu(0),), {"GPU-9": usage}) == ()
    assert processes_on_devices(NODE, {"MIG-1-1": usage}) == ()


def test_every_pod_that_holds_the_gpu_or_a_part_of_it_is_named_in_order() -> None:
    on = processes_on_devices(NODE, {"GPU-1": GpuUsage(processes=(GpuProcess(7, 1),))})
    holders = [holder(device, uid) for device in ("MIG-1-2", "GPU-1") for uid in "fbdace"]
    (found,) = squatting(on, {7: seen(7, None)}, holders, family=families(NODE), tolerated=frozenset())
    assert found.held_by == tuple("abcdef")


def test_only_a_squatter_seen_twice_is_reported() -> None:
    suspects = Suspects()
    one = SquattingProcess("GPU-0", 0, seen(7, None), 1)
    again = SquattingProcess("GPU-0", 0, LiveProcess(7, "99", "python3", ProcessOwner()), 1)
    assert suspects.confirmed([one]) == ()
    assert suspects.confirmed([one]) == (one,)
    assert suspects.confirmed([again]) == (), "another process with the same number"
    assert suspects.confirmed([]) == ()
    assert suspects.confirmed([again]) == ()


def test_a_squatter_that_moves_to_another_gpu_is_first_seen_there_twice() -> None:
    suspects = Suspects()
    here, there = (SquattingProcess(f"GPU-{at}", at, seen(7, None), 1) for at in (0, 1))
    assert suspects.confirmed([here]) == ()
    assert suspects.confirmed([there]) == ()
    assert suspects.confirmed([here, there]) == (there,)


def test_a_pod_whose_processes_use_no_memory_differs_from_one_whose_memory_is_unknown() -> None:
    on = processes_on_devices(NODE, {"GPU-0": GpuUsage(processes=(GpuProcess(7, 0), GpuProcess(8, None)))})
    assert used_by_pods(on, {7: seen(7, "a"), 8: seen(8, "b")}) == {("GPU-0", "a"): 0}
