"""Pods per second through the real kube-scheduler onto two real kubelets: with ours, the null extender, none.

Beside ours our node agents give the GPUs; beside the others the smallest possible plugin does, as nobody
chooses devices there. The pods wait for a volume that never appears, so that no container starts: what takes
the processors is kube-scheduler, extender, agents and kubelets.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any, Final, get_args

from cluster import names
from cluster.kube.resources import NODES, PODS
from cluster.objects.inventory import inventory_of
from cluster.process.clock import SystemClock
from devcluster.fakenvml import A100_80GB, FakeNvml, GpuSpec, gpu
from devcluster.paths import CHECKOUT
from devcluster.product import Parts
from devcluster.spec import NodeSpec
from devcluster.wait import poll
from tests.bench.arena import Arena, Asks, gpu_pod, real_arena
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.pods import NAMESPACE, PATIENCE
from tests.bench.rows import Kind, Row
from tests.bench.simulated import in_parallel, null_extender

HOSTS: Final = ("node-a", "node-b")
GPUS: Final = 24
"""Of each node."""
PODS_OF_A_TURN: Final = 40
WARM_UP: Final = 4
TURNS: Final = 3
_STATES: Final = {"bound": "created to bound", "started": "created to admitted by their kubelets"}
_FLOORS: Final = {
    "null": "the same with an extender that decides nothing",
    "none": "the same without an extender",
}
_RATES: Final = {
    (state, floor): Kind(
        f"kubelets-{state}-{floor}",
        f"pods with one GPU, {PODS_OF_A_TURN} at once on {len(HOSTS)} real nodes of {GPUS}: {what}",
        "pods/s",
        text,
    )
    for state, what in _STATES.items()
    for floor, text in _FLOORS.items()
}


def measure(_lab: Lab) -> Iterator[Row]:
    """In turns in one cluster."""
    specs = [NodeSpec(name=node, gpus=tuple(_gpu(node, index) for index in range(GPUS))) for node in HOSTS]
    with real_arena(*specs) as place:
        kubelets = _Kubelets(place)
        for _ in range(TURNS):
            for asks in get_args(Asks):
                kubelets.take(asks)
        for (state, floor), kind in _RATES.items():
            yield kind.row(*(median(kubelets.rates[state, way]) for way in ("ours", floor)))


def _gpu(node: str, index: int) -> GpuSpec:
    made = gpu(A100_80GB, index % 8, node=f"{node}-{index // 8}")
    return replace(made, minor=index, pci=f"{index // 8:08X}:{0x07 + 0x10 * (index % 8):02X}:00.0")


@dataclass
class _Kubelets:
    """The ways, one after the other on the same nodes."""

    arena: Arena
    rates: dict[tuple[str, str], list[float]] = field(default_factory=dict, init=False)
    """(state, way) -> pods per second until the last pod had it, one per turn."""
    _turn: int = field(default=0, init=False)
    _clock: SystemClock = field(default_factory=SystemClock, init=False)

    def __post_init__(self) -> None:
        self._parts = Parts(self.arena.cluster)

    def take(self, asks: Asks) -> None:
        """One turn with this extender."""
        self._turn += 1
        with self._plugins(ours=asks == "ours"), self.arena.scheduling(asks=asks):
            self._play(f"warm-{self._turn}", WARM_UP)
            begin = self._clock.monotonic()
            seen = self._play(f"pod-{self._turn}", PODS_OF_A_TURN)
        for state in _STATES:
            self.rates.setdefault((state, asks), []).append(PODS_OF_A_TURN / (seen[state] - begin))

    def _play(self, prefix: str, count: int) -> dict[str, float]:
        """State -> when the last of these pods had it; they are removed as a user would."""
        pods = [f"{prefix}-{number}" for number in range(count)]
        self.arena.create(_pod(name) for name in pods)
        seen = {state: max(self.arena.sightings.at(name, state) for name in pods) for state in _STATES}
        kube, sightings = self.arena.kube, self.arena.sightings
        in_parallel([partial(kube.delete, PODS, name, namespace=NAMESPACE) for name in pods])
        for name in pods:
            sightings.at(name, "gone")
        return seen

    @contextmanager
    def _plugins(self, *, ours: bool) -> Iterator[None]:
        """While it lasts, each node's GPUs are offered."""
        with ExitStack() as stack:
            _await("no plugin is left", lambda: all(self._offered(node) == 0 for node in HOSTS))
            for node in HOSTS:
                daemon = self._agent(node) if ours else self._bare(node)
                stack.callback(daemon.kill)
            _await("all GPUs are offered", lambda: all(self._offered(node) == GPUS for node in HOSTS))
            if ours:
                _await("agents tell of GPUs", lambda: all(self._told(node) == GPUS for node in HOSTS))
            yield

    def _agent(self, node: str) -> Any:
        return self._parts.start_agent(node, name=f"agent-{self._turn}")

    def _bare(self, node: str) -> Any:
        cluster = self.arena.cluster
        uuids: Sequence[str] = FakeNvml(cluster.gpu_folder(node)).uuids()
        program = (sys.executable, "-m", "tests.bench.bare_plugin", ",".join(uuids))
        return cluster.spawn(f"bare-{self._turn}", program, node=node, env={"PYTHONPATH": str(CHECKOUT)})

    def _offered(self, node: str) -> int:
        allocatable = self.arena.kube.get(NODES, node).status.allocatable or {}
        return int(allocatable.get(names.GPU_RESOURCE, 0))

    def _told(self, node: str) -> int:
        return len(inventory_of(self.arena.kube.get(NODES, node)))


def _await(what: str, condition: Callable[[], bool]) -> None:
    if not poll(condition, seconds=PATIENCE, every=0.1):
        raise RuntimeError(f"Not within {PATIENCE:.0f} s: {what}.")


def _pod(name: str) -> dict[str, Any]:
    body = gpu_pod(name)
    never = {"name": "never", "hostPath": {"path": "/nowhere", "type": "Directory"}}
    body["spec"] |= {"nodeSelector": {}, "volumes": [never]}
    body["spec"]["containers"][0]["volumeMounts"] = [{"name": "never", "mountPath": "/never"}]
    return body


MEASURE: Final = Measure("kubelets", tuple(_RATES.values()), measure, on_cluster=True, prepare=null_extender)
