"""What is published of the devices, and when."""

import threading
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from cluster import claim_names, names
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.resources import NODES, RESOURCE_SLICES
from cluster.objects.inventory import Device
from cluster.objects.quantity import parse_amount
from deviceplugin.dra.slice_publisher import READ_EVERY, SlicePublisher
from deviceplugin.dra.slices import MOST, Published, Stored, Surroundings, entries, offered, parts
from deviceplugin.nvml.interface import GpuFacts, MigFacts
from deviceplugin.nvml.inventory import NodeDevice

NODE = "node-a"
FACTS = GpuFacts("NVIDIA H100 80GB HBM3", "0000:07:00.0", 0, 81559, compute=(9, 0))
GPU = NodeDevice(
    published=Device(uuid="GPU-0", index=0, model="NVIDIA-H100-80GB-HBM3", memory=81559, numa=1),
    minor=0,
    pci=FACTS.pci,
    facts=FACTS,
)
PART = NodeDevice(
    published=Device(uuid="MIG-0", index=0, model="x", memory=9728, parent="GPU-0", profile="1g.10gb"),
    minor=0,
    pci=FACTS.pci,
    facts=FACTS,
    part=MigFacts("MIG-0", "1g.10gb+me", 7, 0, 9728),
    gpu_instance=7,
)
AROUND = Surroundings(
    driver_version="580.159.04", cuda_version=(13, 0), root_of={FACTS.pci: "pci0000:00"}.get
)


