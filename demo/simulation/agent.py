"""A node agent: the real publisher and the real Lease renewer on a board of simulated GPUs."""

from collections.abc import Iterator, Mapping

import msgspec
from prometheus_client import CollectorRegistry

from cluster import names
from cluster.kube.errors import ApiError
from cluster.kube.node_lease import FIRST_PAUSE, RENEW_EVERY, LeaseRenewer
from cluster.objects.assignment import devices_of, readable_assignment_of
from cluster.objects.device_usage import DeviceUsage, NodeUsage, OverUser, encode_use
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from demo.simulation.kubelet import Kubelet
from demo.simulation.part import Part
from demo.simulation.surroundings import Surroundings
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.device_cache import AdvertisedDevices, DeviceCache
from deviceplugin.metrics import AgentMetrics
from deviceplugin.process.graceful_shutdown import SERVED_ON
from deviceplugin.publish import COMPARE_EVERY, Publisher, PublisherSources


class Agent(Part):
    """The agent of one node. Its GPUs outlive it."""

    user = f"system:serviceaccount:{names.NAMESPACE}:{names.NODE_AGENT}"
    is_ours = True

    def __init__(self, world: Surroundings, kubelet: Kubelet, devices: tuple[Device, ...]) -> None:
        super().__init__(world, f"agent {kubelet.node}")
        self.devices = devices
        self._kubelet = kubelet
        self.registers_after = 0.0
        """Seconds from its start until the kubelet has its devices."""
        self.over_users: tuple[OverUser, ...] | None = None
        """Pods that use more of a GPU than their shares; None: nobody measures that."""
        self.tells_real_gpus = False
        """Whether it reports which GPUs are behind the numbers, where the kubelet chooses them."""

    @property
    def node(self) -> str:
        """The node's name."""
        return self._kubelet.node

    @property
    def is_registered(self) -> bool:
        """Whether the kubelet has its devices."""
        return self._kubelet.agent is self and self._kubelet.life.alive

    def build(self) -> None:
        """As ``deviceplugin.__main__.build`` does, with one thread for all, without NVML and gRPC."""
        node = self._kubelet.node
        self._device_cache = DeviceCache()
        facts = PublisherSources(device_cache=self._device_cache, checkpoint=self, pods=self._compared)
        self._publisher = Publisher(
            self.kube, node, facts, metrics=AgentMetrics(CollectorRegistry()), clock=self.clock
        )
        self._lease = LeaseRenewer(
            self.kube,
            self.clock,
            name=names.node_lease(node),
            holder=f"{self.name}-{self.lives}",
            namespace=names.NAMESPACE,
            annotations=self.annotations,
            serves=lambda: self.is_registered,
        )
        self._device_cache.put(AdvertisedDevices(devices=self.devices, reported=True))
        if self.registers_after:
            self.after(self.registers_after, self._register)
        else:
            self._register()
        self.every(COMPARE_EVERY, self._publisher.once)
        self.every(RENEW_EVERY, self._renew, first=0.1, is_sign_of_life=True)

    def annotations(self) -> Mapping[str, str | None]:
        """What each renewal of its Lease writes: how the GPUs are used, where somebody measures it."""
        if self.over_users is None and not self.tells_real_gpus:
            return {}
        devices = tuple(self._real_gpus()) if self.tells_real_gpus else ()
        use = NodeUsage(at=self.clock.now(), devices=devices, over_users=self.over_users or ())
        return {names.USE: encode_use(use)}

    def _real_gpus(self) -> Iterator[DeviceUsage]:
        for pod in self._kubelet.pods:
            real = sorted(self._kubelet.holdings.of(pod.metadata.uid))
            for number, uuid in zip(sorted(devices_of(readable_assignment_of(pod))), real, strict=False):
                yield DeviceUsage(uuid=number, real=uuid)

    def read(self) -> PodDevices:
        """The kubelet's checkpoint: the interface ``Record``."""
        return self._kubelet.holdings

    def _compared(self) -> tuple[Pod, ...]:
        """Pods that should have the devices which they were assigned: none where a number is assigned."""
        return () if any(device.numbered for device in self.devices) else self._kubelet.pods

    def on_events(self) -> None:
        """It follows nothing."""

    def release_lease(self) -> None:
        """SIGTERM: it says that it goes, serves who is on the way, and goes."""
        if self._lease.release_lease():
            self.after(SERVED_ON, self.kill)
        else:
            self.kill()

    def died(self) -> None:
        """Its stream ends with it."""
        if self._kubelet.agent is self:
            self._kubelet.agent = None

    def kubelet_changed(self) -> None:
        """The kubelet has begun to listen, or has ceased to."""
        self.after(0.0, self._renew)

    def _register(self) -> None:
        self._kubelet.agent = self
        self._kubelet.advertise()
        self._renew()

    def turn(self, index: int, *, healthy: bool) -> None:
        """A GPU becomes unhealthy, or recovers."""
        changes = {"health": "healthy", "reason": None}
        if not healthy:
            changes = {"health": "unhealthy", "reason": "XID 79: GPU has fallen off the bus"}
        self.devices = tuple(
            msgspec.structs.replace(device, **changes) if device.index == index else device
            for device in self.devices
        )
        if self.life.alive:
            self._device_cache.put(AdvertisedDevices(devices=self.devices, reported=True))
            self.after(0.01, self._publisher.once)

    def _renew(self) -> None:
        try:
            if self.is_registered:
                self._lease.renew()
            else:
                self._lease.release()
        except ApiError:
            self.after(FIRST_PAUSE, self._renew)
