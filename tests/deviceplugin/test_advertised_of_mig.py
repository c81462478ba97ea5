"""What is advertised of GPUs in MIG mode: names, and what running pods already reach."""

import msgspec
import pytest

from cluster import names
from cluster.objects.inventory import Device, resource_of
from deviceplugin.advertised import (
    IN_ITS_PLACE,
    TAKEN_IN_PARTS,
    TAKEN_WHOLE,
    AdvertisingOptions,
    advertised,
    listed,
    partitioned_of,
    with_absent,
)
from deviceplugin.device_nodes import DeviceNode, DeviceNodes
from deviceplugin.injection.strategy import Strategy
from deviceplugin.nvml.inventory import NodeDevice
from deviceplugin.nvml.mig_strategy import NOT_ADVERTISED, MigStrategy
from tests.deviceplugin.nvml.cut import gpu, part, reasons

MIXED = AdvertisingOptions(strategy=Strategy.CDI, mig=MigStrategy.MIXED)
SINGLE = AdvertisingOptions(strategy=Strategy.CDI, mig=MigStrategy.SINGLE)
NONE = AdvertisingOptions()
SMALL, LARGE = f"{names.MIG_RESOURCE_PREFIX}1g.10gb", f"{names.MIG_RESOURCE_PREFIX}3g.40gb"


def nodes_of(devices: tuple[NodeDevice, ...]) -> DeviceNodes:
    return DeviceNodes({device.uuid: (DeviceNode("/dev/x", "/dev/x"),) for device in devices})


def advertised_by(way: AdvertisingOptions, *devices: NodeDevice, held: str = "") -> tuple[Device, ...]:
    return advertised(devices, nodes_of(devices), way, frozenset(held.split()))


def lists(way: AdvertisingOptions, *devices: NodeDevice, **held: str) -> dict[str, list[tuple[str, bool]]]:
    """Resource -> (uuid, healthy) as advertised to the kubelet; ``held`` by a short name of the resource."""
    by_name = {"gpu": names.GPU_RESOURCE, "small": SMALL, "large": LARGE}
    holding = {by_name[name]: frozenset(text.split()) for name, text in held.items()}
    known = frozenset().union(*holding.values())
    published = with_absent(advertised(devices, nodes_of(devices), way, known), holding, ())
    return {
        resource: [(device.uuid, device.is_healthy) for device in some]
        for resource, some in listed(published, partitioned_of(devices, way), holding).items()
    }


def test_in_strategy_none_mig_devices_are_not_published_and_their_gpu_is_unhealthy() -> None:
    assert reasons(advertised_by(NONE, gpu(0, cut=True), part(0, 1), gpu(1))) == {
        "GPU-0": NOT_ADVERTISED,
        "GPU-1": None,
    }
    assert lists(NONE, gpu(0, cut=True), part(0, 1)) == {names.GPU_RESOURCE: [("GPU-0", False)]}


def test_for_claims_each_mig_device_has_its_health_whatever_the_strategy_is() -> None:
    way = AdvertisingOptions.of_claims(Strategy.CDI)
    unhealthy = part(0, 2, "3g.40gb").as_unhealthy("XID 79")
    found = advertised_by(way, gpu(0, cut=True), part(0, 1), unhealthy)
    assert reasons(found) == {"GPU-0": None, "MIG-0-1": None, "MIG-0-2": "XID 79"}
    assert lists(way, gpu(0, cut=True), part(0, 1), unhealthy) == {}


def test_a_claims_device_is_the_one_that_has_its_name_now() -> None:
    """After a reload of the driver a GPU may have the number of one that is lost."""
    lost = msgspec.structs.replace(gpu(0).as_unhealthy("lost"), listed=False)
    here = msgspec.structs.replace(lost, published=gpu(1).published, listed=True)
    way = AdvertisingOptions.of_claims(Strategy.CDI, bookable=True)
    found = {one.uuid: one.claimed_as for one in advertised_by(way, here, lost)}
    assert found == {"GPU-1": "gpu-0", "GPU-0": None}


