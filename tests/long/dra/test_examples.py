"""Every claim of docs/examples: on a node with eight GPUs and one with MIG devices, claims being bookable."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from cluster import names
from cluster.kube.resources import RESOURCE_SLICES
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.daemons import Daemon
from devcluster.demo.access import administrator
from devcluster.errors import ClusterError
from devcluster.fakenvml import A100_80GB, RTX_A6000, MigSpec, capabilities, gpu, mig
from devcluster.paths import CHECKOUT
from devcluster.product import Parts
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.e2e.playground import HOSTNAME, Playground
from tests.e2e.usual import CONTROLLER, POLICY
from tests.laws.live import LiveWatch, checkpoints_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

FILES = sorted((CHECKOUT / "docs" / "examples").glob("claims*.yaml"))
EIGHT, PARTS = "node-a", "node-b"
GPUS = {
    EIGHT: [*[A100_80GB] * 4, *[RTX_A6000] * 4],
    PARTS: [A100_80GB] * 3,
}
PROFILES = (("3g.40gb", "1g.10gb"), ("3g.40gb", "3g.40gb"))
"""Of the first two GPUs of the second node; only one of them has a pair."""
PUBLISHED = {EIGHT: 8, PARTS: 5}
GIB: Final = 2**30

Json = dict[str, Any]
Device = Mapping[str, Any]
"""A device of a ResourceSlice: its attributes, its memory in bytes, its node and its name."""
Given = Mapping[str, tuple[Device, ...]]
"""Container -> its devices, by the allocation of the pod's claims."""


class ByClaims(Parts):
    """All nodes give their GPUs by claims."""

    def start_agent(self, node: str, **how: Any) -> Daemon:
        """Start a node agent."""
        settings = {names.setting("device_plugin"): "dra", names.setting("mig_strategy"): "mixed"}
        return super().start_agent(node, settings=settings, **how)


@dataclass(frozen=True)
class Bed:
    cluster: Cluster
    parts: Parts
    ground: Playground
    pieces: Mapping[tuple[int, int], MigSpec]
    """(GPU, GPU instance) -> a MIG device of the second node."""

    def read(self, kind: str, name: str) -> Json:
        text = self.cluster.kubectl("get", kind, name, "-n", self.ground.namespace, "-o", "json")
        found: Json = json.loads(text)
        return found

    def devices(self) -> dict[tuple[str, str], Device]:
        """(Node, name) -> device."""
        slices = self.ground.kube.list(RESOURCE_SLICES).items
        return {
            (one.spec.node_name, device["name"]): {
                **{key: next(iter(value.values())) for key, value in device["attributes"].items()},
                "memory": int(device["capacity"]["memory"]["value"]),
                "node": one.spec.node_name,
                "name": device["name"],
            }
            for one in slices
            for device in one.spec.devices
        }

    def await_published(self) -> None:
        """Wait for all devices as they are in the beginning."""

        def published() -> bool:
            return Counter(node for node, _ in self.devices()) == PUBLISHED

        self.ground.await_that("all devices are published", lambda: published() or None)

    def await_uuids(self, wanted: set[str]) -> None:
        """Wait for these devices among those that are published."""

        def published() -> bool:
            return wanted <= {device["uuid"] for device in self.devices().values()}

        self.ground.await_that(f"{wanted} are published", lambda: published() or None)

    def claims(self, pod: Json) -> dict[str, Json]:
        """What the pod calls it -> the claim."""
        statuses = pod["status"].get("resourceClaimStatuses", ())
        made = {one["name"]: one["resourceClaimName"] for one in statuses}
        return {
            one["name"]: self.read("resourceclaim", one.get("resourceClaimName") or made[one["name"]])
            for one in pod["spec"]["resourceClaims"]
        }

    def given(self, name: str) -> Given:
        """What each container should see."""
        pod, known = self.read("pod", name), self.devices()
        results = {
            called: claim["status"]["allocation"]["devices"]["results"]
            for called, claim in self.claims(pod).items()
        }
        return {
            container["name"]: tuple(
                known[one["pool"], one["device"]]
                for reference in container["resources"]["claims"]
                for one in results[reference["name"]]
                if reference.get("request", "") in {"", one["request"], one["request"].partition("/")[0]}
            )
            for container in pod["spec"]["containers"]
        }

    def check_sight(self, name: str, container: str, devices: tuple[Device, ...]) -> None:
        """The container has the device nodes of these devices, and of no others."""
        seen = probe.read_sight(
            self.cluster.kubectl, namespace=self.ground.namespace, name=name, container_name=container
        )
        assert seen is not None
        minors, access = set[int](), set[str]()
        for device in devices:
            number = int(device["name"].split("-")[1])
            minors.add(number)
            if device["type"] == "mig":
                instance = int(device["name"].rpartition("-")[2])
                piece = self.pieces[number, instance]
                assert piece.uuid == device["uuid"]
                access |= {
                    f"/dev/{capabilities.FOLDER}/nvidia-cap{capabilities.number(number, *path)}"
                    for path in ((piece.gi,), (piece.gi, piece.ci))
                }
        assert set(seen.gpu_minors) == minors, f"{name}/{container}"
        assert {one.path for one in seen.devices if capabilities.FOLDER in one.path} == access

    def apply(self, body: Json) -> None:
        """An object of an example, with an image that prints what it sees."""
        if body["kind"] == "Pod":
            for container in body["spec"]["containers"]:
                container |= {"image": probe.IMAGE, "imagePullPolicy": "Never"}
        self.ground.apply(body)

    def remove(self, bodies: list[Json]) -> None:
        self.ground.clear()
        others = {
            "apiVersion": "v1",
            "kind": "List",
            "items": [one for one in bodies if one["kind"] != "Pod"],
        }
        delete = ("delete", "--namespace", self.ground.namespace, "--filename", "-")
        self.cluster.kubectl(*delete, given=json.dumps(others))


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    nodes = tuple(
        NodeSpec(name=name, gpus=tuple(gpu(one, index, node=name) for index, one in enumerate(models)))
        for name, models in GPUS.items()
    )
    with Cluster.start(ClusterSpec(name=own("claims"), nodes=nodes)) as cluster:
        parts = ByClaims(cluster, claims=True)
        pieces: dict[tuple[int, int], MigSpec] = {}
        for number, profiles in enumerate(PROFILES):
            made = mig(nodes[1].gpus[number], profiles)
            parts.fake_nvml(PARTS).mig(number, made)
            pieces |= {(number, piece.gi): piece for piece in made}
        watch = LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster), claims=True)
        with watch as laws:
            parts.deploy(server=POLICY, controller=CONTROLLER)
            cluster.kubectl("create", "namespace", "examples")
            ground = Playground(administrator(cluster), cluster.kubectl, namespace="examples", laws=laws)
            found = Bed(cluster, parts, ground, pieces)
            found.await_published()
            yield found
            laws.check()


