"""The smallest possible device plugin: ``bare_plugin DEVICES``, run inside a node."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import grpc

from cluster import names
from deviceplugin.kubeletapi.deviceplugin_v1beta1 import api_pb2 as api
from deviceplugin.kubeletapi.deviceplugin_v1beta1 import api_pb2_grpc as rpc

FOLDER = Path("/var/lib/kubelet/device-plugins")


class BarePlugin(rpc.DevicePluginServicer):
    """Its devices are always healthy; it prefers the first ones, and injects an environment variable."""

    def __init__(self, devices: list[str]) -> None:
        self._devices = devices

    def GetDevicePluginOptions(self, request: object, context: object) -> api.DevicePluginOptions:
        """The options of our agent, without the call before a container's start."""
        del request, context
        return api.DevicePluginOptions(get_preferred_allocation_available=True)

    def ListAndWatch(self, request: object, context: object) -> Iterator[api.ListAndWatchResponse]:
        """Report the devices once, and nothing after that."""
        del request, context
        yield api.ListAndWatchResponse(
            devices=[api.Device(ID=one, health="Healthy") for one in self._devices]
        )
        Event().wait()

    def GetPreferredAllocation(
        self, request: api.PreferredAllocationRequest, context: object
    ) -> api.PreferredAllocationResponse:
        """Prefer the first devices."""
        del context
        chosen = [
            sorted(container.available_deviceIDs)[: container.allocation_size]
            for container in request.container_requests
        ]
        answers = [api.ContainerPreferredAllocationResponse(deviceIDs=devices) for devices in chosen]
        return api.PreferredAllocationResponse(container_responses=answers)

    def Allocate(self, request: api.AllocateRequest, context: object) -> api.AllocateResponse:
        """Inject the names of the devices."""
        del context
        given = [
            {names.DEVICES_VARIABLE: ",".join(container.devices_ids)}
            for container in request.container_requests
        ]
        answers = [api.ContainerAllocateResponse(envs=envs) for envs in given]
        return api.AllocateResponse(container_responses=answers)


def main(devices: str) -> None:
    """Serve, register, and stay."""
    endpoint = "bare.sock"
    FOLDER.joinpath(endpoint).unlink(missing_ok=True)
    server = grpc.server(ThreadPoolExecutor(8))
    rpc.add_DevicePluginServicer_to_server(BarePlugin(devices.split(",")), server)
    server.add_insecure_port(f"unix:{FOLDER / endpoint}")
    server.start()
    with grpc.insecure_channel(f"unix:{FOLDER / 'kubelet.sock'}") as channel:
        request = api.RegisterRequest(version="v1beta1", endpoint=endpoint, resource_name=names.GPU_RESOURCE)
        rpc.RegistrationStub(channel).Register(request)
    server.wait_for_termination()


if __name__ == "__main__":
    main(sys.argv[1])
