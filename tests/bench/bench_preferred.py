"""The kubelet's three calls for a container with a GPU, while its Pods API has a hundred pods.

This process plays the kubelet: its registration, its Pods API with a prepared answer, its checkpoint, its
calls. A whole agent answers, with eight simulated GPUs; for the rows of a driver that hangs, NVML does not
answer for one of them any more.
"""

import json
import queue
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import grpc

from cluster import names
from cluster.objects.slots import PER_GPU, is_slot, slots_of
from devcluster.fakenvml import A100_80GB, FakeNvml, gpu
from devcluster.wait import poll
from deviceplugin.kubelet.channel import channel
from deviceplugin.kubeletapi.deviceplugin_v1beta1 import api_pb2 as dp
from deviceplugin.kubeletapi.deviceplugin_v1beta1 import api_pb2_grpc as dp_grpc
from deviceplugin.kubeletapi.pods_v1alpha1 import api_pb2 as pods_api
from deviceplugin.kubeletapi.pods_v1alpha1 import api_pb2_grpc as pods_api_grpc
from tests.bench.child import child
from tests.bench.lab import Lab
from tests.bench.lone_agent import lone_agent
from tests.bench.measure import Measure
from tests.bench.reader_server import SOCKET
from tests.bench.rows import Kind, Row, Target
from tests.bench.table import percentile
from tests.bench.timing import Work, in_turns
from tests.fakes.kubelet import FakeContainer, FakePod

GPUS: Final = tuple(gpu(A100_80GB, index, node="bench") for index in range(8))
PODS: Final = 100
CALLS: Final = 300
ASSIGNED: Final = GPUS[-1].uuid
HELD_SLOT, FREE_SLOT = slots_of(GPUS[-2].uuid, 2)
HANGS: Final = "nvmlDeviceGetMemoryInfo"
PATIENCE: Final = 60.0
_READ: Final = "an empty call + one read of the kubelet's Pods API, not decoded"
_HUNG: Final = ", a GPU hangs NVML"


def _kinds(name: str, what: str, more: str = "") -> dict[int, Kind]:
    return {
        percent: Kind(
            f"{name}-p{percent}",
            f"{what}, {PODS} pods on the node{more}, p{percent}",
            "ms",
            _READ,
            target=Target(ratio=1.5),
        )
        for percent in (50, 99)
    }


_PREFERRED: Final = _kinds("preferred", "GetPreferredAllocation")
_ALLOCATE: Final = _kinds("allocate", "Allocate")
_PREFERRED_HUNG: Final = _kinds("preferred-hung", "GetPreferredAllocation", _HUNG)
_ALLOCATE_HUNG: Final = _kinds("allocate-hung", "Allocate", _HUNG)
_PRE_START: Final = Kind(
    "prestart-p50",
    f"PreStartContainer, {PODS} pods on the node, p50",
    "ms",
    "an empty call on the same socket",
)


_PREFERRED_SHARE: Final = Kind(
    "preferred-share-p50",
    f"GetPreferredAllocation of a share, {PODS} pods on the node, p50",
    "ms",
    _READ,
    target=Target(value=3),
)
_PRE_START_SHARE: Final = Kind(
    "prestart-share-p50",
    f"PreStartContainer of a share, which writes its limits as CDI, {PODS} pods on the node, p50",
    "ms",
    "an empty call on the same socket",
    target=Target(value=5),
)


class _Pods(pods_api_grpc.PodsServicer):
    """A Pods API that always has the same pods."""

    def __init__(self, answer: pods_api.ListPodsResponse) -> None:
        self._answer = answer

    def ListPods(
        self, request: pods_api.ListPodsRequest, context: grpc.ServicerContext
    ) -> pods_api.ListPodsResponse:
        """All pods."""
        del request, context
        return self._answer

    def GetPod(
        self, request: pods_api.GetPodRequest, context: grpc.ServicerContext
    ) -> pods_api.GetPodResponse:
        """Refused: the agent does not call it."""
        del request
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "only ListPods is measured")
        raise AssertionError


class _Registration(dp_grpc.RegistrationServicer):
    """Only the agent registers here."""

    def __init__(self) -> None:
        self.endpoints: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

    def Register(self, request: dp.RegisterRequest, context: grpc.ServicerContext) -> dp.Empty:
        """Note the socket at which it serves."""
        del context
        self.endpoints.put((request.resource_name, request.endpoint))
        return dp.Empty()

    def of_all(self) -> Mapping[str, str]:
        """Resource -> socket, when the agent has registered whole GPUs and shares."""
        found: dict[str, str] = {}
        while not found.keys() >= {names.GPU_RESOURCE, names.SHARED_RESOURCE}:
            resource, endpoint = self.endpoints.get(timeout=PATIENCE)
            found[resource] = endpoint
        return found