def one_device(given: Given) -> Device:
    """The device that all containers of a pod have."""
    (device,) = {one["uuid"]: one for devices in given.values() for one in devices}.values()
    assert all(devices == (device,) for devices in given.values())
    return device


def is_eight(given: Given) -> bool:
    devices = given["main"]
    return {one["node"] for one in devices} == {EIGHT} and len({one["uuid"] for one in devices}) == 8


def is_medium(given: Given) -> bool:
    device = one_device(given)
    return "A100" in device["productName"] and 40 * GIB <= device["memory"] <= 100 * GIB


def is_two_models(given: Given) -> bool:
    ((train,), (draw,)) = given["train"], given["draw"]
    return "A100" in train["productName"] and draw["memory"] < 60 * GIB and train["node"] == draw["node"]


def is_pair(given: Given) -> bool:
    ((one,), (other,)) = given["ctr0"], given["ctr1"]
    are_two = one["uuid"] != other["uuid"] and one["profile"] == other["profile"] == "3g.40gb"
    return are_two and one["parentUUID"] == other["parentUUID"]


def is_large(given: Given) -> bool:
    return one_device(given)["memory"] >= 60 * GIB


WANTED: Mapping[str, Callable[[Given], bool]] = {
    "two-containers": lambda given: len(given) == 2 and is_large(given),
    "shares-1": lambda given: one_device(given)["type"] == "gpu",
    "shares-2": lambda given: one_device(given)["type"] == "gpu",
    "two-small": lambda given: [one["memory"] < 60 * GIB for one in given["main"]] == [True, True],
    "two-claims": lambda given: len({one["uuid"] for one in given["main"]}) == 2,
    "eight-gpus": is_eight,
    "medium-a100": is_medium,
    "two-models": is_two_models,
    "without-mig": lambda given: one_device(given)["migEnabled"] is False,
    "with-mig": lambda given: one_device(given)["migEnabled"] is True,
    "mig-pair": is_pair,
    "by-class": lambda given: len(given) == 2 and is_large(given),
    "own-configuration": is_large,
}
"""Pod -> whether it was given what its claim asks for."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_containers_of_an_example_see_exactly_what_was_allocated(bed: Bed, path: Path) -> None:
    bodies = list(yaml.safe_load_all(path.read_text()))
    for body in bodies:
        bed.apply(body)
    pods = [body["metadata"]["name"] for body in bodies if body["kind"] == "Pod"]
    bed.ground.await_phase(pods)
    given = {name: bed.given(name) for name in pods}
    for name, containers in given.items():
        for container, devices in containers.items():
            bed.check_sight(name, container, devices)
        assert WANTED[name](containers), (name, containers)
    if "shares-1" in given:
        assert given["shares-1"] == given["shares-2"], "one claim is one device"
    bed.ground.laws.check()
    bed.remove(bodies)


def template(name: str, asks: Json, **more: Any) -> Json:
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": asks}], **more}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": spec},
    }


def claiming(name: str, **more: Any) -> Json:
    container = probe.container("main") | {"resources": {"claims": [{"name": "gpu"}]}}
    extra = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}], **more}
    return {"apiVersion": "v1", "kind": "Pod", **probe.pod(name, [container], extra=extra)}


def test_what_waits_for_a_real_gpu_is_refused_with_a_sentence(bed: Bed) -> None:
    sharing = {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 50}}
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": sharing}
    config = [{"requests": ["gpu"], "opaque": {"driver": names.DRA_DRIVER, "parameters": parameters}}]
    unmade = {"cel": {"expression": f"device.attributes['{names.DRA_DRIVER}'].profile == '7g.80gb'"}}
    bodies = [
        template("mps", {"deviceClassName": names.DRA_DRIVER}, config=config),
        claiming("mps"),
        template("dynamic-mig", {"deviceClassName": "mig.nvidia.com", "selectors": [unmade]}),
        claiming("dynamic-mig"),
    ]
    for body in bodies:
        bed.ground.apply(body)
    bed.ground.await_event("mps", f"{names.DRA_DRIVER} here gives no sharing by MPS with mpsConfig")
    assert "cannot allocate all claims" in bed.ground.await_waiting("dynamic-mig")
    assert bed.read("pod", "mps")["status"]["phase"] == "Pending"
    bed.remove(bodies)


def test_a_gpu_is_given_whole_only_after_the_last_claim_for_a_part_of_it(bed: Bed) -> None:
    """Somebody makes it whole although a container has a part: the driver allows it while none computes."""
    whole = {"deviceClassName": names.DRA_DRIVER, "count": 2}
    part = {"cel": {"expression": f"device.attributes['{names.DRA_DRIVER}'].profile == '1g.10gb'"}}
    bodies = [
        template("part", {"deviceClassName": "mig.nvidia.com", "selectors": [part]}),
        claiming("part"),
        template("whole", whole),
        claiming("whole", nodeSelector={HOSTNAME: PARTS}),
    ]
    for body in bodies[:2]:
        bed.ground.apply(body)
    bed.ground.await_phase(["part"])
    fake = bed.parts.fake_nvml(PARTS)
    fake.mig(0, ())
    bed.ground.await_that("GPU 0 is published", lambda: bed.devices().get((PARTS, "gpu-0")))
    for body in bodies[2:]:
        bed.ground.apply(body)
    bed.ground.await_waiting("whole")
    bed.ground.delete("part")
    bed.ground.await_phase(["whole"])
    bed.check_sight("whole", "main", bed.given("whole")["main"])
    bed.remove(bodies)
    cut = [piece for (number, _), piece in bed.pieces.items() if number == 0]
    for pieces in ([replace(one, uuid=f"{one.uuid}-again") for one in cut], cut):
        fake.mig(0, pieces)
        bed.await_uuids({one.uuid for one in pieces})
    bed.await_published()


def test_what_older_kubernetes_had_cannot_be_applied_any_more(bed: Bed) -> None:
    ours = {"resourceClassName": names.DRA_DRIVER}
    for kind, version, spec in (
        ("ResourceClaimTemplate", "resource.k8s.io/v1alpha1", {"spec": ours}),
        ("PodSchedulingContext", "resource.k8s.io/v1alpha2", {}),
        ("GpuClaimParameters", "gpu.resource.nvidia.com/v1alpha1", {"count": 8}),
    ):
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": "old"}, "spec": spec}
        with pytest.raises(ClusterError, match="no matches for kind"):
            bed.ground.apply(body)
