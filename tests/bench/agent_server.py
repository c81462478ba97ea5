"""A node agent between board and sockets, without NVML and API server: what the kubelet's questions meet.

Run by ``bench_preferred`` in a process of its own: ``agent_server FOLDER``, the kubelet's root folder.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from prometheus_client import CollectorRegistry

from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from cluster.runtime import logs
from cluster.runtime.clock import SystemClock
from deviceplugin.admission import Admission, Sources
from deviceplugin.allocate import Strategy
from deviceplugin.board import Board, Devices
from deviceplugin.checkpoint import CheckpointFile
from deviceplugin.kubeletapi.deviceplugin_v1beta1 import api_pb2_grpc
from deviceplugin.metrics import AgentMetrics
from deviceplugin.nodepods import NodePods
from deviceplugin.plugin import DevicePlugin, Streams
from deviceplugin.podresources import PodResources
from deviceplugin.podsapi import PodsApi
from tests.bench.child import tell, until_told

GPU = "nvidia.com/gpu"
GPUS = 8


def uuid(index: int) -> str:
    """The id of a GPU."""
    return f"GPU-5c3a77f0-0000-4000-8000-{index:012d}"


def servicer(root: Path) -> DevicePlugin:
    """The device plugin over a kubelet's folder."""
    clock = SystemClock()
    board = Board()
    board.put(
        Devices(tuple(Device(uuid=uuid(i), index=i, model="NVIDIA-A100") for i in range(GPUS)), reported=True)
    )
    stored: tuple[Pod, ...] = ()
    sources = Sources(
        resource=GPU,
        board=board,
        record=CheckpointFile(root / "device-plugins", GPU),
        pods=NodePods(
            PodsApi(root / "pods-api" / "pods-api.sock", clock),
            PodResources(root / "pod-resources" / "kubelet.sock"),
            lambda: stored,
        ),
    )
    admission = Admission(sources, metrics=AgentMetrics(CollectorRegistry()), clock=clock)
    return DevicePlugin(admission, board, Streams(), strategy=Strategy.CDI, clock=clock)


def main(root: Path) -> None:
    """Serve until standard input ends."""
    logs.configure(level="info")
    server = grpc.server(ThreadPoolExecutor(4))
    api_pb2_grpc.add_DevicePluginServicer_to_server(servicer(root), server)
    server.add_insecure_port(f"unix:{root}/agent.sock")
    server.start()
    tell("ready")
    until_told()
    server.stop(None)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
