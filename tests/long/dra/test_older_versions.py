"""Kubernetes before claims can be booked: a pod has a GPU by a claim, and an ill one is given to nobody."""

from collections.abc import Iterator

import pytest

from cluster import names
from cluster.kube.resources import RESOURCE_SLICES
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.fakenvml import A100_80GB, gpu
from devcluster.product import Parts
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.e2e.playground import Playground
from tests.e2e.usual import CONTROLLER, POLICY
from tests.laws.live import LiveWatch, checkpoints_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]  # 1.34 may be built first

NODE = "node-a"
NOTHING, RESET = 0, 1
"""Recovery actions: what the driver asks for."""


@pytest.fixture(params=["1.34 itself", "1.34", "1.35", "1.36"])
def ground(request: pytest.FixtureRequest) -> Iterator[tuple[Parts, Playground]]:
    gpus = tuple(gpu(A100_80GB, number, node=NODE) for number in range(2))
    version, _, itself = request.param.partition(" ")
    name = own(f"claims{version.replace('.', '')}{itself[:1]}")
    way = {"kubernetes" if itself else "emulates": version}
    spec = ClusterSpec(name=name, nodes=(NodeSpec(name=NODE, gpus=gpus),), **way)
    with Cluster.start(spec) as cluster:
        parts = Parts(cluster)
        parts.deploy(server=POLICY, controller=CONTROLLER)
        parts.upgrade({"dra": {"enabled": True}})  # they cannot be booked
        with LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster)) as laws:
            cluster.kubectl("create", "namespace", "older")
            playground = Playground(administrator(cluster), cluster.kubectl, namespace="older", laws=laws)
            parts.agent(NODE).kill()
            playground.await_gpus(NODE, 0)
            parts.start_agent(NODE, name="agent-claims", settings={names.setting("device_plugin"): "dra"})
            yield parts, playground
            laws.check()


def claim(playground: Playground, name: str) -> None:
    exactly = [{"name": "gpu", "exactly": {"deviceClassName": names.DRA_DRIVER}}]
    template = {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": exactly}}}}
    playground.apply({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", **template})
    container = probe.container("main") | {"resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": name}]
    playground.create(probe.pod(name, [container], extra={"resourceClaims": claims}))


def gpus_of(playground: Playground, name: str) -> set[str]:
    """Paths of the GPUs' device nodes that the pod's container has."""
    seen = probe.read_sight(playground.kubectl, namespace=playground.namespace, name=name)
    assert seen is not None
    return {one.path for one in seen.devices if one.path.removeprefix("/dev/nvidia").isdecimal()}


def test_pods_have_gpus_by_claims_and_an_ill_one_is_not_given(ground: tuple[Parts, Playground]) -> None:
    parts, playground = ground
    fake = parts.fake_nvml(NODE)
    fake.recovery_action(0, RESET)
    fake.xid(0, 48)

    def usable() -> list[str]:
        slices = playground.kube.list(RESOURCE_SLICES).items
        return [device["name"] for one in slices for device in one.spec.devices if not device.get("taints")]

    playground.await_that("the ill GPU is not offered", lambda: usable() == ["gpu-1"])
    for name in ("first", "second"):
        claim(playground, name)
    playground.await_that(
        "one of them runs",
        lambda: [n for n in ("first", "second") if playground.pod(n).status.phase == "Running"],
    )
    runs, waits = sorted(
        ("first", "second"), key=lambda name: playground.pod(name).status.phase or "", reverse=True
    )
    assert gpus_of(playground, runs) == {"/dev/nvidia1"}
    assert not playground.pod(waits).spec.node_name
    fake.recovery_action(0, NOTHING)
    playground.await_phase([waits])
    assert gpus_of(playground, waits) == {"/dev/nvidia0"}
