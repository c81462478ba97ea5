"""The inventory: every device, whatever is wrong with one of them."""

from collections.abc import Sequence
from dataclasses import replace

from deviceplugin.nvml.health import HealthState, ProbeFailed
from deviceplugin.nvml.interface import MigFacts, NvmlError
from deviceplugin.nvml.inventory import MOST_GONE, NodeDevice, read_inventory, with_health
from tests.fakes.nvml import MemoryGpu, MemoryNvml, a_gpu


def read(
    *gpus: MemoryGpu, known: tuple[NodeDevice, ...] = (), numa: int | None = None
) -> tuple[NodeDevice, ...]:
    nvml = MemoryNvml(list(gpus))
    nvml.open()
    return read_inventory(nvml, lambda _: numa, known)


def test_a_gpu_is_listed_with_its_model_in_label_form() -> None:
    (device,) = read(a_gpu(0, "NVIDIA RTX A6000", 49140), numa=1)
    published = device.published
    assert (published.uuid, published.index, published.model) == ("GPU-0", 0, "NVIDIA-RTX-A6000")
    assert (published.memory, published.numa, published.is_healthy) == (49140, 1, True)
    assert (device.minor, device.pci) == (0, "0000:07:00.0")


def test_memory_and_numa_node_are_left_out_for_a_gpu_without_them() -> None:
    (device,) = read(a_gpu(0, memory_mib=None))
    assert (device.published.memory, device.published.numa, device.published.links) == (0, None, None)


def test_links_name_the_peer_and_their_number() -> None:
    first, second, third = a_gpu(0), a_gpu(1), a_gpu(2)
    first.links = [second.facts.pci] * 4 + [third.facts.pci] * 2
    second.links = [first.facts.pci] * 4
    links = [device.published.links for device in read(first, second, third)]
    assert links == [{"GPU-1": 4, "GPU-2": 2}, {"GPU-0": 4}, None]


def test_links_to_a_switch_reach_every_gpu_on_the_switch() -> None:
    first, second, third = a_gpu(0), a_gpu(1), a_gpu(2)
    first.links = second.links = ["0000:f0:00.0"] * 12
    links = [device.published.links for device in read(first, second, third)]
    assert links == [{"GPU-1": 12}, {"GPU-0": 12}, None]


def test_direct_links_and_those_over_a_switch_are_added_up() -> None:
    first, second = a_gpu(0), a_gpu(1)
    first.links = [second.facts.pci] * 2 + ["0000:f0:00.0"] * 4
    second.links = [first.facts.pci] * 2 + ["0000:f0:00.0"] * 6
    assert [device.published.links for device in read(first, second)] == [{"GPU-1": 6}, {"GPU-0": 6}]


def test_a_gpu_whose_links_cannot_be_read_is_listed_without_them_and_hides_no_other() -> None:
    class Unlinked(MemoryNvml):
        def links(self, uuid: str) -> Sequence[str]:
            if uuid == "GPU-0":
                raise NvmlError("Unknown Error", code=999, call="nvmlDeviceGetNvLinkState", device=uuid)
            return super().links(uuid)

    gpus = [a_gpu(0), a_gpu(1), a_gpu(2)]
    for gpu in gpus:
        gpu.links = ["0000:f0:00.0"] * 12
    nvml = Unlinked(gpus)
    nvml.open()
    devices = read_inventory(nvml, lambda _: None)
    assert all(device.published.is_healthy for device in devices)
    assert [device.published.links for device in devices] == [None, {"GPU-2": 12}, {"GPU-1": 12}]


def test_a_gpu_in_mig_mode_has_no_links() -> None:
    cut, whole, other = a_gpu(0), a_gpu(1), a_gpu(2)
    cut.mig = [MigFacts("MIG-1", "3g.40gb", 1, 0, 40192)]
    for gpu in (cut, whole, other):
        gpu.links = ["0000:f0:00.0"] * 12
    links = {device.uuid: device.published.links for device in read(cut, whole, other)}
    assert links == {"GPU-0": None, "MIG-1": None, "GPU-1": {"GPU-2": 12}, "GPU-2": {"GPU-1": 12}}


def test_mig_devices_follow_their_gpu_which_is_not_given_itself() -> None:
    gpu = a_gpu(0)
    gpu.mig = [MigFacts("MIG-1", "3g.40gb", 1, 0, 40192)]
    whole, part = read(gpu, numa=0)
    assert (whole.uuid, whole.partitioned) == ("GPU-0", True)
    assert (part.uuid, part.partitioned, part.published.parent) == ("MIG-1", False, "GPU-0")
    assert (part.published.profile, part.published.model) == ("3g.40gb", "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb")
    assert (part.minor, part.gpu_instance, part.compute_instance) == (0, 1, 0)
    assert (part.published.memory, part.published.numa) == (40192, 0)


