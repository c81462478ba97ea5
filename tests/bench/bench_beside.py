"""Each way to give out GPUs beside the other plugin alone: how soon a pod runs, and the agent's memory.

One node of each kind. The floor of a pod is one that the default scheduler binds to the same node for a
device of the stand-in for NVIDIA's plugin, under a resource that nobody else knows, in turns with ours.
"""

import json
import threading
from collections.abc import Iterator
from typing import Any, Final

from cluster import names
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.fakenvml import A100_80GB, gpu
from devcluster.spec import ClusterSpec, NodeSpec
from devcluster.wait import poll
from tests.bench import agent_image, bench_agent_memory
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.pods import PATIENCE, Birth, Ground, on_ground
from tests.bench.rows import Kind, Row
from tests.bench.table import percentile
from tests.clusters import own
from tests.e2e.persons import A100
from tests.long.beside.conftest import Beside, start_standin

GPUS: Final = 2
PODS: Final = 24
WARM_UP: Final = 2
PERCENTS: Final = (50, 95)
ALONE: Final = "example.com/alone"
"""What pods of the plugin alone ask for."""
NODES: Final = {
    "ours": "node-a",
    "existing": "node-b",
    "no-agent": "node-c",
}
"""Mode -> its node."""
_MODES: Final = {
    "ours": "our plugin",
    "existing": "beside another plugin, observed by the agent",
    "no-agent": "beside another plugin, without an agent",
}
_GFD: Final = {"product": A100, "memory": "81920", "count": str(GPUS)}
_LABELS: Final = {
    NODES["existing"]: {names.DEVICE_PLUGIN: "existing"},
    NODES["no-agent"]: {
        names.WITHOUT_AGENT: "true",
        **{f"{names.GPU_RESOURCE}.{key}": value for key, value in _GFD.items()},
    },
}
_TIMES: Final = {
    (mode, percent): Kind(
        f"beside-{mode}-running-p{percent}",
        f"pod with one GPU, {what}: created to Running, p{percent} of {PODS}",
        "ms",
        "the other plugin alone, default scheduler",
    )
    for percent in PERCENTS
    for mode, what in _MODES.items()
}
_MEMORY: Final = {
    mode: Kind(
        f"beside-{mode}-memory",
        f"agent, {_MODES[mode]}: resident memory a minute after its start, 8 GPUs",
        "MiB",
        "Python that has loaded grpc, protobuf and pynvml",
    )
    for mode in ("ours", "existing")
}


def measure(_lab: Lab) -> Iterator[Row]:
    """All rows, on a cluster of its own."""
    nodes = tuple(
        NodeSpec(
            name=name,
            gpus=tuple(gpu(A100_80GB, index, node=name) for index in range(GPUS)),
            labels=_LABELS.get(name, {}),
        )
        for name in NODES.values()
    )
    with Cluster.start(ClusterSpec(name=own("beside"), nodes=nodes)) as cluster:
        for mode, node in NODES.items():
            also = () if mode == "ours" else (names.GPU_RESOURCE,)
            start_standin(cluster, node, resources=(ALONE, *also))
        parts = Beside(cluster, whose="ours", without={NODES["no-agent"]})
        parts.begin()
        with on_ground(cluster) as ground:
            for mode, node in NODES.items():
                await_gpus(cluster, node, GPUS)
                yield from _running(ground, mode, node)
        for mode, kind in _MEMORY.items():
            folder = cluster.state / mode
            folder.mkdir()
            with bench_agent_memory.another_agent(parts, folder, NODES[mode]) as pid:
                SystemClock().wait(threading.Event(), bench_agent_memory.MINUTE)
                yield kind.row(bench_agent_memory.resident(pid), bench_agent_memory.floor())


def await_gpus(cluster: Cluster, node: str, gpus: int) -> None:
    """Wait until the kubelet has both resources."""
    wanted = {names.GPU_RESOURCE: str(gpus), ALONE: str(gpus)}

    def offered() -> bool:
        words = ("get", "node", node, "--output=jsonpath={.status.allocatable}")
        offers: dict[str, str] = json.loads(cluster.kubectl(*words))
        return wanted.items() <= offers.items()

    if not poll(offered, seconds=PATIENCE, every=0.5):
        raise RuntimeError(f"{node} does not offer its GPUs within {PATIENCE:.0f} s.")


def _running(ground: Ground, mode: str, node: str) -> Iterator[Row]:
    births: dict[str, list[Birth]] = {names.GPU_RESOURCE: [], ALONE: []}
    for number in range(WARM_UP + PODS):
        for resource in births:
            name = f"{mode}-{resource.partition('/')[2]}-{number}"
            births[resource] += ground.bear(_body(name, node, resource))
            ground.remove(name)
    ours, alone = (found[WARM_UP:] for found in births.values())
    for percent in PERCENTS:
        values = (1000 * percentile([birth.running for birth in found], percent) for found in (ours, alone))
        yield _TIMES[mode, percent].row(*values)


def _body(name: str, node: str, resource: str) -> dict[str, Any]:
    own_way = {} if resource == names.GPU_RESOURCE else {"schedulerName": "default-scheduler"}
    there = {"nodeSelector": {"kubernetes.io/hostname": node}}
    body: dict[str, Any] = probe.pod(name, [probe.container("main")], extra=there | own_way)
    body["spec"]["containers"][0]["resources"] = {"limits": {resource: "1"}}
    return body


MEASURE: Final = Measure(
    "beside", (*_TIMES.values(), *_MEMORY.values()), measure, on_cluster=True, prepare=agent_image.libraries
)
