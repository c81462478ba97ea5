"""In which form a GPU is offered: whole, or by its slots, by what pods hold of it."""

import json
import os
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from cluster import mps_names, names
from cluster.objects.inventory import Device, Sharing
from cluster.objects.meta import Meta
from cluster.objects.nodes import Node as KubeNode
from cluster.objects.pods import Pod
from cluster.objects.slots import as_a_name, slot_id, slots_of
from deviceplugin.advertised import NOT_SHARED, AdvertisingOptions, advertised, listed
from deviceplugin.injection.mps_daemons import SILENT_AFTER
from deviceplugin.kubelet.checkpoint import NAME
from deviceplugin.node.device_orders import DeviceOrdersHandler
from deviceplugin.nvml.interface import GpuFacts
from deviceplugin.nvml.inventory import NodeDevice
from deviceplugin.preparation import HOLDERS_EVERY
from tests.deviceplugin.pods import LONG_AGO, pod
from tests.deviceplugin.test_advertised_of_mig import MIXED, nodes_of
from tests.deviceplugin.test_preparation import Machine, gpu

SHARED, WHOLE = names.SHARED_RESOURCE, names.GPU_RESOURCE
MODEL = "NVIDIA-A100"


def card(*, partitioned: bool = False, parent: str | None = None) -> NodeDevice:
    facts = GpuFacts(MODEL, "0000:07:00.0", 0, 81920, reserved_mib=633)
    published = Device(uuid="GPU-0", index=0, model=MODEL, memory=81920, parent=parent)
    return NodeDevice(published=published, minor=0, pci=facts.pci, facts=facts, partitioned=partitioned)


def shared_gpu(
    slots: int = 2, health: Literal["healthy", "unhealthy"] = "healthy", reason: str | None = None
) -> Device:
    return Device(
        uuid="GPU-0", index=0, model=MODEL, share=Sharing(slots=slots, memory=1), health=health, reason=reason
    )


def offered(device: Device, **held: str) -> dict[str, list[str]]:
    """Resource -> the ids that new pods can have."""
    holding = {
        {"whole": WHOLE, "shared": SHARED}[name]: frozenset(text.split()) for name, text in held.items()
    }
    return {
        resource: [one.uuid for one in some if one.is_healthy]
        for resource, some in listed((device,), frozenset(), holding).items()
    }


def test_a_gpu_publishes_what_it_offers_to_pods_that_share_it() -> None:
    way = AdvertisingOptions(slots=16, reserve=512)
    (device,) = advertised((card(),), nodes_of((card(),)), way)
    assert device.share == Sharing(slots=16, memory=81920 - 633 - 512)
    unhealthy = card().as_unhealthy("XID 79")
    assert advertised((unhealthy,), nodes_of((unhealthy,)), way)[0].share == device.share


@pytest.mark.parametrize(
    ("device", "slots", "reserve"),
    [
        (card(), 0, 512),
        (card(), 16, 90000),
        (card(partitioned=True), 16, 512),
        (card(parent="GPU-9"), 16, 512),
    ],
)
def test_a_gpu_in_mig_mode_or_without_slots_or_room_is_given_whole_only(
    device: NodeDevice, slots: int, reserve: int
) -> None:
    way = AdvertisingOptions(mig=MIXED.mig, slots=slots, reserve=reserve)
    assert advertised((device,), nodes_of((device,)), way)[0].share is None


def test_l1_a_gpu_is_offered_whole_or_by_its_slots_never_both_while_it_is_held() -> None:
    first, second = slots_of("GPU-0", 2)
    assert offered(shared_gpu()) == {WHOLE: ["GPU-0"], SHARED: [first, second]}
    assert offered(shared_gpu(), whole="GPU-0") == {WHOLE: ["GPU-0"], SHARED: []}
    assert offered(shared_gpu(), shared=first) == {WHOLE: [], SHARED: [first, second]}
    assert offered(shared_gpu(health="unhealthy", reason="XID 79")) == {WHOLE: [], SHARED: []}


def test_slots_that_pods_hold_stay_listed_when_they_are_not_offered_any_more() -> None:
    third = slot_id("GPU-0", 3)
    held = {SHARED: frozenset({third})}
    for device, partitioned in ((shared_gpu(1), ()), (shared_gpu(8), ("GPU-0",))):
        slots = {one.uuid: one for one in listed((device,), frozenset(partitioned), held)[SHARED]}
        assert slots[third].reason == NOT_SHARED


class Node(Machine):
    """With pods that hold devices by the kubelet's checkpoint."""

    def hold(self, *pods: Pod, **devices: str) -> None:
        self.pods = pods
        entries = [
            {
                "PodUID": uid,
                "ContainerName": "main",
                "ResourceName": SHARED if "::" in device else WHOLE,
                "DeviceIDs": {"-1": [device]},
            }
            for uid, device in devices.items()
        ]
        data = {"PodDeviceEntries": entries, "RegisteredDevices": {}}
        (self.cdi.parent / NAME).write_text(json.dumps({"Data": data, "Checksum": 1}))

    def look_again(self) -> None:
        self.clock.until_waiting()
        self.clock.advance(HOLDERS_EVERY)
        self.clock.until_waiting()

    def offers(self) -> dict[str, int]:
        """Resource -> how many ids new pods can have."""
        lists = self.device_cache.now.listed
        return {name: sum(one.is_healthy for one in some) for name, some in lists.items()}