def test_a_gpu_has_the_attributes_of_nvidias_driver() -> None:
    (entry,) = entries(offered([GPU]), AROUND, unhealthy={}).devices
    assert entry == {
        "name": "gpu-0",
        "attributes": {
            "architecture": {"string": "Hopper"},
            "brand": {"string": "Nvidia"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "cudaDriverVersion": {"version": "13.0.0"},
            "driverVersion": {"version": "580.159.4"},
            "index": {"int": 0},
            "migEnabled": {"bool": False},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "resource.kubernetes.io/numaNode": {"int": 1},
            "resource.kubernetes.io/pciBusID": {"string": "0000:07:00.0"},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
            "type": {"string": "gpu"},
            "uuid": {"string": "GPU-0"},
        },
        "capacity": {"memory": {"value": str(81559 * 2**20)}},
    }


def test_of_a_partitioned_gpu_its_parts_are_offered() -> None:
    whole = msgspec.structs.replace(GPU, partitioned=True)
    gone = msgspec.structs.replace(PART, gone=True, part=MigFacts("MIG-1", "1g.10gb", 8, 0, 9728))
    found = offered([whole, PART, gone])
    assert list(found) == ["gpu-0-mig-1g-10gb-me-7"]
    (entry,) = entries(found, AROUND, unhealthy={}).devices
    attributes = entry["attributes"]
    assert attributes["profile"] == {"string": "1g.10gb+me"}
    assert attributes["parentUUID"] == {"string": "GPU-0"}
    assert attributes["type"] == {"string": "mig"}


def test_what_has_a_name_now_is_offered_by_it_whoever_had_it_before() -> None:
    """A MIG device that is cut again at the same place; a GPU with the number of one that is lost."""
    cut_before = msgspec.structs.replace(
        PART, published=msgspec.structs.replace(PART.published, uuid="MIG-earlier"), gone=True
    )
    lost = msgspec.structs.replace(
        GPU, published=msgspec.structs.replace(GPU.published, uuid="GPU-lost"), listed=False
    )
    assert [one.uuid for one in offered([PART, cut_before]).values()] == ["MIG-0"]
    assert [one.uuid for one in offered([GPU, lost]).values()] == ["GPU-0"]


class Lab:
    """A publisher and its API server, of which a test says whether it knows taints."""

    def __init__(self, server: type[FakeKube] = FakeKube) -> None:
        self.clock = FakeClock(self_advancing=True)
        self.kube = server(self.clock)
        self.kube.put(NODES, {"metadata": {"name": NODE}})
        self.unhealthy: dict[str, str] = {}
        self.shares: dict[str, int] = {}
        self.count = 1
        self.publisher = SlicePublisher(
            self.kube, node=NODE, driver=names.DRA_DRIVER, wanted=self._wanted, clock=self.clock
        )

    def _wanted(self, stored: Stored) -> Published:
        devices = {
            f"gpu-{n}": msgspec.structs.replace(
                GPU, published=msgspec.structs.replace(GPU.published, uuid=f"GPU-{n}")
            )
            for n in range(self.count)
        }
        shares = self.shares if stored.shares else {}
        return entries(devices, AROUND, unhealthy=self.unhealthy, with_taints=stored.taints, shares=shares)

    def turn(self) -> list[dict[str, Any]]:
        """The slices after one look of the publisher."""
        self.publisher.once()
        found = sorted(self.kube.list(RESOURCE_SLICES).items, key=lambda one: one.metadata.name)
        return [msgspec.to_builtins(one.spec) for one in found]


def test_nothing_is_written_while_nothing_changes() -> None:
    lab = Lab()
    (first,) = lab.turn()
    assert first["pool"]["generation"] == 1
    assert lab.turn() == [first]
    lab.unhealthy = {"GPU-0": "sick"}
    (second,) = lab.turn()
    assert second["pool"]["generation"] == 2
    assert second["devices"][0]["taints"] == [
        {"key": claim_names.UNHEALTHY_TAINT, "value": "sick", "effect": "NoSchedule"}
    ]


def test_a_gpu_is_offered_in_shares_of_what_can_be_shared_and_alone_to_who_names_no_amount() -> None:
    lab = Lab()
    lab.shares = {"GPU-0": 80000}
    (found,) = lab.turn()
    (device,) = found["devices"]
    assert device["allowMultipleAllocations"] is True
    memory = device["capacity"]["memory"]
    assert int(memory["value"]) == 80000 * 2**20
    policy = memory["requestPolicy"]
    assert parse_amount(policy["default"]) == int(memory["value"])
    least, step = (parse_amount(policy["validRange"][name]) for name in ("min", "step"))
    assert (parse_amount(policy["default"]) - least) % step == 0, "the API server refuses it otherwise"


def test_amounts_in_the_api_servers_spelling_are_no_news() -> None:
    lab = Lab()
    lab.shares = {"GPU-0": 80000}
    (found,) = lab.turn()
    (stored,) = lab.kube.list(RESOURCE_SLICES).items
    found["devices"][0]["capacity"]["memory"]["value"] = "83886080k"
    lab.kube.patch(RESOURCE_SLICES, stored.metadata.name, {"spec": found})
    (after,) = lab.turn()
    assert after["pool"]["generation"] == found["pool"]["generation"]


class OldServer(FakeKube):
    """An API server without the gate DRAConsumableCapacity: it drops what it does not know."""

    def create(self, resource: Any, body: Any, **more: Any) -> Any:
        return super().create(resource, self._dropped(body), **more)

    def patch(self, resource: Any, name: str, body: Any, **more: Any) -> Any:
        return super().patch(resource, name, self._dropped(body), **more)

    @staticmethod
    def _dropped(body: Any) -> Any:
        stored = deepcopy(body)
        for device in stored["spec"]["devices"]:
            device.pop("allowMultipleAllocations", None)
            device["capacity"]["memory"].pop("requestPolicy", None)
        return stored


def test_where_the_api_server_knows_no_shares_the_gpu_is_given_whole_with_all_its_memory() -> None:
    lab = Lab(OldServer)
    lab.shares = {"GPU-0": 80000}
    lab.turn()
    (second,) = lab.turn()
    assert second["devices"][0]["capacity"] == {"memory": {"value": str(81559 * 2**20)}}
    assert lab.turn() == [second]


def test_many_devices_come_in_several_slices_of_one_generation() -> None:
    lab = Lab()
    lab.count = MOST + 1
    found = lab.turn()
    assert [len(one["devices"]) for one in found] == [MOST, 1]
    assert {one["pool"]["resourceSliceCount"] for one in found} == {2}
    lab.count = 1
    (one,) = lab.turn()
    assert (one["pool"]["generation"], one["pool"]["resourceSliceCount"]) == (2, 1)


def test_slices_that_the_kubelet_has_deleted_come_again() -> None:
    lab = Lab()
    lab.turn()
    (name,) = [one.metadata.name for one in lab.kube.list(RESOURCE_SLICES).items]
    lab.kube.delete(RESOURCE_SLICES, name)
    assert len(lab.turn()) == 1


class Looking(Lab):
    """Counts how often the publisher looks, and stops it then."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.stop, self.looks = most, threading.Event(), list[float]()

    def _wanted(self, stored: Stored) -> Published:
        self.looks.append(self.clock.monotonic())
        if len(self.looks) == self.most:
            self.stop.set()
        return super()._wanted(stored)


def test_slices_that_the_kubelet_deletes_after_it_has_registered_the_driver_are_soon_back() -> None:
    lab = Looking(5)
    lab.publisher.registered()
    lab.publisher.run(lab.stop)
    assert lab.looks[-1] - lab.looks[0] < READ_EVERY


def test_beside_another_driver_of_the_name_nothing_is_published() -> None:
    lab = Lab()
    spec = {"driver": names.DRA_DRIVER, "nodeName": NODE, "pool": {"name": NODE, "generation": 7}}
    lab.kube.put(RESOURCE_SLICES, {"metadata": {"name": "foreign"}, "spec": spec})
    assert len(lab.turn()) == 1
    assert "foreign" in (lab.publisher.problem or "")
    lab.kube.delete(RESOURCE_SLICES, "foreign")
    lab.turn()
    assert lab.publisher.problem is None


@pytest.mark.parametrize("count", [0, 1, MOST, 3 * MOST])
def test_parts_have_every_device_once(count: int) -> None:
    found = tuple({"name": str(n)} for n in range(count))
    cut = parts(Published(devices=found))
    assert [one for part in cut.values() for one in part["devices"]] == list(found)
