"""What exists of a GPU has room in its counters, all of it at once; and how the counters are published."""

from collections import Counter
from copy import deepcopy
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.errors import Refusal, Request, Unprocessable
from cluster.kube.resources import NODES, RESOURCE_SLICES
from cluster.objects.inventory import Device
from demo.simulation.claim_counters import Counters
from deviceplugin.dra.counters import MOST_SETS, counted
from deviceplugin.dra.slice_publisher import SlicePublisher
from deviceplugin.dra.slices import CONSUMES, Published, Stored, Surroundings, entries, offered
from deviceplugin.nvml.interface import MigFacts, MigShape, Placement
from deviceplugin.nvml.inventory import NodeDevice

NODE, MIG = "node-a", "mig.nvidia.com"
MIG_TYPE = f"device.attributes['{names.DRA_DRIVER}'].type == 'mig'"


def part(gpu: int, instance: int, compute: int, placement: Placement | None, shape: MigShape) -> NodeDevice:
    """A MIG device of the GPU with this number."""
    uuid, profile = f"MIG-{gpu}-{instance}-{compute}", "1c.3g.40gb"
    return NodeDevice(
        published=Device(uuid=uuid, index=gpu, model="x", memory=40192, parent=f"GPU-{gpu}", profile=profile),
        minor=gpu,
        pci="0000:07:00.0",
        gpu_instance=instance,
        compute_instance=compute,
        part=MigFacts(uuid, profile, instance, compute, 40192, shape, placement),
    )


def instance(
    gpu: int, number: int, place: Placement | None, shape: MigShape, of: int = 1
) -> list[NodeDevice]:
    """A GPU instance that is divided into so many compute instances."""
    return [part(gpu, number, one, place, shape) for one in range(of)]


HALF = MigShape(processors=42, copy_engines=3, decoders=2)
PAIR = [*instance(0, 1, Placement(0, 4), HALF), *instance(0, 2, Placement(4, 4), HALF)]
THREE_IN_ONE = instance(0, 1, Placement(4, 4), MigShape(processors=14, copy_engines=3), of=3)


def published(devices: list[NodeDevice]) -> Published:
    return entries(offered(devices), Surroundings(), unhealthy={}, counters=counted(devices))


@st.composite
def gpus(draw: st.DrawFn) -> list[NodeDevice]:
    """Two GPUs with GPU instances side by side, each divided into compute instances."""
    found: list[NodeDevice] = []
    shapes = st.builds(MigShape, **dict.fromkeys(MigShape.__slots__, st.integers(0, 9)))
    for gpu in range(2):
        ends = sorted(draw(st.sets(st.integers(0, 8), min_size=2)))
        for number, (start, end) in enumerate(pairwise(ends)):
            place = Placement(start, end - start)
            found += instance(gpu, number, place, draw(shapes), of=draw(st.integers(1, 7)))
    return found


@given(gpus())
def test_all_devices_that_exist_have_room_together_and_no_more_than_the_gpu_has(
    devices: list[NodeDevice],
) -> None:
    found = published(devices)
    whole = msgspec.convert(
        {"spec": {"devices": found.devices, "sharedCounters": found.counter_sets}},
        RESOURCE_SLICES.type,
    )
    counters = Counters([whole], taken=())
    assert all(CONSUMES in one and counters.take(one) for one in found.devices)
    slices: Counter[tuple[str, int, str]] = Counter()
    for device in devices:
        (entry,) = (one for one in found.devices if one["attributes"]["uuid"]["string"] == device.uuid)
        (consumed,) = entry[CONSUMES]
        place = {name for name in consumed["counters"] if name.startswith("memory-slice-")}
        assert device.part is not None
        assert device.part.placement is not None
        assert place == {f"memory-slice-{number}" for number in device.part.placement.slices}
        slices.update({(consumed["counterSet"], device.gpu_instance or 0, name) for name in place})
    of_one = Counter((counter_set, name) for counter_set, _, name in slices)
    assert set(of_one.values()) == {1}, "GPU instances have no slice in common"


@pytest.mark.parametrize("other", [None, Placement(3, 2)], ids=["unknown", "over another"])
def test_without_a_place_for_each_instance_a_gpu_has_no_counters(other: Placement | None) -> None:
    devices = [*instance(0, 1, Placement(0, 4), HALF), *instance(0, 2, other, HALF)]
    elsewhere = instance(1, 1, Placement(0, 4), HALF)
    found = published([*devices, *elsewhere])
    assert [CONSUMES in one for one in found.devices] == [False, False, True]
    assert [one["name"] for one in found.counter_sets] == ["gpu-1-counter-set"]