def test_claims_that_can_be_booked_say_what_of_a_gpu_is_for_shares_and_no_slot_is_listed() -> None:
    way = AdvertisingOptions.of_claims(Strategy.CDI, bookable=True, slots=16, reserve=512)
    offered = [one.share for one in advertised_by(way, gpu(0), gpu(1, cut=True), part(1, 1))]
    assert [one and (one.slots, one.memory > 0) for one in offered] == [(16, True), None, None]
    assert lists(way, gpu(0)) == {}
    unbookable = AdvertisingOptions.of_claims(Strategy.CDI, slots=16)
    assert [one.share for one in advertised_by(unbookable, gpu(0))] == [None]


def test_in_strategy_mixed_each_profile_is_a_resource_next_to_whole_gpus() -> None:
    devices = gpu(0, cut=True), part(0, 1), part(0, 2), part(0, 3, "3g.40gb"), gpu(1)
    assert set(reasons(advertised_by(MIXED, *devices)).values()) == {None}
    assert lists(MIXED, *devices) == {
        names.GPU_RESOURCE: [("GPU-1", True)],
        SMALL: [("MIG-0-1", True), ("MIG-0-2", True)],
        LARGE: [("MIG-0-3", True)],
    }


@pytest.mark.parametrize(
    ("profile", "resource"),
    [
        ("1g.10gb", "nvidia.com/mig-1g.10gb"),
        ("1g.10gb+me", "nvidia.com/mig-1g.10gb.me"),
        ("1g.24gb+gfx", "nvidia.com/mig-1g.24gb.gfx"),
        ("2g.48gb+me.all", "nvidia.com/mig-2g.48gb.me.all"),
        ("1c.3g.40gb", "nvidia.com/mig-1c.3g.40gb"),
    ],
)
def test_resources_are_named_as_nvidias_device_plugin_names_them(profile: str, resource: str) -> None:
    _, device = advertised_by(MIXED, gpu(0, cut=True), part(0, 1, profile))
    assert resource_of(device) == resource


def test_in_strategy_single_mig_devices_are_gpus() -> None:
    devices = gpu(0, cut=True), part(0, 1), gpu(1, cut=True), part(1, 1)
    published = advertised_by(SINGLE, *devices)
    assert [device.resource for device in published] == [None, names.GPU_RESOURCE] * 2
    assert lists(SINGLE, *devices) == {names.GPU_RESOURCE: [("MIG-0-1", True), ("MIG-1-1", True)]}


def test_in_strategy_single_gpus_not_cut_alike_are_not_advertised_for_a_reported_reason() -> None:
    uneven = advertised_by(SINGLE, gpu(0, cut=True), part(0, 1), part(0, 2, "3g.40gb"))
    assert "several profiles: 1g.10gb, 3g.40gb" in (reasons(uneven)["MIG-0-1"] or "")
    mixed = advertised_by(SINGLE, gpu(0, cut=True), part(0, 1), gpu(1))
    assert "some GPUs of the node are in MIG mode" in (reasons(mixed)["GPU-1"] or "")
    assert reasons(mixed)["MIG-0-1"] == reasons(mixed)["GPU-1"]


def test_devices_of_a_pod_stay_healthy_when_the_gpus_are_no_longer_cut_alike() -> None:
    devices = gpu(0, cut=True), part(0, 1), part(0, 2, "3g.40gb")
    assert reasons(advertised_by(SINGLE, *devices, held="MIG-0-1"))["MIG-0-1"] is None


def test_a_mig_device_without_its_device_nodes_is_unhealthy() -> None:
    _, device = advertised((gpu(0, cut=True), part(0, 1)), DeviceNodes(), MIXED)
    assert device.reason == "A device node that gives access to this MIG device is missing"
    _, device = advertised(
        (gpu(0, cut=True), part(0, 1)),
        DeviceNodes(),
        AdvertisingOptions(strategy=Strategy.ENVIRONMENT, mig=MigStrategy.MIXED),
    )
    assert device.is_healthy


