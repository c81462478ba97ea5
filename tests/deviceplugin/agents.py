"""Node agents without NVML and API server, for tests with a kubelet: everything between board and sockets."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from prometheus_client import CollectorRegistry

from cluster.fake.clock import eventually
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from cluster.runtime.clock import Clock, SystemClock
from deviceplugin.admission import Admission, Sources, first_devices
from deviceplugin.allocate import Strategy
from deviceplugin.board import Board, Devices
from deviceplugin.bound.boundpods import BoundPods
from deviceplugin.checkpoint import CheckpointFile
from deviceplugin.metrics import AgentMetrics
from deviceplugin.mig.packing import Packing, by_parts
from deviceplugin.nodepods import NodePods
from deviceplugin.plugin import DevicePlugin
from deviceplugin.podresources import PodResources
from deviceplugin.podsapi import PodsApi
from deviceplugin.registration import Place, Registrar, SocketNames
from deviceplugin.resources import Resources
from tests.fakes.kubelet import FakeKubelet

_stamp = iter(range(1_700_000_000_000, 1_800_000_000_000, 1000))


def devices(count: int = 4, **fields: Any) -> tuple[Device, ...]:
    """Healthy GPUs, ``GPU-0`` and so on."""
    made = (
        {"uuid": f"GPU-{i}", "index": i, "model": "NVIDIA-A100-SXM4-80GB", **fields} for i in range(count)
    )
    return tuple(Device(**one) for one in made)


class RunningAgent:
    """An agent's plugin, registered with a kubelet; a context manager."""

    def __init__(
        self,
        kubelet: FakeKubelet,
        instance: str = "agent-a",
        *,
        offers: Sequence[Device] | None = None,
        stored: Callable[[], tuple[Pod, ...]] = tuple,
        bound: BoundPods | None = None,
        packing: Packing = Packing.DISTRIBUTED,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self.kubelet = kubelet
        self.registry = CollectorRegistry()
        self.board = Board()
        self.metrics = AgentMetrics(self.registry)
        self.names = SocketNames(instance, next(_stamp))
        self.offer(devices() if offers is None else tuple(offers))
        self.pods = pods = NodePods(
            PodsApi(kubelet.root / "pods-api" / "pods-api.sock", clock),
            PodResources(kubelet.root / "pod-resources" / "kubelet.sock"),
            stored,
            bound,
        )

        def registration(resource: str) -> Registrar:
            record = CheckpointFile(kubelet.plugins, resource)
            sources = Sources(
                resource=resource,
                board=self.board,
                record=record,
                pods=pods,
                pick=by_parts(packing, first_devices),
            )
            plugin = partial(
                DevicePlugin,
                Admission(sources, metrics=self.metrics, clock=clock),
                self.board,
                resource=resource,
                strategy=Strategy.CDI,
                clock=clock,
            )
            place = Place(folder=kubelet.plugins, resource=resource, names=self.names)
            return Registrar(place, plugin, metrics=self.metrics, clock=clock)

        self.registrar = Resources(self.board, registration, clock)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.registrar.run, args=(self._stop,), daemon=True)

    def offer(self, offers: tuple[Device, ...], problem: str | None = None) -> None:
        """Change what the agent hands out."""
        self.board.put(Devices(offers, problem=problem, reported=True))

    def __enter__(self) -> Self:
        self._thread.start()
        if self.board.now.devices:
            self.wait_registered()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_registered(self) -> None:
        """Wait until the kubelet has this agent's devices."""
        eventually(lambda: self.registrar.is_registered)
        eventually(lambda: self.kubelet.capacity == len(self.board.now.devices))

    def stop(self) -> None:
        """End in good order, as after SIGTERM."""
        self._stop.set()
        self._thread.join()

    def counted(self, name: str, **labels: str) -> float:
        """The value of one of its counters."""
        return self.registry.get_sample_value(f"gpu_booking_agent_{name}", labels) or 0.0


def sockets(folder: Path) -> list[str]:
    """Names of the plugin sockets in the kubelet's folder."""
    return sorted(path.name for path in folder.glob("gpu-booking-*.sock"))
