"""The kubelet's three questions about a container with a GPU, while its Pods API knows a hundred pods.

This process plays the kubelet: its Pods API with an answer made beforehand, its checkpoint, its call. The
agent that answers is a process of its own.
"""

import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc

from cluster import names
from deviceplugin.kubeletapi.deviceplugin_v1beta1 import api_pb2 as dp
from deviceplugin.kubeletapi.deviceplugin_v1beta1 import api_pb2_grpc as dp_grpc
from deviceplugin.kubeletapi.pods_v1alpha1 import api_pb2 as pods_api
from deviceplugin.kubeletapi.pods_v1alpha1 import api_pb2_grpc as pods_api_grpc
from deviceplugin.kubeletclient import channel
from tests.bench.agent_server import GPU, GPUS, uuid
from tests.bench.child import child
from tests.bench.table import Floor, Row, percentile
from tests.bench.timing import Work, in_turns
from tests.fakes.kubelet import FakeContainer, FakePod

PODS = 100
CALLS = 300
PROMISED = uuid(GPUS - 1)
FLOOR = "an empty call on the same socket"


class _Pods(pods_api_grpc.PodsServicer):
    """Always the same pods."""

    def __init__(self, answer: pods_api.ListPodsResponse) -> None:
        self._answer = answer

    def ListPods(
        self, request: pods_api.ListPodsRequest, context: grpc.ServicerContext
    ) -> pods_api.ListPodsResponse:
        """All of them."""
        del request, context
        return self._answer

    def GetPod(
        self, request: pods_api.GetPodRequest, context: grpc.ServicerContext
    ) -> pods_api.GetPodResponse:
        """Nobody asks."""
        del request
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "only ListPods is measured")
        raise AssertionError


def measure() -> Iterator[Row]:
    """The median and the slow end."""
    # Near the root: a socket's path may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="kl", dir="/tmp") as folder:
        root = Path(folder)
        with _kubelet(root), child("tests.bench.agent_server", folder), channel(root / "agent.sock") as line:
            yield from _calls(dp_grpc.DevicePluginStub(line))


def _calls(stub: dp_grpc.DevicePluginStub) -> Iterator[Row]:
    yield from _preferred(stub)
    new = dp.AllocateRequest(container_requests=[dp.ContainerAllocateRequest(devices_ids=[PROMISED])])
    yield from _rows("Allocate", stub, lambda: stub.Allocate(new), percents=(50,))
    held = dp.PreStartContainerRequest(devices_ids=[uuid(0)])
    yield from _rows("PreStartContainer", stub, lambda: stub.PreStartContainer(held), percents=(50,))


def _preferred(stub: dp_grpc.DevicePluginStub) -> Iterator[Row]:
    offered = [uuid(index) for index in range(GPUS)]
    asked = dp.ContainerPreferredAllocationRequest(available_deviceIDs=offered, allocation_size=1)
    request = dp.PreferredAllocationRequest(container_requests=[asked])

    def ask() -> list[str]:
        return list(stub.GetPreferredAllocation(request).container_responses[0].deviceIDs)

    if ask() != [PROMISED]:
        raise RuntimeError("The agent does not find the pod; what is measured is not its work.")
    yield from _rows("GetPreferredAllocation", stub, ask, percents=(50, 99))


def _rows(
    name: str, stub: dp_grpc.DevicePluginStub, ask: Work, *, percents: tuple[int, ...]
) -> Iterator[Row]:
    ours, floor = in_turns(CALLS, ask, lambda: stub.GetDevicePluginOptions(dp.Empty()))
    for percent in percents:
        yield Row(
            f"{name}, {PODS} pods on the node, p{percent}",
            1000 * percentile(ours, percent),
            "ms",
            Floor(1000 * percentile(floor, percent), FLOOR),
        )


@contextmanager
def _kubelet(root: Path) -> Iterator[None]:
    """Seven pods with a GPU, one that is being admitted, and many without."""
    for name in ("device-plugins", "pod-resources", "pods-api"):
        (root / name).mkdir()
    held = {f"uid-{index}": [uuid(index)] for index in range(GPUS - 1)}
    pods = [_pod(uid, devices, started=True) for uid, devices in held.items()]
    pods.append(_pod("uid-new", [PROMISED], started=False))
    pods += [_pod(f"uid-other-{number}", [], started=True) for number in range(PODS - len(pods))]
    (root / "device-plugins" / "kubelet_internal_checkpoint").write_text(_checkpoint(held))
    server = grpc.server(ThreadPoolExecutor(4))
    answer = pods_api.ListPodsResponse(pods=[pod.marshal() for pod in pods])
    pods_api_grpc.add_PodsServicer_to_server(_Pods(answer), server)
    server.add_insecure_port(f"unix:{root}/pods-api/pods-api.sock")
    server.start()
    try:
        yield
    finally:
        server.stop(None)


def _pod(uid: str, devices: list[str], *, started: bool) -> FakePod:
    # What kubectl leaves on a pod: two kilobytes that the agent has to read past.
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "x" * 2048}
    if devices:
        annotations[names.ASSIGNED] = json.dumps({"main": devices})
    containers = [FakeContainer("main", gpus=len(devices)), FakeContainer("beside")]
    return FakePod(f"pod-{uid}", uid, containers, annotations=annotations, phase="Running", started=started)


def _checkpoint(held: dict[str, list[str]]) -> str:
    entries = [
        {
            "PodUID": uid,
            "ContainerName": "main",
            "ResourceName": GPU,
            "DeviceIDs": {"-1": ids},
            "AllocResp": "",
        }
        for uid, ids in held.items()
    ]
    return json.dumps({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 1})
