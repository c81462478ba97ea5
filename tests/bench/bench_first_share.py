"""The first share on a node whose GPUs another plugin gives out: a reservation pod must open a GPU for it.

Until then no GPU of the node is open, so that each pod waits for a pod of ours, which is scheduled, gets a
GPU from the kubelet, and says which. In turns with a plain pod: one that the default scheduler binds to the
same node for a device of the stand-in for NVIDIA's plugin, under a resource that nobody else knows.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

from cluster import names
from cluster.kube.interface import Kube
from cluster.kube.resources import PODS
from cluster.objects.reservation_pods import reservation_of
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.fakenvml import A100_80GB, gpu
from devcluster.spec import ClusterSpec, NodeSpec
from devcluster.wait import poll
from tests.bench.bench_beside import ALONE, await_gpus
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.pods import PATIENCE, Ground, on_ground
from tests.bench.rows import Kind, Row, Target
from tests.bench.table import percentile
from tests.clusters import own
from tests.long.beside.conftest import Sharing, start_standin

NODE: Final = "node-a"
GPUS: Final = 2
PODS_COUNT: Final = 12
WARM_UP: Final = 2
SHARE_MIB: Final = 8192
_FLOOR: Final = "a plain pod with a GPU of the other plugin, default scheduler"
_RUNNING: Final = Kind(
    "first-share-running-p50",
    f"first share on a node of another plugin, its GPU opened by a reservation pod: created to Running, p50"
    f" of {PODS_COUNT}",
    "ms",
    _FLOOR,
)
_OVER: Final = Kind(
    "first-share-over-p50",
    "the same: how much later than the plain pod it runs",
    "ms",
    target=Target(value=1000),
)


def measure(_lab: Lab) -> Iterator[Row]:
    """All rows, on a cluster of its own."""
    gpus = tuple(gpu(A100_80GB, index, node=NODE) for index in range(GPUS))
    with Cluster.start(
        ClusterSpec(name=own("first-share"), nodes=(NodeSpec(name=NODE, gpus=gpus),))
    ) as cluster:
        start_standin(cluster, NODE, resources=(ALONE, names.GPU_RESOURCE))
        Sharing(cluster).begin()
        await_gpus(cluster, NODE, GPUS)
        with on_ground(cluster) as ground, closing(administrator(cluster)) as kube:
            shares, plain = _births(ground, kube)
    values = [1000 * percentile(found, 50) for found in (shares, plain)]
    yield _RUNNING.row(*values)
    yield _OVER.row(values[0] - values[1])


def _births(ground: Ground, kube: Kube) -> tuple[list[float], list[float]]:
    """Seconds until each pod ran: those with a share, and plain ones."""
    shares: list[float] = []
    plain: list[float] = []
    for number in range(WARM_UP + PODS_COUNT):
        for found, body in ((shares, _share(f"share-{number}")), (plain, _plain(f"plain-{number}"))):
            (birth,) = ground.bear(body)
            found.append(birth.running)
            if found is shares and not _is_open(kube):
                raise RuntimeError("A pod has a share, and no GPU was opened for it.")
            ground.remove(body["metadata"]["name"])
        _await_closed(kube)
    return shares[WARM_UP:], plain[WARM_UP:]


def _await_closed(kube: Kube) -> None:
    """Wait until no GPU is open: the next share is a first one again."""
    is_closed = poll(lambda: not any(map(reservation_of, kube.list(PODS).items)), seconds=PATIENCE, every=0.5)
    if not is_closed:
        raise RuntimeError(f"A GPU is still open {PATIENCE:.0f} s after the last pod that shared it.")


def _is_open(kube: Kube) -> bool:
    return any(map(reservation_of, kube.list(PODS).items))


def _share(name: str) -> dict[str, Any]:
    return _body(name, {names.GPU_RESOURCE: "1", names.GPU_MEMORY: str(SHARE_MIB)})


def _plain(name: str) -> dict[str, Any]:
    return _body(name, {ALONE: "1"}, schedulerName="default-scheduler")


def _body(name: str, limits: dict[str, str], **spec: Any) -> dict[str, Any]:
    there = {"nodeSelector": {"kubernetes.io/hostname": NODE}}
    body: dict[str, Any] = probe.pod(name, [probe.container("main")], extra=there | spec)
    body["spec"]["containers"][0]["resources"] = {"limits": limits}
    return body


MEASURE: Final = Measure("first-share", (_RUNNING, _OVER), measure, on_cluster=True)
