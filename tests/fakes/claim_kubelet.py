"""The kubelet as drivers of claims see it: finds their sockets, registers them, and deletes their slices.

It deletes those of a driver that has been away for 30 s, and those of all drivers of its node when it starts.
Source: kubelet 1.37.1, pluginmanager and cm/dra/plugin.
"""

from contextlib import closing
from pathlib import Path
from typing import Final

from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import RESOURCE_SLICES
from cluster.process.clock import Clock
from deviceplugin.kubelet.channel import channel
from deviceplugin.kubeletapi.dra_v1 import api_pb2 as dra
from deviceplugin.kubeletapi.dra_v1 import api_pb2_grpc as dra_grpc
from deviceplugin.kubeletapi.pluginregistration_v1 import api_pb2 as registration
from deviceplugin.kubeletapi.pluginregistration_v1 import api_pb2_grpc as registration_grpc

WIPED_AFTER: Final = 30.0
"""Seconds."""


class ClaimKubelet:
    """One kubelet; it does what is due when it looks."""

    def __init__(self, root: Path, kube: Kube, clock: Clock, node: str) -> None:
        """Args: root: its folder, with ``plugins_registry``."""
        self._registry = root / "plugins_registry"
        self._kube, self._clock, self._node = kube, clock, node
        self._drivers: dict[Path, registration.PluginInfo] = {}
        self._gone: dict[str, float] = {}
        """Driver -> since when it is away."""

    def look(self) -> None:
        """Notice which sockets have come and gone, and delete the slices that are due."""
        there = set(self._registry.glob("*.sock"))
        for path in self._drivers.keys() - there:
            self._gone.setdefault(self._drivers.pop(path).name, self._clock.monotonic())
        for path in sorted(there - self._drivers.keys()):
            self._drivers[path] = info = _registered(path)
            self._gone.pop(info.name, None)
        for driver, since in list(self._gone.items()):
            if self._clock.monotonic() - since >= WIPED_AFTER:
                del self._gone[driver]
                self._wipe(f",spec.driver={driver}")

    def restart(self) -> None:
        """Another process on the same machine: no driver has registered yet, so nobody may offer anything."""
        self._drivers, self._gone = {}, {}
        self._wipe()
        self.look()

    def prepared(self, claim: dra.Claim) -> list[str]:
        """The devices that the driver names for a claim; none if it refuses."""
        (driver,) = self._drivers.values()
        with closing(channel(Path(driver.endpoint))) as line:
            stub = dra_grpc.DRAPluginStub(line)
            answer = stub.NodePrepareResources(dra.NodePrepareResourcesRequest(claims=[claim]))
        return [one.device_name for one in answer.claims[claim.uid].devices]

    def _wipe(self, of: str = "") -> None:
        selected = Selection(field_selector=f"spec.nodeName={self._node}{of}")
        for one in self._kube.list(RESOURCE_SLICES, selected).items:
            self._kube.delete(RESOURCE_SLICES, one.metadata.name)


def _registered(path: Path) -> registration.PluginInfo:
    with closing(channel(path)) as line:
        stub = registration_grpc.RegistrationStub(line)
        info = stub.GetInfo(registration.InfoRequest(), wait_for_ready=True)
        stub.NotifyRegistrationStatus(registration.RegistrationStatus(plugin_registered=True))
    return info
