"""The kubelet's calls for pods with claims: prepared and unprepared, one after the other and fifty at once.

This process plays the kubelet, another one the API server. A whole agent answers over its socket, on a node
with 56 MIG devices and the libraries of a usual machine. The floor is what the same pod with
``nvidia.com/gpu`` takes: the three calls of the device plugin, answered by an agent beside it.
"""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import grpc

from cluster.process.clock import SystemClock
from devcluster.fakenvml import A100_80GB, FakeNvml, capabilities, gpu, mig
from devcluster.wait import poll
from deviceplugin.kubelet.channel import channel
from deviceplugin.kubeletapi.dra_v1 import api_pb2 as dra
from deviceplugin.kubeletapi.dra_v1 import api_pb2_grpc as dra_grpc
from deviceplugin.kubeletapi.pluginregistration_v1 import api_pb2 as registration
from deviceplugin.kubeletapi.pluginregistration_v1 import api_pb2_grpc as registration_grpc
from tests.bench import bench_preferred
from tests.bench.child import child
from tests.bench.claims_server import uid
from tests.bench.lab import Lab
from tests.bench.lone_agent import lone_agent
from tests.bench.measure import Measure
from tests.bench.rows import Kind, Row, Target
from tests.bench.table import percentile
from tests.bench.timing import in_turns

NODE: Final = "node-a"
PROFILE: Final = "1g.10gb"
PER_GPU: Final = 7
GPUS: Final = tuple(gpu(A100_80GB, index, node="claims") for index in range(8))
DEVICES: Final = tuple(
    f"gpu-{one.minor}-mig-{PROFILE.replace('.', '-')}-{part.gi}"
    for one in GPUS
    for part in mig(one, [PROFILE] * PER_GPU)
)
CALLS: Final = 200
AT_ONCE: Final = 50
ROUNDS: Final = 10
LIBRARIES: Final = 1000
"""Of a usual machine, besides the driver's."""
PATIENCE: Final = 60.0
_IDLE: Final = {
    percent: Kind(
        f"prepare-p{percent}",
        f"NodePrepareResources of a claim for one device, p{percent}",
        "ms",
        "GetPreferredAllocation, Allocate and PreStartContainer for one GPU",
        target=Target(value=value),
    )
    for percent, value in ((50, 8), (95, 15))
}
_MANY: Final = Kind(
    "prepare-many-p95",
    f"the same for {AT_ONCE} claims at once, from the first call to each answer, p95",
    "ms",
    target=Target(value=150),
)


def measure(_lab: Lab) -> Iterator[Row]:
    """All rows."""
    with ExitStack() as stack:
        claims, stub = stack.enter_context(_claims()), stack.enter_context(bench_preferred.allocating())
        first = DEVICES[:1]
        prepare, unprepare = partial(_prepare, claims, first), partial(_unprepare, claims, first)
        ours, _, floor = in_turns(CALLS, prepare, unprepare, stub)
        for percent, kind in _IDLE.items():
            yield kind.row(1000 * percentile(ours, percent), 1000 * percentile(floor, percent))
        many = [seconds for _ in range(ROUNDS) for seconds in _at_once(claims, DEVICES[:AT_ONCE])]
        yield _MANY.row(1000 * percentile(many, 95))


def _prepare(claims: dra_grpc.DRAPluginStub, devices: tuple[str, ...]) -> None:
    answer = claims.NodePrepareResources(dra.NodePrepareResourcesRequest(claims=list(map(_claim, devices))))
    if problems := [one.error for one in answer.claims.values() if one.error or not one.devices]:
        raise RuntimeError(f"The agent does not prepare a claim: {problems[0]}")


def _unprepare(claims: dra_grpc.DRAPluginStub, devices: tuple[str, ...]) -> None:
    claims.NodeUnprepareResources(dra.NodeUnprepareResourcesRequest(claims=list(map(_claim, devices))))


