"""Nodes without a machine: kwok plays their kubelets, and we write what their node agents would write."""

import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from cluster import names
from cluster.kube.client import KubeClient
from cluster.kube.errors import NotFound
from cluster.kube.lease_writer import micro_time
from cluster.kube.resources import LEASES, NODES
from cluster.objects.inventory import Device, encode_inventory
from cluster.process.clock import SystemClock
from devcluster.binaries import ProgressLine, ensure_tool
from devcluster.binaries.pins import KWOK, NULL_EXTENDER
from devcluster.cluster import Cluster
from devcluster.components import kwok
from devcluster.wait import poll
from tests.fakes.objects import a100

GPUS: Final = 8
THREADS: Final = 8
RENEW_SECONDS: Final = 10.0
"""As often as node agents renew their Leases."""
_SECONDS: Final = 600.0


def node_names(count: int) -> list[str]:
    """Names of simulated nodes."""
    return [f"simulated-{number:04d}" for number in range(count)]


def program() -> Path:
    """The executable of kwok; if it is not in the cache, it is built first, which takes a minute or two."""
    return ensure_tool(KWOK, ProgressLine(sys.stderr, SystemClock())) / kwok.NAME


def null_extender() -> Path:
    """The executable of the null extender; built first if it is not in the cache."""
    return ensure_tool(NULL_EXTENDER, ProgressLine(sys.stderr, SystemClock())) / NULL_EXTENDER.name


def programs() -> None:
    """Build what a measurement of scheduling runs beside the cluster's own programs."""
    program()
    null_extender()


@contextmanager
def simulated(
    cluster: Cluster, kube: KubeClient, count: int, *, larger: Mapping[str, int] | None = None
) -> Iterator[list[str]]:
    """This many Ready nodes with eight GPUs and live agents, and the ``larger`` ones: name -> GPUs."""
    sizes = {**dict.fromkeys(node_names(count), GPUS), **(larger or {})}
    nodes, configuration = list(sizes), cluster.state / "kwok.yaml"
    configuration.write_text(kwok.configuration())
    argv = kwok.command(program(), kubeconfig=cluster.kubeconfig, configuration=configuration)
    daemon = cluster.spawn(kwok.NAME, argv)
    in_parallel([partial(kube.create, NODES, _node(name, gpus)) for name, gpus in sizes.items()])
    with _agents(kube, nodes):
        if not poll(lambda: _ready(cluster) == len(nodes), seconds=_SECONDS, every=0.5):
            ready = _ready(cluster)
            raise RuntimeError(f"Only {ready} of {len(nodes)} simulated nodes are Ready; see {daemon.log}.")
        yield nodes
    daemon.kill()


@contextmanager
def _agents(kube: KubeClient, nodes: list[str]) -> Iterator[None]:
    """Renew the Leases of their node agents, as those would."""
    stop, clock = threading.Event(), SystemClock()

    def renew() -> None:
        in_parallel([partial(_renew, kube, name) for name in nodes])

    def run() -> None:
        while not clock.wait(stop, RENEW_SECONDS):
            renew()

    renew()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def in_parallel(calls: list[Any]) -> None:
    """Make many API calls as fast as possible."""
    with ThreadPoolExecutor(THREADS) as pool:
        for future in [pool.submit(call) for call in calls]:
            future.result()


def _renew(kube: KubeClient, node: str) -> None:
    name, now = names.node_lease(node), micro_time(SystemClock().now())
    spec = {"renewTime": now, "holderIdentity": node, "leaseDurationSeconds": 30}
    try:
        kube.patch(LEASES, name, {"spec": spec}, namespace=names.NAMESPACE)
    except NotFound:
        kube.create(LEASES, {"metadata": {"name": name}, "spec": spec}, namespace=names.NAMESPACE)


def _ready(cluster: Cluster) -> int:
    path = '{range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'
    output = cluster.kubectl("get", "nodes", f"--selector={kwok.LABEL}=true", f"--output=jsonpath={path}")
    return output.split().count("True")


def _node(name: str, gpus: int) -> dict[str, Any]:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", names.GPU_RESOURCE: str(gpus)}
    described = _described([a100(index, name) for index in range(gpus)])
    labels = {kwok.LABEL: "true", "kubernetes.io/hostname": name, **described["labels"]}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": described["annotations"]},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def describe(kube: KubeClient, node: str, devices: Sequence[Device]) -> None:
    """Write devices on a node, in place of those that it had, as its agent would."""
    before = kube.get(NODES, node).metadata.labels or {}
    gone = {key: None for key in before if key.startswith(names.MODEL_LABEL)}
    described = _described(devices)
    kube.patch(NODES, node, {"metadata": {**described, "labels": gone | described["labels"]}})


def _described(devices: Sequence[Device]) -> dict[str, dict[str, str]]:
    models = Counter(f"{names.MODEL_LABEL}{device.model}" for device in devices)
    labels = {key: str(count) for key, count in models.items()} | {names.MODELS_LABELLED: str(len(devices))}
    return {"labels": labels, "annotations": {names.INVENTORY: encode_inventory(tuple(devices))}}