def test_compute_instances_of_one_gpu_instance_are_devices_of_their_own_and_share_its_slices() -> None:
    found = published(THREE_IN_ONE)
    assert len(found.devices) == 3
    (first,) = found.devices[0][CONSUMES]
    assert first["counters"] == {
        **{f"memory-slice-{number}": {"value": "333m"} for number in range(4, 8)},
        "copy-engines": {"value": "1"},
        "memory": {"value": str(40192 * 2**20 // 3)},
        "multiprocessors": {"value": "14"},
    }
    (counters,) = (one["counters"] for one in found.counter_sets)
    assert counters["memory-slice-7"] == {"value": "1"}
    assert counters["multiprocessors"] == {"value": "42"}


class Lab:
    """The publisher of a node that has these devices, and its API server."""

    def __init__(self, devices: list[NodeDevice], server: type[FakeKube] = FakeKube) -> None:
        self.devices, clock = devices, FakeClock(self_advancing=True)
        self.kube = server(clock)
        self.kube.put(NODES, {"metadata": {"name": NODE}})
        self.publisher = SlicePublisher(
            self.kube, node=NODE, driver=names.DRA_DRIVER, wanted=self._wanted, clock=clock
        )

    def _wanted(self, stored: Stored) -> Published:
        counters = counted(self.devices) if stored.counters else None
        return entries(offered(self.devices), Surroundings(), unhealthy={}, counters=counters)

    def turn(self) -> dict[str, Any]:
        """Name -> content of each slice after one look of the publisher."""
        self.publisher.once()
        found = self.kube.list(RESOURCE_SLICES).items
        return {one.metadata.name: msgspec.to_builtins(one.spec) for one in found}

    def settled(self) -> dict[str, Any]:
        """The same once nothing is written any more."""
        before = self.turn()
        for _ in range(3):
            if (after := self.turn()) == before:
                return after
            before = after
        raise AssertionError("The slices are written again and again.")


def test_counters_are_in_slices_of_their_own_and_are_written_once() -> None:
    devices = [one for gpu in range(MOST_SETS + 1) for one in instance(gpu, 1, Placement(0, 8), HALF)]
    lab = Lab(devices)
    found = lab.turn()
    assert sorted(
        (len(one.get("devices", ())), len(one.get("sharedCounters", ()))) for one in found.values()
    ) == [(0, 1), (0, MOST_SETS), (MOST_SETS + 1, 0)]
    assert {one["pool"]["resourceSliceCount"] for one in found.values()} == {3}
    for name, one in found.items():
        spelled = deepcopy(one)
        for each in spelled.get("sharedCounters", ()):
            each["counters"]["memory"]["value"] = f"{40192 * 1024}Ki"
        lab.kube.patch(RESOURCE_SLICES, name, {"spec": spelled})
    assert {one["pool"]["generation"] for one in lab.turn().values()} == {1}


def test_a_gpu_that_is_whole_again_leaves_no_counters() -> None:
    lab = Lab(PAIR)
    lab.turn()
    lab.devices = []
    (left,) = lab.turn().values()
    assert (left["pool"]["generation"], left["pool"]["resourceSliceCount"]) == (2, 1)


class Older(FakeKube):
    """An API server with the gate DRAPartitionableDevices off: it drops what it does not know."""

    def create(self, resource: Any, body: Any, **more: Any) -> Any:
        return super().create(resource, self.stored(body), **more)

    def patch(self, resource: Any, name: str, body: Any, **more: Any) -> Any:
        return super().patch(resource, name, self.stored(body), **more)

    def stored(self, body: Any) -> Any:
        found = deepcopy(body)
        found["spec"].pop("sharedCounters", None)
        for device in found["spec"].get("devices", ()):
            device.pop(CONSUMES, None)
        return found


class Refusing(Older):
    """An API server of 1.34 with that gate on: a slice's devices consume counters of the same slice only."""

    def stored(self, body: Any) -> Any:
        if any(CONSUMES in device for device in body["spec"].get("devices", ())):
            why = "spec.devices[0].consumesCounters[0].counterSet: not found"
            raise Unprocessable(Request("POST", "resourceslices"), Refusal(422, "Invalid", why))
        return body


@pytest.mark.parametrize("server", [Older, Refusing])
def test_where_the_api_server_stores_no_counters_the_devices_are_a_whole_pool_without_them(
    server: type[FakeKube],
) -> None:
    (found,) = Lab(PAIR, server).settled().values()
    assert len(found["devices"]) == 2
    assert not any(CONSUMES in one for one in found["devices"])
    assert found["pool"]["resourceSliceCount"] == 1