class _Stream:
    """The agent's devices, as the kubelet receives them: an agent without a stream registers again."""

    def __init__(self, agent: dp_grpc.DevicePluginStub) -> None:
        self._call = agent.ListAndWatch(dp.Empty())
        self.health: Mapping[str, str] = {}
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        with suppress(grpc.RpcError):
            for update in self._call:
                self.health = {device.ID: device.health for device in update.devices}

    def close(self) -> None:
        """End the stream."""
        self._call.cancel()

    def await_that(self, uuid: str, health: str) -> None:
        """Wait until the agent reports this health of a device."""
        if not poll(lambda: self.health.get(uuid) == health, seconds=PATIENCE):
            raise RuntimeError(f"The agent does not say that {uuid} is {health}: {self.health}.")


_Served = Mapping[str, tuple[dp_grpc.DevicePluginStub, _Stream]]


def measure(_lab: Lab) -> Iterator[Row]:
    """The median and the slow end, first with a driver that answers, then with one that hangs."""
    with (
        _agent() as (root, fake, served),
        child("tests.bench.reader_server", str(root)),
        channel(root / SOCKET) as reader,
    ):
        floor = dp_grpc.DevicePluginStub(reader)
        yield from _of_shares(*served[names.SHARED_RESOURCE], floor)
        yield from _calls(fake, *served[names.GPU_RESOURCE], floor)


@contextmanager
def allocating() -> Iterator[Work]:
    """All that an agent is asked about one GPU: the three calls, one after the other."""
    with _agent() as (_, _, served):
        agent, stream = served[names.GPU_RESOURCE]
        stream.await_that(GPUS[0].uuid, "Healthy")
        ask, _ = _asking(agent, agent, [one.uuid for one in GPUS], ASSIGNED)
        new = dp.AllocateRequest(container_requests=[dp.ContainerAllocateRequest(devices_ids=[ASSIGNED])])
        held = dp.PreStartContainerRequest(devices_ids=[GPUS[1].uuid])
        yield lambda: (ask(), agent.Allocate(new), agent.PreStartContainer(held))


@contextmanager
def _agent() -> Iterator[tuple[Path, FakeNvml, _Served]]:
    """The kubelet's folder, the driver, and what the agent serves."""
    # Near the root: a socket's path may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="kl", dir="/tmp") as folder:
        root = Path(folder)
        fake = FakeNvml(root / "gpus")
        fake.create(GPUS)
        with (
            _kubelet(root) as registration,
            lone_agent(root, fake),
            _served(root, registration) as served,
        ):
            yield root, fake, served


@contextmanager
def _served(root: Path, registration: _Registration) -> Iterator[_Served]:
    """Resource -> the agent, and its devices."""
    with ExitStack() as stack:
        found: dict[str, tuple[dp_grpc.DevicePluginStub, _Stream]] = {}
        for resource, endpoint in registration.of_all().items():
            path = root / "device-plugins" / endpoint
            agent = dp_grpc.DevicePluginStub(stack.enter_context(channel(path)))
            found[resource] = agent, stack.enter_context(closing(_Stream(agent)))
        yield found


def _of_shares(
    agent: dp_grpc.DevicePluginStub, stream: _Stream, reader: dp_grpc.DevicePluginStub
) -> Iterator[Row]:
    """The choice of a slot among those of eight GPUs, and a start with the CDI specification written."""
    stream.await_that(FREE_SLOT, "Healthy")
    offered = [slot for one in GPUS for slot in slots_of(one.uuid, PER_GPU) if slot != HELD_SLOT]
    ours, floor = in_turns(CALLS, *_asking(agent, reader, offered, FREE_SLOT))
    yield _PREFERRED_SHARE.row(1000 * percentile(ours, 50), 1000 * percentile(floor, 50))
    yield _pre_start(_PRE_START_SHARE, agent, HELD_SLOT)


def _calls(
    fake: FakeNvml, agent: dp_grpc.DevicePluginStub, stream: _Stream, reader: dp_grpc.DevicePluginStub
) -> Iterator[Row]:
    try:
        stream.await_that(GPUS[0].uuid, "Healthy")
        yield from _preferred(_PREFERRED, agent, reader)
        yield from _allocate(_ALLOCATE, agent, reader)
        yield _pre_start(_PRE_START, agent, GPUS[1].uuid)
        fake.hang(HANGS, GPUS[0].uuid)
        stream.await_that(GPUS[0].uuid, "Unhealthy")
        yield from _preferred(_PREFERRED_HUNG, agent, reader)
        yield from _allocate(_ALLOCATE_HUNG, agent, reader)
    finally:
        fake.release(HANGS)


def _preferred(
    kinds: Mapping[int, Kind], agent: dp_grpc.DevicePluginStub, reader: dp_grpc.DevicePluginStub
) -> Iterator[Row]:
    yield from _rows(kinds, *_asking(agent, reader, [one.uuid for one in GPUS], ASSIGNED))


