"""What a simulated node has: default GPUs, NVLink, MIG, NUMA, memory, processes."""

from pathlib import Path
from types import ModuleType

import pytest

from devcluster.fakenvml import A100_80GB, H200, RTX_A6000, FakeNvml, default_gpus, gpu, mig
from devcluster.fakenvml.fake import RunningProcess


def test_a_node_of_the_development_cluster_has_two_a100_and_two_a6000(nvml: ModuleType) -> None:
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    assert [nvml.nvmlDeviceGetName(handle) for handle in handles] == [
        "NVIDIA A100-SXM4-80GB",
        "NVIDIA A100-SXM4-80GB",
        "NVIDIA RTX A6000",
        "NVIDIA RTX A6000",
    ]
    assert [nvml.nvmlDeviceGetMemoryInfo(handle).total >> 20 for handle in handles] == [
        81920,
        81920,
        49140,
        49140,
    ]
    assert [nvml.nvmlDeviceGetMinorNumber(handle) for handle in handles] == [0, 1, 2, 3]


def test_uuids_differ_between_nodes_and_stay_from_start_to_start() -> None:
    uuids = [spec.uuid for node in range(3) for spec in default_gpus(node)]
    assert len(set(uuids)) == 12
    assert uuids == [spec.uuid for node in range(3) for spec in default_gpus(node)]
    assert all(uuid.startswith("GPU-") and len(uuid) == 40 for uuid in uuids)


def test_linked_gpus_name_each_other_and_the_rest_has_no_nvlink(nvml: ModuleType) -> None:
    first, second, third, _ = (nvml.nvmlDeviceGetHandleByIndex(index) for index in range(4))
    assert [nvml.nvmlDeviceGetNvLinkState(first, link) for link in (0, 11, 12)] == [1, 1, 0]
    far = nvml.nvmlDeviceGetNvLinkRemotePciInfo(first, 11)
    assert far.busId == nvml.nvmlDeviceGetPciInfo(second).busId
    with pytest.raises(nvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetNvLinkState(third, 0)


def test_the_numa_node_is_in_the_simulated_sysfs(fake: FakeNvml, nvml: ModuleType) -> None:
    found = []
    for index in range(4):
        address = nvml.nvmlDeviceGetPciInfo(nvml.nvmlDeviceGetHandleByIndex(index)).busIdLegacy.lower()
        found.append((fake.sys_root / "bus/pci/devices" / address / "numa_node").read_text(encoding="ascii"))
    assert found == ["0\n", "0\n", "1\n", "1\n"]


def test_mig_devices_have_a_parent_instances_and_a_share_of_the_memory(
    fake: FakeNvml, nvml: ModuleType
) -> None:
    spec = default_gpus(0)[0]
    parts = mig(spec, ["3g.40gb", "1g.10gb"])
    whole = nvml.nvmlDeviceGetHandleByIndex(0)
    fake.mig(0, parts)
    assert nvml.nvmlDeviceGetMigMode(whole) == [1, 1]
    assert nvml.nvmlDeviceGetMaxMigDeviceCount(whole) == 7
    handles = [nvml.nvmlDeviceGetMigDeviceHandleByIndex(whole, index) for index in (0, 1)]
    assert [nvml.nvmlDeviceGetUUID(handle) for handle in handles] == [part.uuid for part in parts]
    assert [nvml.nvmlDeviceGetGpuInstanceId(handle) for handle in handles] == [1, 2]
    assert [nvml.nvmlDeviceGetAttributes(handle).memorySizeMB for handle in handles] == [40192, 9728]
    parent = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handles[0])
    assert nvml.nvmlDeviceGetUUID(parent) == spec.uuid
    with pytest.raises(nvml.NVMLError_NotFound):
        nvml.nvmlDeviceGetMigDeviceHandleByIndex(whole, 2)
    with pytest.raises(nvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetMinorNumber(handles[0])


def test_mig_can_be_switched_off_again(fake: FakeNvml, nvml: ModuleType) -> None:
    whole = nvml.nvmlDeviceGetHandleByIndex(0)
    fake.mig(0, mig(default_gpus(0)[0], ["7g.80gb"]))
    fake.mig(0, ())
    assert nvml.nvmlDeviceGetMigMode(whole) == [0, 0]
    with pytest.raises(nvml.NVMLError_NotFound):
        nvml.nvmlDeviceGetMigDeviceHandleByIndex(whole, 0)


def test_a_card_without_mig_answers_not_supported(nvml: ModuleType) -> None:
    with pytest.raises(nvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetMigMode(nvml.nvmlDeviceGetHandleByIndex(2))


def test_an_unknown_mig_profile_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"has no MIG profile 1g.18gb; it has: 1g.10gb"):
        mig(gpu(A100_80GB, 0), ["1g.18gb"])
    with pytest.raises(ValueError, match="it has: none"):
        mig(gpu(RTX_A6000, 0), ["1g.10gb"])


def test_memory_and_processes_change_at_run_time(fake: FakeNvml, nvml: ModuleType) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(3)
    fake.memory_used(3, 1 << 30)
    fake.processes(3, RunningProcess(4711, 1 << 30), RunningProcess(4712, 5, kind="m"))
    memory = nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2)
    assert memory.used == 1 << 30
    assert memory.total == memory.free + memory.used + memory.reserved
    assert nvml.nvmlDeviceGetMemoryInfo(handle).used == memory.used + memory.reserved
    processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    assert [(one.pid, one.usedGpuMemory) for one in processes] == [(4711, 1 << 30)]
    assert [one.pid for one in nvml.nvmlDeviceGetMPSComputeRunningProcesses(handle)] == [4712]
    fake.processes(3)
    assert nvml.nvmlDeviceGetComputeRunningProcesses(handle) == []


def test_the_same_folder_opened_again_is_the_same_node(fake: FakeNvml) -> None:
    again = FakeNvml(fake.folder)
    assert again.uuids() == fake.uuids()
    assert again.environment() == fake.environment()


def test_naming_a_missing_gpu_is_an_error_that_changes_nothing(fake: FakeNvml) -> None:
    before = fake.state.read_text(encoding="utf-8")
    with pytest.raises(KeyError, match="has no GPU 9"):
        fake.lose(9)
    assert fake.state.read_text(encoding="utf-8") == before


def test_a_node_without_gpus_counts_none(tmp_path: Path, fake: FakeNvml, nvml: ModuleType) -> None:
    assert tmp_path.exists()
    nvml.nvmlShutdown()
    fake.create(())
    nvml.nvmlInit()
    assert nvml.nvmlDeviceGetCount() == 0
    assert H200.memory_mib == 143771
