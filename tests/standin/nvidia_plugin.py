# ruff: noqa: ARG002 - the interface is gRPC's
"""A stand-in for NVIDIA's device plugin: what its documentation says it does, and nothing of its code.

``python nvidia_plugin.py CONFIG``. It names devices by UUID, MIG devices included, and replicas
``<id>::<n>``; its socket is ``nvidia-<resource>.sock``; it has no wish about which device is
allocated, so the kubelet chooses; it registers again when the kubelet has started again; a device that is
sick stays so until the plugin starts again. CONFIG is a JSON file::

    {"folder": "/var/lib/kubelet/device-plugins", "unhealthy": "<file with an id a line>",
     "resources": {"nvidia.com/gpu": {"devices": {"GPU-...": "/dev/nvidia0"}, "replicas": 1}}}
"""

import json
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent import futures
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from cluster import names
from deviceplugin.kubeletapi.deviceplugin_v1beta1 import api_pb2 as api
from deviceplugin.kubeletapi.deviceplugin_v1beta1 import api_pb2_grpc as rpc

TICK = 0.1


class StandIn(rpc.DevicePluginServicer):
    """The plugin of one resource."""

    def __init__(
        self, devices: Mapping[str, str], replicas: int, unhealthy: Path, stop: threading.Event
    ) -> None:
        self._devices = devices
        self._replicas = replicas
        self._unhealthy_file = unhealthy
        self._unhealthy: frozenset[str] = frozenset()
        self._stop = stop

    def GetDevicePluginOptions(self, request: Any, context: Any) -> api.DevicePluginOptions:
        return api.DevicePluginOptions()

    def GetPreferredAllocation(
        self, request: api.PreferredAllocationRequest, context: Any
    ) -> api.PreferredAllocationResponse:
        return api.PreferredAllocationResponse()

    def PreStartContainer(
        self, request: api.PreStartContainerRequest, context: Any
    ) -> api.PreStartContainerResponse:
        return api.PreStartContainerResponse()

    def ListAndWatch(self, request: Any, context: Any) -> Iterator[api.ListAndWatchResponse]:
        sent = None
        while context.is_active() and not self._stop.wait(TICK if sent is not None else 0):
            self._unhealthy |= frozenset(
                self._unhealthy_file.read_text().split() if self._unhealthy_file.exists() else ()
            )
            if self._unhealthy != sent:
                sent = self._unhealthy
                yield api.ListAndWatchResponse(
                    devices=[api.Device(ID=i, health=h) for i, h in self._listed()]
                )

    def Allocate(self, request: api.AllocateRequest, context: Any) -> api.AllocateResponse:
        return api.AllocateResponse(
            container_responses=[self._answer(c.devices_ids) for c in request.container_requests]
        )

    def _listed(self) -> Iterator[tuple[str, str]]:
        for device in self._devices:
            health = "Unhealthy" if device in self._unhealthy else "Healthy"
            if self._replicas == 1:
                yield device, health
            else:
                yield from ((f"{device}::{turn}", health) for turn in range(self._replicas))

    def _answer(self, ids: list[str]) -> api.ContainerAllocateResponse:
        real = sorted({one.partition("::")[0] for one in ids})
        seen = {names.VISIBLE_DEVICES_VARIABLE: ",".join(real), names.DEVICES_VARIABLE: ",".join(real)}
        nodes = [
            api.DeviceSpec(
                container_path=f"/dev/{Path(self._devices[one]).name}",
                host_path=self._devices[one],
                permissions="rw",
            )
            for one in real
            if self._devices[one]
        ]
        return api.ContainerAllocateResponse(envs=seen, devices=nodes)


class Serving:
    """All resources of the plugin, for as long as the kubelet's socket is the same file."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._folder = Path(config["folder"])
        self._config = config
        self._servers: list[grpc.Server] = []
        self._over = threading.Event()

    def run(self, stop: threading.Event) -> None:
        """Serve and register, again whenever the kubelet's socket is another one, until the stop event."""
        known: int | None = None
        while not stop.wait(TICK):
            now = self._kubelet()
            if now is not None and now != known:
                self.close()
                with suppress(grpc.RpcError):  # a kubelet that is just starting: the next one is another
                    self._begin()
                    known = now
        self.close()

    def _kubelet(self) -> int | None:
        try:
            return (self._folder / "kubelet.sock").stat().st_ctime_ns
        except FileNotFoundError:
            return None

    def _begin(self) -> None:
        self._over = threading.Event()
        for resource, offer in self._config["resources"].items():
            endpoint = f"nvidia-{resource.partition('/')[2]}.sock"
            path = self._folder / endpoint
            path.unlink(missing_ok=True)
            plugin = StandIn(
                offer["devices"], offer.get("replicas", 1), Path(self._config["unhealthy"]), self._over
            )
            server = grpc.server(futures.ThreadPoolExecutor(8))
            rpc.add_DevicePluginServicer_to_server(plugin, server)
            server.add_insecure_port(f"unix:{path}")
            server.start()
            self._servers.append(server)
            with grpc.insecure_channel(f"unix:{self._folder / 'kubelet.sock'}") as channel:
                rpc.RegistrationStub(channel).Register(
                    api.RegisterRequest(version="v1beta1", endpoint=endpoint, resource_name=resource),
                    wait_for_ready=True,
                    timeout=10,
                )

    def close(self) -> None:
        """Serve no more, and remove the sockets."""
        self._over.set()
        for server in self._servers:
            server.stop(0.5).wait()
        self._servers.clear()


def main(config: str) -> None:
    """Run until SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    Serving(json.loads(Path(config).read_text(encoding="utf-8"))).run(stop)


if __name__ == "__main__":
    main(*sys.argv[1:])
