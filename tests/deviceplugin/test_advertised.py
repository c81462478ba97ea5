"""Which devices are advertised."""

import msgspec
import pytest

from cluster.objects.inventory import Device
from deviceplugin.advertised import AdvertisingOptions, advertised
from deviceplugin.device_nodes import DeviceNode, DeviceNodes
from deviceplugin.injection.strategy import Strategy
from deviceplugin.nvml.inventory import NodeDevice
from deviceplugin.nvml.mig_strategy import NOT_ADVERTISED


def gpu(uuid: str, minor: int | None = 0, **fields: object) -> NodeDevice:
    published = Device(uuid=uuid, index=0, model="NVIDIA-A100")
    whole = NodeDevice(published=published, minor=minor, pci="0000:07:00.0")
    return msgspec.structs.replace(whole, **fields)


NODES = DeviceNodes({"A": (DeviceNode("/dev/nvidia0", "/dev/nvidia0"),)})


def test_a_gpu_with_its_device_node_is_advertised_as_it_is() -> None:
    assert advertised([gpu("A")], NODES, AdvertisingOptions()) == (gpu("A").published,)


@pytest.mark.parametrize("strategy", [Strategy.CDI, Strategy.DEVICE_NODES])
def test_a_gpu_without_its_device_node_is_listed_as_unhealthy(strategy: Strategy) -> None:
    (device,) = advertised([gpu("B", 1)], NODES, AdvertisingOptions(strategy=strategy))
    assert (device.health, device.reason) == ("unhealthy", "The device node /dev/nvidia1 is missing")
    (device,) = advertised([gpu("B", None)], NODES, AdvertisingOptions(strategy=strategy))
    assert device.reason == "The driver does not say which device node belongs to the GPU"


def test_device_nodes_are_not_required_where_nvidia_s_runtime_finds_them() -> None:
    assert advertised([gpu("B", 1)], NODES, AdvertisingOptions(strategy=Strategy.ENVIRONMENT))[0].is_healthy


def test_the_reason_that_nvml_gives_for_an_unhealthy_gpu_stays() -> None:
    (device,) = advertised([gpu("B", 1).as_unhealthy("XID 79")], NODES, AdvertisingOptions())
    assert device.reason == "XID 79"


def test_a_gpu_in_mig_mode_is_listed_as_unhealthy_and_its_mig_devices_are_not_listed() -> None:
    part = gpu("MIG-1", published=Device(uuid="MIG-1", index=0, model="NVIDIA-A100-MIG-1g.10gb", parent="A"))
    (device,) = advertised([gpu("A", partitioned=True), part], NODES, AdvertisingOptions())
    assert (device.uuid, device.reason) == ("A", NOT_ADVERTISED)
