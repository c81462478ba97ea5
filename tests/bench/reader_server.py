"""The minimal cost of an answer to the kubelet: a call that reads the kubelet's pods and answers nothing.

Run by ``bench_preferred`` in a process of its own: ``reader_server FOLDER``, the kubelet's root folder.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from deviceplugin.kubelet.channel import channel
from deviceplugin.kubeletapi.deviceplugin_v1beta1 import api_pb2, api_pb2_grpc
from deviceplugin.kubeletapi.pods_v1alpha1 import api_pb2 as pods_pb2
from deviceplugin.kubeletapi.pods_v1alpha1 import api_pb2_grpc as pods_pb2_grpc
from tests.bench.child import announce, await_end

SOCKET = "floor.sock"


class Reader(api_pb2_grpc.DevicePluginServicer):
    """Each call reads the kubelet's Pods API once, without decoding the pods, and gives an empty answer."""

    def __init__(self, kubelet: grpc.Channel) -> None:
        self._pods = pods_pb2_grpc.PodsStub(kubelet)

    def GetPreferredAllocation(
        self, request: api_pb2.PreferredAllocationRequest, context: grpc.ServicerContext
    ) -> api_pb2.PreferredAllocationResponse:
        """The floor of this call."""
        del request, context
        self._pods.ListPods(pods_pb2.ListPodsRequest())
        return api_pb2.PreferredAllocationResponse()

    def Allocate(
        self, request: api_pb2.AllocateRequest, context: grpc.ServicerContext
    ) -> api_pb2.AllocateResponse:
        """The floor of this call."""
        del request, context
        self._pods.ListPods(pods_pb2.ListPodsRequest())
        return api_pb2.AllocateResponse()


def main(root: Path) -> None:
    """Serve until standard input ends."""
    with channel(root / "pods-api" / "pods-api.sock") as kubelet:
        server = grpc.server(ThreadPoolExecutor(4))
        api_pb2_grpc.add_DevicePluginServicer_to_server(Reader(kubelet), server)
        server.add_insecure_port(f"unix:{root / SOCKET}")
        server.start()
        announce("ready")
        await_end()
        server.stop(None)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
