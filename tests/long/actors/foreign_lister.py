"""A third-party monitor: polls PodResources List all the time, as exporters do. Runs inside a node."""

import threading
from pathlib import Path

import grpc

from deviceplugin.kubeletapi.podresources_v1 import api_pb2 as api
from deviceplugin.kubeletapi.podresources_v1 import api_pb2_grpc as rpc

SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
PAUSE = 0.05


def main() -> None:
    """Poll until killed."""
    tick = threading.Event()
    with grpc.insecure_channel(
        f"unix:{SOCKET}", options=[("grpc.default_authority", "localhost")]
    ) as channel:
        stub = rpc.PodResourcesListerStub(channel)
        while True:
            try:
                answer = stub.List(api.ListPodResourcesRequest(), timeout=5)
                print("listed", len(answer.pod_resources), flush=True)
            except grpc.RpcError as error:
                print("refused", error, flush=True)
            tick.wait(PAUSE)


if __name__ == "__main__":
    main()