def with_memory(index: int) -> NodeDevice:
    device = gpu(index)
    return msgspec.structs.replace(device, published=msgspec.structs.replace(device.published, memory=81920))


def test_the_form_follows_pods_that_come_and_go(tmp_path: Path) -> None:
    machine = Node(tmp_path, slots=4)
    with machine.checking():
        machine.report(with_memory(0))
        assert machine.offers() == {WHOLE: 1, SHARED: 4}
        machine.hold(pod("a"), a="GPU-0")
        machine.look_again()
        assert machine.offers() == {WHOLE: 1, SHARED: 0}
        machine.hold(pod("a", phase="Succeeded"), a="GPU-0")
        machine.look_again()
        assert machine.offers() == {WHOLE: 1, SHARED: 4}
        machine.hold(pod("b"), b=slot_id("GPU-0", 0))
        machine.look_again()
        assert machine.offers() == {WHOLE: 0, SHARED: 4}


def test_a_gpu_is_offered_under_mps_while_its_daemon_answers_and_kept_for_it_while_pods_share_it(
    tmp_path: Path,
) -> None:
    machine = Node(tmp_path, slots=4, mps=tmp_path / "mps")
    state = tmp_path / "mps" / "GPU-0" / mps_names.STATE
    state.parent.mkdir(parents=True)
    state.touch()
    sharing = pod("a")
    annotated = msgspec.structs.replace(sharing.metadata, annotations={names.SHARING_MODE: "mps"})
    sharing = msgspec.structs.replace(sharing, metadata=annotated)

    def modes() -> tuple[str, ...]:
        (device,) = machine.device_cache.now.devices
        return device.share.modes if device.share else ()

    with machine.checking():
        machine.report(with_memory(0))
        assert modes() == ("time-slice",), "no answer was seen yet"
        os.utime(state, (1, 1))
        machine.look_again()
        assert modes() == ("time-slice", "mps")
        machine.hold(sharing, a=slot_id("GPU-0", 0))
        machine.look_again()
        assert state.with_name(mps_names.WANTED).exists()
        machine.clock.advance(SILENT_AFTER)
        machine.look_again()
        assert modes() == ("time-slice",)
        assert state.with_name(mps_names.WANTED).exists(), "its pods stay"
        machine.hold(pod("b"), b=slot_id("GPU-0", 0))
        machine.look_again()
        assert not state.with_name(mps_names.WANTED).exists()


def test_a_pod_that_is_being_terminated_does_not_bar_the_other_form(tmp_path: Path) -> None:
    leaving = pod("a")
    leaving = msgspec.structs.replace(
        leaving, metadata=msgspec.structs.replace(leaving.metadata, deletion_timestamp=LONG_AGO)
    )
    machine = Node(tmp_path, slots=4)
    machine.hold(leaving, a=slot_id("GPU-0", 0))
    machine.report(with_memory(0))
    assert machine.offers() == {WHOLE: 1, SHARED: 4}


def test_specifications_of_slots_that_no_pod_has_are_removed_at_the_start(tmp_path: Path) -> None:
    machine = Node(tmp_path, slots=4)
    held, free = slots_of("GPU-0", 2)
    machine.hold(pod("a"), a=held)
    machine.cdi.mkdir()
    for slot in (held, free):
        (machine.cdi / f"{names.SHARE_FILE_PREFIX}{as_a_name(slot)}.json").touch()
    machine.report(with_memory(0))
    left = {path.name for path in machine.cdi.glob(f"{names.SHARE_FILE_PREFIX}*")}
    assert left == {f"{names.SHARE_FILE_PREFIX}{as_a_name(held)}.json"}


def test_a_node_whose_gpus_are_never_shared_offers_no_slots_but_keeps_those_in_use(tmp_path: Path) -> None:
    machine = Node(tmp_path, slots=4)
    orders = DeviceOrdersHandler(
        machine.preparation.cordon, lambda _uuid, _order: None, machine.preparation.share
    )
    machine.report(with_memory(0))
    never = KubeNode(metadata=Meta(name="node-a", labels={names.SHARE_LABEL: "never"}))
    orders.upsert(never)
    assert machine.offers() == {WHOLE: 1}
    assert machine.device_cache.now.devices[0].share is None
    machine.hold(pod("a"), a=slot_id("GPU-0", 2))
    machine.report(with_memory(0))
    assert machine.offers() == {WHOLE: 0, SHARED: 0}
    orders.upsert(KubeNode(metadata=Meta(name="node-a")))
    assert machine.offers() == {WHOLE: 0, SHARED: 4}