def _asking(
    agent: dp_grpc.DevicePluginStub, reader: dp_grpc.DevicePluginStub, offered: list[str], right: str
) -> tuple[Work, Work]:
    """Asks the agent, and asks the floor, which of these devices is preferred."""
    container_request = dp.ContainerPreferredAllocationRequest(available_deviceIDs=offered, allocation_size=1)
    request = dp.PreferredAllocationRequest(container_requests=[container_request])

    def ask() -> list[str]:
        return list(agent.GetPreferredAllocation(request).container_responses[0].deviceIDs)

    if ask() != [right]:
        raise RuntimeError("The agent does not find the pod; what is measured is not its work.")
    return ask, lambda: reader.GetPreferredAllocation(request)


def _allocate(
    kinds: Mapping[int, Kind], agent: dp_grpc.DevicePluginStub, reader: dp_grpc.DevicePluginStub
) -> Iterator[Row]:
    new = dp.AllocateRequest(container_requests=[dp.ContainerAllocateRequest(devices_ids=[ASSIGNED])])
    yield from _rows(kinds, lambda: agent.Allocate(new), lambda: reader.Allocate(new))


def _pre_start(kind: Kind, agent: dp_grpc.DevicePluginStub, device: str) -> Row:
    held = dp.PreStartContainerRequest(devices_ids=[device])
    ours, floor = in_turns(
        CALLS, lambda: agent.PreStartContainer(held), lambda: agent.GetDevicePluginOptions(dp.Empty())
    )
    return kind.row(1000 * percentile(ours, 50), 1000 * percentile(floor, 50))


def _rows(kinds: Mapping[int, Kind], ours: Work, floor: Work) -> Iterator[Row]:
    taken, least = in_turns(CALLS, ours, floor)
    for percent, kind in kinds.items():
        yield kind.row(1000 * percentile(taken, percent), 1000 * percentile(least, percent))


@contextmanager
def _kubelet(root: Path) -> Iterator[_Registration]:
    """A kubelet with pods that have six GPUs and a share of another, two that wait, and many without any."""
    for name in ("device-plugins", "pod-resources", "pods-api"):
        (root / name).mkdir()
    held = {f"uid-{index}": [one.uuid] for index, one in enumerate(GPUS[:-2])}
    pods = [_pod(uid, devices, started=True) for uid, devices in held.items()]
    pods.append(_pod("uid-new", [ASSIGNED], started=False))
    pods += [_share("uid-share", started=True), _share("uid-new-share", started=False)]
    held["uid-share"] = [HELD_SLOT]
    pods += [_pod(f"uid-other-{number}", [], started=True) for number in range(PODS - len(pods))]
    (root / "device-plugins" / "kubelet_internal_checkpoint").write_text(_checkpoint(held))
    registration, servers = _Registration(), [grpc.server(ThreadPoolExecutor(4)) for _ in range(2)]
    answer = pods_api.ListPodsResponse(pods=[pod.marshal() for pod in pods])
    pods_api_grpc.add_PodsServicer_to_server(_Pods(answer), servers[0])
    servers[0].add_insecure_port(f"unix:{root}/pods-api/pods-api.sock")
    dp_grpc.add_RegistrationServicer_to_server(registration, servers[1])
    servers[1].add_insecure_port(f"unix:{root}/device-plugins/kubelet.sock")
    for server in servers:
        server.start()
    try:
        yield registration
    finally:
        for server in servers:
            server.stop(None)


def _pod(uid: str, devices: list[str], *, started: bool) -> FakePod:
    # What kubectl leaves on a pod: two kilobytes that the agent has to skip.
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "x" * 2048}
    if devices:
        annotations[names.ASSIGNED] = json.dumps({"main": devices})
    containers = [FakeContainer("main", gpus=len(devices)), FakeContainer("side")]
    return FakePod(f"pod-{uid}", uid, containers, annotations=annotations, phase="Running", started=started)


def _share(uid: str, *, started: bool) -> FakePod:
    main = FakeContainer("main", 1, resource=names.SHARED_RESOURCE, amounts={names.GPU_MEMORY: 8192})
    annotations = {names.ASSIGNED: json.dumps({"main": [GPUS[-2].uuid]})}
    return FakePod(f"pod-{uid}", uid, [main], annotations=annotations, phase="Running", started=started)


def _checkpoint(held: dict[str, list[str]]) -> str:
    entries = [
        {
            "PodUID": uid,
            "ContainerName": "main",
            "ResourceName": names.SHARED_RESOURCE if is_slot(ids[0]) else names.GPU_RESOURCE,
            "DeviceIDs": {"-1": ids},
            "AllocResp": "",
        }
        for uid, ids in held.items()
    ]
    return json.dumps({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 1})


MEASURE: Final = Measure(
    "preferred",
    (
        *_PREFERRED.values(),
        *_ALLOCATE.values(),
        _PRE_START,
        _PREFERRED_SHARE,
        _PRE_START_SHARE,
        *_PREFERRED_HUNG.values(),
        *_ALLOCATE_HUNG.values(),
    ),
    measure,
)
