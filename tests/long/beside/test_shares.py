"""Shares on a node whose GPUs another plugin gives out: real kubelets, checkpoints and policies."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from cluster import dialect_names, names
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod, is_live
from cluster.objects.reservation_pods import reservation_of
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.fakenvml.specs import A100_80GB, gpu
from devcluster.product import booking_controller
from devcluster.spec import ClusterSpec, NodeSpec
from deviceplugin.kubelet.checkpoint import CheckpointFile
from tests.clusters import own
from tests.e2e.playground import Playground
from tests.laws.live import LiveWatch, checkpoints_of
from tests.long.beside.conftest import Sharing, start_standin

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

NODE, GPUS, HALF = "node-a", 2, 40_000
"""MiB: two such shares and no more are on one GPU."""


@dataclass(frozen=True)
class Bed:
    cluster: Cluster
    ground: Playground

    def share(self, name: str) -> str:
        container = probe.container("main", gpus=1)
        container["resources"]["limits"][names.GPU_MEMORY] = str(HALF)
        return self.ground.create(probe.pod(name, [container]))

    def seen(self, name: str) -> str:
        sight = probe.read_sight(self.cluster.kubectl, namespace=self.ground.namespace, name=name)
        assert sight is not None
        return sight.env[names.VISIBLE_DEVICES_VARIABLE]

    def reservations(self) -> dict[str, Pod]:
        """UUID of an open GPU -> its reservation pod."""
        kube = administrator(self.cluster)
        pods = [pod for pod in kube.list(PODS).items if reservation_of(pod)]
        return {pod.metadata.annotation(names.OPENED) or pod.metadata.name: pod for pod in pods}

    def given(self, pod: Pod) -> frozenset[str]:
        """What the kubelet's own record says."""
        folder = checkpoints_of(self.cluster)[NODE]
        return CheckpointFile(folder, names.GPU_RESOURCE).read().of(pod.metadata.uid)


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    gpus = tuple(gpu(A100_80GB, index, node=NODE) for index in range(GPUS))
    spec = ClusterSpec(name=own("opened"), nodes=(NodeSpec(name=NODE, gpus=gpus),))
    with Cluster.start(spec) as cluster:
        start_standin(cluster, NODE)
        with LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster)) as laws:
            Sharing(cluster).begin()
            cluster.kubectl("create", "namespace", "shares")
            ground = Playground(administrator(cluster), cluster.kubectl, namespace="shares", laws=laws)
            yield Bed(cluster, ground)
            laws.check()


def test_gpus_are_opened_for_shares_seen_by_their_pods_and_closed_after_the_last(bed: Bed) -> None:
    ground = bed.ground
    first = [bed.share(f"share-{n}") for n in range(2)]
    ground.await_phase(first)
    ((uuid, pod),) = bed.reservations().items()
    assert {bed.seen(name) for name in first} == {uuid}
    assert bed.given(pod) == {uuid}
    assert pod.metadata.annotation(dialect_names.KAI_RESERVED) == uuid

    third = bed.share("share-2")
    ground.await_phase([third])
    (other,) = bed.reservations().keys() - {uuid}
    assert bed.seen(third) == other
    whole = ground.simple("whole")
    assert ground.await_waiting(whole)

    bed.cluster.daemon(booking_controller.NAME).kill()
    for name in first:
        ground.delete(name)
    bed.cluster.daemon(booking_controller.NAME).restart()
    ground.await_that("the first GPU is closed", lambda: uuid not in bed.reservations())
    ground.await_phase([whole])
    assert bed.given(ground.pod(whole)) == {uuid}
    assert all(is_live(one) for one in bed.reservations().values())
    ground.delete(third)
    ground.await_that("no GPU is open", lambda: not bed.reservations())


def test_nobody_else_makes_a_reservation_pod(bed: Bed) -> None:
    body = probe.pod("forged", [probe.container("main", gpus=1)])
    body["metadata"]["annotations"][names.RESERVES] = f"{NODE}-0"
    body["spec"]["priorityClassName"] = names.RESERVATION_CLASS
    name = bed.ground.create(body)
    forged = bed.ground.pod(name)
    assert reservation_of(forged) is None
    assert forged.spec.priority_class_name == names.OPPORTUNISTIC_CLASS
    bed.ground.delete(name)
