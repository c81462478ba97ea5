"""Which devices are handed out."""

import msgspec
import pytest

from cluster.objects.inventory import Device
from deviceplugin.allocate import DeviceNode, Nodes, Strategy
from deviceplugin.mig.strategy import NOT_HANDED_OUT
from deviceplugin.nvml.inventory import NodeDevice
from deviceplugin.offer import Way, offered


def gpu(uuid: str, minor: int | None = 0, **fields: object) -> NodeDevice:
    published = Device(uuid=uuid, index=0, model="NVIDIA-A100")
    whole = NodeDevice(published=published, minor=minor, pci="0000:07:00.0")
    return msgspec.structs.replace(whole, **fields)


NODES = Nodes({"A": (DeviceNode("/dev/nvidia0", "/dev/nvidia0"),)})


def test_a_gpu_with_its_node_is_handed_out_as_it_is() -> None:
    assert offered([gpu("A")], NODES, Way()) == (gpu("A").published,)


@pytest.mark.parametrize("strategy", [Strategy.CDI, Strategy.DEVICE_NODES])
def test_a_gpu_without_its_node_is_listed_as_unhealthy(strategy: Strategy) -> None:
    (device,) = offered([gpu("B", 1)], NODES, Way(strategy=strategy))
    assert (device.health, device.reason) == ("unhealthy", "The device node /dev/nvidia1 is missing")
    (device,) = offered([gpu("B", None)], NODES, Way(strategy=strategy))
    assert device.reason == "The driver does not say which device node belongs to the GPU"


def test_the_runtime_of_nvidia_finds_nodes_itself() -> None:
    assert offered([gpu("B", 1)], NODES, Way(strategy=Strategy.ENVIRONMENT))[0].is_healthy


def test_what_nvml_says_of_a_sick_gpu_stays() -> None:
    (device,) = offered([gpu("B", 1).sick("XID 79")], NODES, Way())
    assert device.reason == "XID 79"


def test_a_gpu_in_mig_mode_is_listed_as_unhealthy_and_its_parts_are_not_listed() -> None:
    part = gpu("MIG-1", published=Device(uuid="MIG-1", index=0, model="NVIDIA-A100-MIG-1g.10gb", parent="A"))
    (device,) = offered([gpu("A", partitioned=True), part], NODES, Way())
    assert (device.uuid, device.reason) == ("A", NOT_HANDED_OUT)
