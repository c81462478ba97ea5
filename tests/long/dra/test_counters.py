"""MIG devices with shared counters: all that exist can be had at once, also where none are stored (1.34)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest

from cluster import names
from cluster.kube.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from cluster.objects.claims import ResourceSlice
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.fakenvml import A100_80GB, MigSpec, capabilities, gpu, mig, split
from devcluster.product import Parts
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.e2e.playground import Playground
from tests.e2e.usual import CONTROLLER, POLICY
from tests.laws.live import LiveWatch, checkpoints_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

NODE, MIG = "node-a", "mig.nvidia.com"
SETTINGS: Final = {names.setting("device_plugin"): "dra", names.setting("mig_strategy"): "mixed"}
COUNTER_SETS: Final = [f"gpu-{number}-counter-set" for number in range(2)]

Json = dict[str, Any]


@dataclass(frozen=True)
class Bed:
    parts: Parts
    ground: Playground
    pieces: Mapping[str, tuple[int, MigSpec]]
    """UUID -> number of the GPU, MIG device."""
    emulates: str

    def slices(self) -> tuple[ResourceSlice, ...]:
        return tuple(self.ground.kube.list(RESOURCE_SLICES).items)

    def devices(self) -> dict[str, Json]:
        """Name -> device, once the slices are one whole pool; else empty."""
        found = self.slices()
        pools = {(one.spec.pool.generation, one.spec.pool.resource_slice_count) for one in found}
        if [count for _, count in pools] != [len(found)]:
            return {}
        return {device["name"]: device for one in found for device in one.spec.devices}

    def await_settled(self, *, devices: int, counter_sets: list[str]) -> None:
        """So many devices are a whole pool with these sets of counters, where they are stored."""
        wanted = [] if self.emulates else counter_sets

        def settled() -> bool:
            sets = sorted(one["name"] for each in self.slices() for one in each.spec.shared_counters)
            return len(self.devices()) == devices and sets == wanted

        self.ground.await_that(f"{devices} devices, {wanted}", lambda: settled() or None)

    def claim(self, name: str, requests: list[Json], **more: Any) -> None:
        """A pod with a claim for these."""
        template = {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": requests, **more}}}}
        kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
        self.ground.apply({**kind, **template})
        container = probe.container("main") | {"resources": {"claims": [{"name": "gpu"}]}}
        claims = [{"name": "gpu", "resourceClaimTemplateName": name}]
        self.ground.create(probe.pod(name, [container], extra={"resourceClaims": claims}))

    def given(self) -> dict[str, list[str]]:
        """Pod -> UUIDs of the devices that its claim has."""
        known = self.devices()
        return {
            claim.metadata.controller.name: [
                known[one.device]["attributes"]["uuid"]["string"]
                for one in claim.status.allocation.devices.results
            ]
            for claim in self.ground.kube.list(RESOURCE_CLAIMS).items
            if claim.status.allocation and claim.metadata.controller
        }

    def check_sight(self, name: str, devices: list[str]) -> None:
        """The pod's container has what gives access to these devices, and to no others."""
        seen = probe.read_sight(self.ground.kubectl, namespace=self.ground.namespace, name=name)
        assert seen is not None
        access = {
            f"/dev/{capabilities.FOLDER}/nvidia-cap{capabilities.number(number, *path)}"
            for number, piece in (self.pieces[uuid] for uuid in devices)
            for path in ((piece.gi,), (piece.gi, piece.ci))
        }
        assert {one.path for one in seen.devices if capabilities.FOLDER in one.path} == access