def test_a_removed_mig_device_is_listed_as_long_as_a_pod_has_it() -> None:
    devices = gpu(0, cut=True), part(0, 1, gone=True), part(0, 2)
    assert lists(MIXED, *devices) == {SMALL: [("MIG-0-2", True)]}
    assert lists(MIXED, *devices, small="MIG-0-1") == {SMALL: [("MIG-0-1", False), ("MIG-0-2", True)]}


def test_the_last_pod_of_a_removed_profile_keeps_its_resource() -> None:
    devices = gpu(0, cut=True), part(0, 1, gone=True), part(0, 2, "3g.40gb")
    assert lists(MIXED, *devices, small="MIG-0-1") == {
        SMALL: [("MIG-0-1", False)],
        LARGE: [("MIG-0-2", True)],
    }


def test_a_new_mig_device_waits_until_the_pod_of_the_one_before_has_ended() -> None:
    """Its device nodes have the numbers of the instances: they would let that pod in."""
    devices = gpu(0, cut=True), part(0, 1, gone=True), part(0, 1, name="new"), part(0, 2)
    assert reasons(advertised_by(MIXED, *devices, held="MIG-0-1"))["MIG-0-1new"] == IN_ITS_PLACE
    assert reasons(advertised_by(MIXED, *devices, held="MIG-0-1"))["MIG-0-2"] is None
    assert reasons(advertised_by(MIXED, *devices)) == {"GPU-0": None, "MIG-0-1new": None, "MIG-0-2": None}


def test_a_gpu_that_is_whole_again_waits_for_the_pods_of_its_former_mig_devices() -> None:
    devices = gpu(0), part(0, 1, gone=True), gpu(1)
    assert reasons(advertised_by(MIXED, *devices, held="MIG-0-1")) == {
        "GPU-0": TAKEN_IN_PARTS,
        "MIG-0-1": "This MIG device does not exist any more",
        "GPU-1": None,
    }
    assert reasons(advertised_by(MIXED, *devices)) == {"GPU-0": None, "GPU-1": None}


def test_mig_devices_of_a_gpu_that_a_pod_holds_whole_are_not_given() -> None:
    devices = gpu(0, cut=True), part(0, 1), gpu(1, cut=True), part(1, 1)
    found = reasons(advertised_by(MIXED, *devices, held="GPU-0"))
    assert (found["MIG-0-1"], found["MIG-1-1"]) == (TAKEN_WHOLE, None)
    assert lists(MIXED, *devices, gpu="GPU-0") == {
        names.GPU_RESOURCE: [("GPU-0", False)],
        SMALL: [("MIG-0-1", False), ("MIG-1-1", True)],
    }


def test_a_device_that_a_pod_has_under_another_name_is_not_given_under_the_new_one() -> None:
    devices = gpu(0, cut=True), part(0, 1), part(0, 2)
    assert lists(MIXED, *devices, gpu="MIG-0-1") == {
        names.GPU_RESOURCE: [("MIG-0-1", False)],
        SMALL: [("MIG-0-1", False), ("MIG-0-2", True)],
    }
    assert lists(NONE, *devices, small="MIG-0-1") == {
        names.GPU_RESOURCE: [("GPU-0", False)],
        SMALL: [("MIG-0-1", True)],
    }


def test_a_mig_device_left_only_in_the_checkpoint_is_listed_under_its_resource_there() -> None:
    assert lists(MIXED, gpu(1), large="MIG-9") == {
        names.GPU_RESOURCE: [("GPU-1", True)],
        LARGE: [("MIG-9", False)],
    }
    known = (Device(uuid="MIG-9", model="unknown", resource=LARGE), Device(uuid="GPU-7", index=7, model="M"))
    absent = with_absent((gpu(1).published,), {}, known)
    assert [device.uuid for device in absent] == ["GPU-1", "GPU-7"], (
        "GPUs stay, MIG devices that no pod has do not"
    )
