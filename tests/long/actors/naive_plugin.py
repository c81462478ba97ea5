"""A device plugin that trusts the kubelet: prefers the first available; Allocate waits at a gate.

Runs inside a node: ``python naive_plugin.py RESOURCE GATE DEVICES``. The gate is a file,
shut while it exists.
"""

import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

from cluster import names
from deviceplugin.kubeletapi.deviceplugin_v1beta1 import api_pb2 as api
from deviceplugin.kubeletapi.deviceplugin_v1beta1 import api_pb2_grpc as rpc

FOLDER = Path("/var/lib/kubelet/device-plugins")
TICK = threading.Event()


class NaivePlugin(rpc.DevicePluginServicer):
    """Advertises devices and allocates whatever it is asked for."""

    def __init__(self, devices: list[str], gate: Path) -> None:
        self._devices = devices
        self._gate = gate

    def GetDevicePluginOptions(self, request: Any, context: Any) -> api.DevicePluginOptions:
        return api.DevicePluginOptions(get_preferred_allocation_available=True)

    def GetPreferredAllocation(
        self, request: api.PreferredAllocationRequest, context: Any
    ) -> api.PreferredAllocationResponse:
        answers = [
            api.ContainerPreferredAllocationResponse(
                deviceIDs=sorted(container.available_deviceIDs)[: container.allocation_size]
            )
            for container in request.container_requests
        ]
        return api.PreferredAllocationResponse(container_responses=answers)

    def ListAndWatch(self, request: Any, context: Any) -> Iterator[api.ListAndWatchResponse]:
        yield api.ListAndWatchResponse(devices=[api.Device(ID=i, health="Healthy") for i in self._devices])
        while context.is_active():
            TICK.wait(0.2)

    def Allocate(self, request: api.AllocateRequest, context: Any) -> api.AllocateResponse:
        print("allocate", [list(c.devices_ids) for c in request.container_requests], flush=True)
        while self._gate.exists():
            TICK.wait(0.01)
        answers = [
            api.ContainerAllocateResponse(envs={names.DEVICES_VARIABLE: ",".join(c.devices_ids)})
            for c in request.container_requests
        ]
        return api.AllocateResponse(container_responses=answers)


def main(resource: str, gate: str, devices: str) -> None:
    """Serve, register once, stay."""
    endpoint = f"naive-{resource.replace('/', '-')}.sock"
    server = grpc.server(futures.ThreadPoolExecutor(8))
    rpc.add_DevicePluginServicer_to_server(NaivePlugin(devices.split(","), Path(gate)), server)
    server.add_insecure_port(f"unix:{FOLDER / endpoint}")
    server.start()
    with grpc.insecure_channel(f"unix:{FOLDER / 'kubelet.sock'}") as channel:
        rpc.RegistrationStub(channel).Register(
            api.RegisterRequest(version="v1beta1", endpoint=endpoint, resource_name=resource)
        )
    server.wait_for_termination()


if __name__ == "__main__":
    main(*sys.argv[1:])
