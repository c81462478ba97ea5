"""How fast a kubelet admits pods with a GPU: with our agent, and with the smallest possible plugin.

The pods are static, so that nothing is between their files and the kubelet. They wait for a volume that never
appears, so that no start of a container is measured. A part of ``bench_agent``.
"""

import json
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from cluster import names
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.daemons import Daemon
from devcluster.fakenvml import A100_80GB, FakeNvml, GpuSpec, devicenodes, gpu
from devcluster.paths import CHECKOUT
from devcluster.product import Parts
from devcluster.wait import poll
from tests.bench.lab import Lab
from tests.bench.rows import Kind, Row, Target

PODS: Final = 100
ROUNDS: Final = 3
PATIENCE: Final = 180.0
NAMESPACE: Final = "default"
_RATE: Final = Kind(
    "agent-admitted",
    f"agent: {PODS} pods with a GPU admitted in a row, median of {ROUNDS}",
    "pods/s",
    "the same kubelet with a plugin of sixty lines that reads nothing",
    target=Target(ratio=0.95, at_least=True),
)
KINDS: Final = (_RATE,)


def measure(lab: Lab, node: str) -> Iterator[Row]:
    """The two plugins in turns; one begins when the other has ended."""
    cluster, parts = lab.standing.cluster, lab.standing.parts
    gpus = tuple(_gpu(index) for index in range(PODS))
    fake, row = FakeNvml(cluster.state / "bench-crowd"), _Row(cluster, node)
    fake.create(gpus)
    (fake.folder / "dev").mkdir()
    devicenodes.make(fake.folder / "dev", gpus)
    parts.agent(node).kill()
    ours, bare = [], []
    try:
        for number in range(ROUNDS):
            row.await_gpus(0)
            with _agent(parts, node, fake):
                ours.append(row.rate(f"ours-{number}"))
            row.await_gpus(0)
            with _bare(cluster, node, fake.uuids()):
                bare.append(row.rate(f"bare-{number}"))
    finally:
        parts.restore()
    yield _RATE.row(statistics.median(ours), statistics.median(bare))


class _Row:
    """A node whose kubelet is given many pods at once."""

    def __init__(self, cluster: Cluster, node: str) -> None:
        self._cluster = cluster
        self._node = node
        self._manifests = cluster.state / node / "static-pods"
        self._record = cluster.state / node / "kubelet/device-plugins/kubelet_internal_checkpoint"
        self._clock = SystemClock()

    def await_gpus(self, count: int) -> None:
        """Wait until the node reports this many GPUs: none, before another plugin advertises its own."""
        self._await(f"{count} GPUs are allocatable", lambda: self._allocatable() == count)

    def rate(self, name: str) -> float:
        """Pods per second, between the first and the last pod that got its device."""
        self.await_gpus(PODS)
        files = [self._manifests / f"{name}-{number}.json" for number in range(PODS)]
        for number, file in enumerate(files):
            # The kubelet ignores files that begin with a dot, so that all of them appear together.
            file.with_name(f".{file.name}").write_text(json.dumps(_pod(name, number)))
        for file in files:
            file.with_name(f".{file.name}").rename(file)
        try:
            first = self._served(name, 1)
            return (PODS - 1) / (self._served(name, PODS) - first)
        finally:
            for file in files:
                file.unlink()
            self._await(f"the pods of {name} are gone", lambda: not self._left(name))

    def _served(self, name: str, count: int) -> float:
        """When this many of them had devices."""

        def enough() -> bool:
            entries = json.loads(self._record.read_text() or "{}")["Data"]["PodDeviceEntries"] or []
            return sum(entry["PodUID"].startswith(name) for entry in entries) >= count

        self._await(f"{count} of {name} have a GPU", enough, every=0.005)
        return self._clock.monotonic()

    def _await(self, what: str, condition: Any, *, every: float = 0.1) -> None:
        if not poll(condition, seconds=PATIENCE, every=every):
            raise RuntimeError(f"Not within {PATIENCE:.0f} s: {what}.")

    def _allocatable(self) -> int:
        path = f"--output=jsonpath={{.status.allocatable.{names.GPU_RESOURCE.replace('.', chr(92) + '.')}}}"
        return int(self._cluster.kubectl("get", "node", self._node, path) or 0)

    def _left(self, name: str) -> bool:
        words = ("get", "pods", f"--namespace={NAMESPACE}", "--output=name")
        return f"/{name}-" in self._cluster.kubectl(*words)


@contextmanager
def _agent(parts: Parts, node: str, fake: FakeNvml) -> Iterator[None]:
    settings = fake.environment() | {names.setting("dev_root"): str(fake.folder / "dev")}
    with _until_killed(parts.start_agent(node, name="agent-of-crowd", settings=settings)):
        yield


@contextmanager
def _bare(cluster: Cluster, node: str, uuids: tuple[str, ...]) -> Iterator[None]:
    program = (sys.executable, "-m", "tests.bench.bare_plugin", ",".join(uuids))
    environment = {"PYTHONPATH": str(CHECKOUT)}
    with _until_killed(cluster.spawn("bare-plugin", program, node=node, env=environment)):
        yield


@contextmanager
def _until_killed(daemon: Daemon) -> Iterator[None]:
    try:
        yield
    finally:
        daemon.kill()


def _gpu(index: int) -> GpuSpec:
    made = gpu(A100_80GB, index % 8, node=f"crowd-{index // 8}")
    return replace(made, minor=index, pci=f"{index // 8:08X}:{0x07 + 0x10 * (index % 8):02X}:00.0")


def _pod(name: str, number: int) -> dict[str, Any]:
    body = probe.pod(f"{name}-{number}", [probe.container("main", gpus=1)])
    body["metadata"] |= {"namespace": NAMESPACE, "uid": f"{name}-{number}"}
    never = {"name": "never", "hostPath": {"path": str(Path("/nowhere")), "type": "Directory"}}
    body["spec"]["volumes"] = [never]
    body["spec"]["containers"][0]["volumeMounts"] = [{"name": "never", "mountPath": "/never"}]
    return body