@pytest.fixture(scope="module", params=["", "1.34"], ids=["newest", "emulates-1.34"])
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    emulates = request.param
    gpus = tuple(gpu(A100_80GB, number, node=NODE) for number in range(2))
    large, *small = mig(gpus[1], ["3g.40gb", *["1g.10gb"] * 4])
    cut = (mig(gpus[0], ["3g.40gb", "3g.40gb"]), (*split(large, 3), *small))
    spec = ClusterSpec(
        name=own(f"counters{emulates.replace('.', '')}"),
        nodes=(NodeSpec(name=NODE, gpus=gpus),),
        emulates=emulates,
    )
    with Cluster.start(spec) as cluster:
        parts = Parts(cluster, claims=not emulates)
        parts.deploy(server=POLICY, controller=CONTROLLER)
        if emulates:
            parts.upgrade({"dra": {"enabled": True}})  # they cannot be booked
        watch = LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster), claims=not emulates)
        with watch as laws:
            cluster.kubectl("create", "namespace", "counters")
            ground = Playground(administrator(cluster), cluster.kubectl, namespace="counters", laws=laws)
            parts.agent(NODE).kill()
            ground.await_gpus(NODE, 0)
            for number, pieces in enumerate(cut):
                parts.fake_nvml(NODE).mig(number, pieces)
            parts.start_agent(NODE, name="agent-claims", settings=SETTINGS)
            pieces_by_uuid = {one.uuid: (number, one) for number, each in enumerate(cut) for one in each}
            found = Bed(parts, ground, pieces_by_uuid, emulates)
            found.await_settled(devices=len(pieces_by_uuid), counter_sets=COUNTER_SETS)
            yield found
            laws.check()


def exactly(name: str, *expressions: str) -> Json:
    selectors = [{"cel": {"expression": one}} for one in expressions]
    return {"name": name, "exactly": {"deviceClassName": MIG, "selectors": selectors}}


def test_a_pair_and_then_all_mig_devices_of_a_node_at_once_have_room(bed: Bed) -> None:
    before = {one.spec.pool.generation for one in bed.slices()}
    for device in bed.devices().values():
        assert ("consumesCounters" in device) == (not bed.emulates), device["name"]
    half = f"device.attributes['{names.DRA_DRIVER}'].profile == '3g.40gb'"
    alike = {"requests": ["mig-0", "mig-1"], "matchAttribute": f"{names.DRA_DRIVER}/parentUUID"}
    bed.claim("pair", [exactly("mig-0", half), exactly("mig-1", half)], constraints=[alike])
    bed.ground.await_phase(["pair"])
    (pair,) = bed.given().values()
    assert {bed.pieces[uuid][0] for uuid in pair} == {0}
    bed.check_sight("pair", pair)

    pods = [f"one-{number}" for number in range(len(bed.pieces) - len(pair))]
    for name in pods:
        bed.claim(name, [exactly("mig")])
    bed.ground.await_phase(["pair", *pods])
    given = bed.given()
    assert sorted(uuid for devices in given.values() for uuid in devices) == sorted(bed.pieces)
    for name in pods:
        bed.check_sight(name, given[name])
    bed.claim("late", [exactly("mig")])
    bed.ground.await_waiting("late")
    bed.ground.delete(pods[0])
    bed.ground.await_phase(["late"])
    assert bed.given()["late"] == given[pods[0]]
    assert {one.spec.pool.generation for one in bed.slices()} == before, "nothing is written anew"
    bed.ground.clear()


def test_a_gpu_that_is_whole_again_has_no_counters_and_can_be_had(bed: Bed) -> None:
    fake = bed.parts.fake_nvml(NODE)
    fake.mig(1, ())
    bed.await_settled(devices=3, counter_sets=COUNTER_SETS[:1])
    request = {"name": "gpu", "exactly": {"deviceClassName": names.DRA_DRIVER}}
    bed.claim("whole", [request])
    bed.ground.await_phase(["whole"])
    assert "consumesCounters" not in bed.devices()["gpu-1"]
    bed.ground.clear()
    fake.mig(1, [piece for number, piece in bed.pieces.values() if number == 1])
    bed.await_settled(devices=len(bed.pieces), counter_sets=COUNTER_SETS)
