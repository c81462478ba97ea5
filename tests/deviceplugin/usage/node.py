"""A node whose GPUs are measured: checkpoint, pods, processes, API server, as a test wants them."""

from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from cluster import event_reasons, names
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.events import EventRecorder
from cluster.kube.resources import EVENTS, NODES
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.device_cache import AdvertisedDevices, DeviceCache
from deviceplugin.kubelet.checkpoint import CheckpointError
from deviceplugin.nvml.interface import GpuProcess, GpuUsage
from deviceplugin.nvml.inventory import NodeDevice
from deviceplugin.nvml.watch import UsageReport
from deviceplugin.usage.claimed import ClaimedPart
from deviceplugin.usage.holder_source import HolderSource
from deviceplugin.usage.monitor import Options, UsageMonitor
from deviceplugin.usage.overuse_events import OveruseReporter
from deviceplugin.usage.squatter_events import SquatterReporter
from deviceplugin.usage.usage_metrics import UsageMetrics
from tests.deviceplugin.pods import pod

MIB = 1 << 20
GIB = 1 << 30
A100 = "NVIDIA-A100-SXM4-80GB"
UID_A = "aaaaaaaa-0000-0000-0000-000000000000"
UID_B = "bbbbbbbb-0000-0000-0000-000000000000"
OF_DAEMONS = "dddddddd-0000-0000-0000-000000000000"
"""The pod of MPS's daemons."""


def gpu(index: int) -> NodeDevice:
    """A whole GPU of 80 GiB."""
    return NodeDevice(
        published=Device(uuid=f"GPU-{index}", index=index, model=A100, memory=81920), minor=index, pci=""
    )


def part(of: int, number: int) -> NodeDevice:
    """A MIG device of 10 GiB."""
    whole = gpu(of)
    made = msgspec.structs.replace(
        whole.published, uuid=f"MIG-{of}-{number}", parent=whole.uuid, memory=10240, profile="1g.10gb"
    )
    return msgspec.structs.replace(whole, published=made, gpu_instance=number, compute_instance=0)


def owned(uid: str, name: str, *, user: str = "", booking: str = "", phase: str = "Running") -> Pod:
    """A pod of somebody's."""
    bare = pod(uid, phase=phase)
    annotations = {key: text for key, text in ((names.USER, user), (names.BOOKING, booking)) if text}
    meta = msgspec.structs.replace(bare.metadata, name=name, annotations=annotations)
    return msgspec.structs.replace(bare, metadata=meta)


class MeasuredNode:
    """Alice's pod holds GPU-0, GPU-1 is free."""

    def __init__(
        self,
        folder: Path,
        *,
        devices: tuple[NodeDevice, ...] = (gpu(0), gpu(1)),
        include_users: bool = True,
        report_every: float = 10.0,
        knows_node: bool = True,
    ) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.kube.put(NODES, {"metadata": {"name": "node-a", "uid": "n"}})
        self.proc = folder / "proc"
        self.devices = devices
        self.holdings: PodDevices | None = PodDevices({(UID_A, "main"): frozenset({"GPU-0"})})
        self.pods: tuple[Pod, ...] | None = (owned(UID_A, "train", user="alice", booking="b-1"),)
        self.without_gpus: tuple[Pod, ...] = ()
        """Those that the kubelet's list of pods that may hold a GPU does not have."""
        self.claimed: tuple[ClaimedPart, ...] | None = ()
        self.registry = CollectorRegistry()
        self.recorder = EventRecorder(self.kube, self.clock, component=names.NODE_AGENT)
        device_cache = DeviceCache()
        device_cache.put(AdvertisedDevices(tuple(one.published for one in devices), reported=True))
        self.measurer = UsageMonitor(
            HolderSource(
                device_cache,
                self,
                lambda: self.pods,
                lambda: self.claimed,
                all_pods=lambda: (*(self.pods or ()), *self.without_gpus),
            ).snapshot,
            UsageMetrics(self.registry, include_users=include_users),
            SquatterReporter(self.recorder),
            overuse=OveruseReporter(self.recorder),
            all_pods=lambda: (*(self.pods or ()), *self.without_gpus),
            options=Options(
                proc=self.proc,
                tolerated=frozenset({"Xorg"}),
                of_daemons=lambda: frozenset({OF_DAEMONS}),
                report_every=report_every,
            ),
            clock=self.clock,
        )
        if knows_node:
            self.observe()

    def observe(self) -> None:
        """The publisher reads the Node."""
        self.measurer.observe(self.kube.get(NODES, "node-a"))

    def read(self) -> PodDevices:
        """The kubelet's checkpoint: the interface ``CheckpointReader``."""
        if self.holdings is None:
            raise CheckpointError("It cannot be read.")
        return self.holdings

    def run(self, pid: int, *, uid: str | None = None, name: str = "python3", started: int = 77) -> None:
        """A process, of a pod or of somebody who has logged in."""
        folder = self.proc / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        before = " ".join(["S", *map(str, range(4, 22))])
        (folder / "stat").write_text(f"{pid} ({name}) {before} {started} 0\n")
        path = f"/kubepods/burstable/pod{uid}/c" if uid else "/user.slice/session-4.scope"
        (folder / "cgroup").write_text(f"0::{path}\n")

    def end(self, pid: int) -> None:
        """The process ends."""
        for file in (self.proc / str(pid)).iterdir():
            file.unlink()
        (self.proc / str(pid)).rmdir()

    def measured(self, **usages: GpuUsage) -> None:
        """Ten seconds later NVML's thread hands a measurement over (``GPU_0=...``), and a round is made."""
        self.clock.advance(10)
        of = {name.replace("_", "-"): usage for name, usage in usages.items()}
        self.measurer.update(UsageReport(self.devices, of))
        self.measurer.once()

    def says(self, name: str, **labels: str) -> float | None:
        """The value of a series."""
        return self.registry.get_sample_value(f"{names.METRICS_PREFIX}_agent_{name}", labels)

    def series(self, name: str) -> list[dict[str, str]]:
        """The labels of every series of a metric."""
        full = f"{names.METRICS_PREFIX}_agent_{name}"
        return [
            dict(sample.labels)
            for metric in self.registry.collect()
            for sample in metric.samples
            if metric.name == full
        ]

    @property
    def events(self) -> list[str]:
        """The sentences of the Events on the Node about squatters."""
        return self.events_of(event_reasons.GPU_SQUATTED)

    def events_of(self, reason: str) -> list[str]:
        """The sentences of the Events on the Node for this reason."""
        self.recorder.flush()
        return [event.message for event in self.kube.list(EVENTS).items if event.reason == reason]


def busy(*processes: GpuProcess) -> GpuUsage:
    """A GPU at work."""
    return GpuUsage(
        utilisation=87,
        memory_activity=40,
        memory_used=20 * GIB,
        memory_total=80 * GIB,
        temperature=61,
        power=288.4,
        processes=processes,
    )
