"""Node agents without NVML and API server, for tests with a kubelet: all between device cache and sockets."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec
from prometheus_client import CollectorRegistry

from cluster import names
from cluster.fake.clock import eventually
from cluster.objects.inventory import Device, Sharing
from cluster.objects.pods import Pod
from cluster.process.clock import Clock, SystemClock
from deviceplugin.advertised import listed
from deviceplugin.allocation.mig_packing import Packing, by_parts
from deviceplugin.allocator import Allocator, AllocatorSources, first_devices
from deviceplugin.device_cache import AdvertisedDevices, DeviceCache
from deviceplugin.injection.mps_daemons import MpsDaemons
from deviceplugin.injection.share_edits import Hook
from deviceplugin.injection.share_files import ShareFiles
from deviceplugin.injection.strategy import Strategy
from deviceplugin.kubelet.bound_pods import BoundPods
from deviceplugin.kubelet.checkpoint import CheckpointFile
from deviceplugin.kubelet.pod_resources import PodResources
from deviceplugin.kubelet.pod_source import PodSource
from deviceplugin.kubelet.pods_api import PodsApi
from deviceplugin.kubelet.registration import Endpoints, Registrar, SocketNames
from deviceplugin.kubelet.registrations import Registrations
from deviceplugin.kubelet.second_plugin import OtherPlugin
from deviceplugin.metrics import AgentMetrics
from deviceplugin.plugin import DevicePlugin
from tests.fakes.kubelet import FakeKubelet

_started_at = iter(range(1_700_000_000_000, 1_800_000_000_000, 1000))


SHARED_MIB = 40960
"""What each GPU offers to pods that share it."""


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
        advertised: Sequence[Device] | None = None,
        slots: int = 0,
        stored: Callable[[], tuple[Pod, ...]] = tuple,
        bound: BoundPods | None = None,
        packing: Packing = Packing.DISTRIBUTED,
        daemons: MpsDaemons | None = None,
        hook: Hook | None = None,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self.kubelet = kubelet
        self.registry = CollectorRegistry()
        self.device_cache = DeviceCache()
        self.metrics = AgentMetrics(self.registry)
        self.names = SocketNames(instance, next(_started_at))
        self.slots = slots
        self.cdi = kubelet.root / "cdi"
        self.advertise(devices() if advertised is None else tuple(advertised))
        self.pods = pods = PodSource(
            PodsApi(kubelet.root / "pods-api" / "pods-api.sock", clock),
            PodResources(kubelet.root / "pod-resources" / "kubelet.sock"),
            stored,
            bound,
        )

        def registration(resource: str) -> Registrar:
            checkpoint = CheckpointFile(kubelet.plugins, resource)
            sources = AllocatorSources(
                resource=resource,
                device_cache=self.device_cache,
                checkpoint=checkpoint,
                pods=pods,
                pick=by_parts(packing, first_devices),
            )
            plugin = partial(
                DevicePlugin,
                Allocator(sources, metrics=self.metrics, clock=clock),
                self.device_cache,
                resource=resource,
                strategy=Strategy.CDI,
                shares=ShareFiles(self.cdi),
                daemons=daemons or MpsDaemons(None, clock),
                hook=hook,
                clock=clock,
            )
            endpoints = Endpoints(folder=kubelet.plugins, resource=resource, names=self.names)
            other = OtherPlugin(kubelet.plugins, lambda: frozenset(self.device_cache.now.by_uuid))
            return Registrar(endpoints, plugin, metrics=self.metrics, clock=clock, other_plugin=other)

        self.registrar = Registrations(self.device_cache, registration, clock)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self.registrar.run, args=(self._stop,), daemon=True)

    def advertise(self, devices: tuple[Device, ...], problem: str | None = None) -> None:
        """Change what the agent advertises."""
        offered = Sharing(slots=self.slots, memory=SHARED_MIB)
        if self.slots:
            devices = tuple(msgspec.structs.replace(device, share=offered) for device in devices)
        lists = listed(devices, frozenset(), {})
        self.device_cache.put(AdvertisedDevices(devices, problem=problem, lists=lists, reported=True))

    def __enter__(self) -> Self:
        self._thread.start()
        if self.device_cache.now.devices:
            self.wait_registered()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_registered(self) -> None:
        """Wait until the kubelet has this agent's devices."""
        eventually(lambda: self.registrar.is_registered)
        now = self.device_cache.now
        eventually(lambda: self.kubelet.capacity == len(now.devices))
        slots = now.listed.get(names.SHARED_RESOURCE, ())
        eventually(lambda: len(self.kubelet.slots) == len(slots))

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