def test_a_known_gpu_that_is_lost_stays_listed_and_hides_no_other() -> None:
    first, second = a_gpu(0), a_gpu(1)
    known = read(first, second)
    first.lost = True
    devices = {device.uuid: device.published for device in read(first, second, known=known)}
    assert devices["GPU-1"].is_healthy
    assert not devices["GPU-0"].is_healthy
    assert devices["GPU-0"].reason == "The GPU is lost"
    assert devices["GPU-0"].model == "NVIDIA-A100-SXM4-80GB"


def test_a_gpu_that_nvml_no_longer_lists_stays_listed() -> None:
    known = read(a_gpu(0), a_gpu(1))
    devices = read(a_gpu(0), known=known)
    assert [device.uuid for device in devices] == ["GPU-0", "GPU-1"]
    assert devices[1].published.reason == "NVML does not list this GPU any more"


def test_a_mig_device_that_is_gone_stays_listed() -> None:
    gpu = a_gpu(0)
    gpu.mig = [MigFacts("MIG-1", "3g.40gb", 1, 0, 40192)]
    known = read(gpu)
    devices = read(replace(gpu, mig=None), known=known)
    assert [(device.uuid, device.published.is_healthy) for device in devices] == [
        ("GPU-0", True),
        ("MIG-1", False),
    ]
    assert devices[1].published.reason == "This MIG device does not exist any more"


def test_the_latest_of_the_removed_mig_devices_are_remembered() -> None:
    gpu, known = a_gpu(0), read(a_gpu(0))
    for cutting, parts in enumerate((3, MOST_GONE - 1, 1, 1)):
        gpu.mig = [MigFacts(f"MIG-{cutting}-{part}", "1g.10gb", part, 0, 9728) for part in range(parts)]
        known = read(gpu, known=known)
    assert [device.uuid for device in known[:3]] == ["GPU-0", "MIG-3-0", "MIG-2-0"]
    assert {device.uuid for device in known[3:]} == {f"MIG-1-{part}" for part in range(MOST_GONE - 1)}


def test_a_gpu_that_does_not_answer_is_distinguished_from_one_that_nvml_does_not_list() -> None:
    first, second = a_gpu(0), a_gpu(1)
    second.mig = [MigFacts("MIG-1", "3g.40gb", 1, 0, 40192)]
    known = read(first, second)
    second.lost = True
    assert [(device.uuid, device.listed) for device in read(first, second, known=known)] == [
        ("GPU-0", True),
        ("GPU-1", True),
        ("MIG-1", True),
    ]
    assert [(device.uuid, device.listed) for device in read(first, known=known)] == [
        ("GPU-0", True),
        ("GPU-1", False),
        ("MIG-1", False),
    ]


def test_a_lost_gpu_is_never_forgotten_however_many_mig_devices_are_gone() -> None:
    cut, lost = a_gpu(0), a_gpu(1)
    cut.mig = [MigFacts(f"MIG-{part}", "1g.10gb", part, 0, 9728) for part in range(MOST_GONE + 1)]
    known = read(cut, lost)
    cut.mig, lost.lost = [], True
    devices = read(cut, lost, known=known)
    assert len(devices) == MOST_GONE + 2
    assert [devices[0].uuid, devices[-1].uuid] == ["GPU-0", "GPU-1"]


def test_the_reason_why_a_device_could_not_be_read_is_not_replaced_by_its_health() -> None:
    (device,) = (one.as_unhealthy("it cannot be read") for one in read(a_gpu(0)))
    health = HealthState().apply(ProbeFailed("GPU-0", "the GPU is lost"))
    assert [one.published.reason for one in with_health([device], health)] == ["it cannot be read"]


def test_an_unhealthy_gpu_makes_its_mig_devices_unhealthy_too() -> None:
    gpu = a_gpu(0)
    gpu.mig = [MigFacts("MIG-1", "3g.40gb", 1, 0, 40192)]
    health = HealthState().apply(ProbeFailed("GPU-0", "the GPU is lost"))
    devices = with_health(read(gpu, a_gpu(1)), health)
    assert [device.published.reason for device in devices] == ["the GPU is lost", "the GPU is lost", None]