def _at_once(claims: dra_grpc.DRAPluginStub, devices: tuple[str, ...]) -> list[float]:
    """Seconds until each claim was prepared: each has a call of its own, as each pod has in the kubelet."""
    clock, found, done = SystemClock(), list[float](), threading.Semaphore(0)

    def note(_: object) -> None:
        found.append(clock.monotonic() - begin)
        done.release()

    begin = clock.monotonic()
    for device in devices:
        request = dra.NodePrepareResourcesRequest(claims=[_claim(device)])
        claims.NodePrepareResources.future(request).add_done_callback(note)
    for _ in devices:
        done.acquire()
    _prepare(claims, devices)
    _unprepare(claims, devices)
    return found


def _claim(device: str) -> dra.Claim:
    return dra.Claim(namespace="vision", name=device, uid=uid(device))


@contextmanager
def _claims() -> Iterator[dra_grpc.DRAPluginStub]:
    """The driver of an agent that gives MIG devices by claims."""
    with tempfile.TemporaryDirectory(prefix="kl", dir="/tmp") as folder, ExitStack() as stack:
        root = Path(folder)
        for name in ("device-plugins", "plugins_registry"):
            (root / name).mkdir()
        fake = _partitioned(root)
        port = stack.enter_context(child("tests.bench.claims_server", NODE))
        settings = {
            "device_plugin": "dra",
            "kube_server": f"http://127.0.0.1:{port}",
            "driver_root": str(_libraries(root / "driver")),
        }
        stack.enter_context(lone_agent(root, fake, settings))
        claims = dra_grpc.DRAPluginStub(stack.enter_context(channel(_registered(root))))
        if not poll(lambda: _is_ready(claims), seconds=PATIENCE):
            raise RuntimeError("The agent does not prepare a claim.")
        yield claims


def _partitioned(root: Path) -> FakeNvml:
    fake = FakeNvml(root / "gpus")
    fake.create(GPUS)
    (root / "dev" / capabilities.FOLDER).mkdir(parents=True)
    for one in GPUS:
        parts = mig(one, [PROFILE] * PER_GPU)
        fake.mig(one.uuid, parts, with_event=False)
        for part in parts:
            for ci in (None, part.ci):
                number = capabilities.number(one.minor, part.gi, ci)
                (root / "dev" / capabilities.FOLDER / f"nvidia-cap{number}").touch()
    return fake


def _libraries(root: Path) -> Path:
    folder = root / "usr/lib/x86_64-linux-gnu"
    folder.mkdir(parents=True)
    for number in range(LIBRARIES):
        (folder / f"libusual{number}.so.1.0").touch()
        (folder / f"libusual{number}.so.1").symlink_to(f"libusual{number}.so.1.0")
    for name in ("ml", "cfg", "ptxjitcompiler", "allocator"):
        (folder / f"libnvidia-{name}.so.580.159.04").touch()
    return root


def _registered(root: Path) -> Path:
    """The driver's socket, once the agent is registered."""
    registry = root / "plugins_registry"
    found = poll(lambda: next(registry.glob("*.sock"), None), seconds=PATIENCE)
    if found is None:
        raise RuntimeError("The agent does not register its driver.")
    with channel(found) as kubelet:
        plugin = registration_grpc.RegistrationStub(kubelet)
        answer = plugin.GetInfo(registration.InfoRequest(), wait_for_ready=True, timeout=PATIENCE)
        plugin.NotifyRegistrationStatus(registration.RegistrationStatus(plugin_registered=True))
    return Path(answer.endpoint)


def _is_ready(claims: dra_grpc.DRAPluginStub) -> bool:
    try:
        _prepare(claims, DEVICES)
    except (RuntimeError, grpc.RpcError):
        return False
    _unprepare(claims, DEVICES)
    return True


KINDS: Final = (*_IDLE.values(), _MANY)
MEASURE: Final = Measure("prepare", KINDS, measure)
