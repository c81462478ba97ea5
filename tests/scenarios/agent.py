"""A node agent: the real publisher and the real Lease renewer on a board of simulated GPUs."""

from typing import TYPE_CHECKING

import msgspec
from prometheus_client import CollectorRegistry

from cluster import names
from cluster.kube.errors import ApiError
from cluster.kube.lease import FIRST_PAUSE, RENEW_EVERY, LeaseRenewer
from cluster.objects.inventory import Device
from deviceplugin.board import Board, Devices
from deviceplugin.checkpoint import Holdings
from deviceplugin.metrics import AgentMetrics
from deviceplugin.publish import COMPARE_EVERY, Facts, Publisher
from tests.scenarios.kubelet import Kubelet
from tests.scenarios.part import Part

if TYPE_CHECKING:
    from tests.scenarios.world import World


class Agent(Part):
    """The agent of one node. Its GPUs outlive it."""

    user = f"system:serviceaccount:{names.NAMESPACE}:{names.NODE_AGENT}"

    def __init__(self, world: "World", kubelet: Kubelet, devices: tuple[Device, ...]) -> None:
        super().__init__(world, f"agent {kubelet.node}")
        self.devices = devices
        self._kubelet = kubelet

    def build(self) -> None:
        """As ``deviceplugin.__main__.run`` does, with one thread for all, without NVML and gRPC."""
        node = self._kubelet.node
        self._board = Board()
        facts = Facts(board=self._board, record=self, pods=lambda: self._kubelet.pods)
        self._publisher = Publisher(
            self.kube, node, facts, metrics=AgentMetrics(CollectorRegistry()), clock=self.clock
        )
        self._lease = LeaseRenewer(
            self.kube,
            self.clock,
            name=names.node_lease(node),
            holder=f"{self.name}-{self.lives}",
            namespace=names.NAMESPACE,
        )
        self._board.put(Devices(devices=self.devices, reported=True))
        self._kubelet.agent = self
        self._kubelet.advertise()
        self.every(COMPARE_EVERY, self._publisher.once)
        self.every(RENEW_EVERY, self._renew, first=0.1, is_sign_of_life=True)

    def read(self) -> Holdings:
        """The kubelet's checkpoint: the port ``Record``."""
        return self._kubelet.holdings

    def heard(self) -> None:
        """It follows nothing."""

    def say_goodbye(self) -> None:
        """SIGTERM: it says that it goes, and goes."""
        self._lease.say_goodbye()
        self.kill()

    def turn(self, index: int, *, healthy: bool) -> None:
        """A GPU falls ill, or recovers."""
        changes = {"health": "healthy", "reason": None}
        if not healthy:
            changes = {"health": "unhealthy", "reason": "XID 79: GPU has fallen off the bus"}
        self.devices = tuple(
            msgspec.structs.replace(device, **changes) if device.index == index else device
            for device in self.devices
        )
        if self.life.alive:
            self._board.put(Devices(devices=self.devices, reported=True))
            self.after(0.01, self._publisher.once)

    def _renew(self) -> None:
        try:
            self._lease.renew()
        except ApiError:
            self.after(FIRST_PAUSE, self._renew)
