"""While the kubelet waits: no NVML, no file but its checkpoint, no exception, no wait for anybody else.

Its calls GetPreferredAllocation and Allocate have no time limit, and an error fails the pod for good.
"""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from cluster import names
from cluster.fake.clock import FakeClock
from cluster.objects.pods import Pod
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.allocation.preferred import AllocationRequest, Verdict
from deviceplugin.allocator import Allocator, AllocatorSources
from deviceplugin.device_cache import AdvertisedDevices, DeviceCache
from deviceplugin.kubelet.checkpoint import CheckpointError
from deviceplugin.kubelet.pod_resources import PodResourcesError
from deviceplugin.kubelet.pod_source import PodSource
from deviceplugin.kubelet.pods_api import PodsApiError
from deviceplugin.metrics import AgentMetrics
from tests.deviceplugin.agents import RunningAgent, devices
from tests.deviceplugin.pods import pod
from tests.deviceplugin.test_allocator_with_a_kubelet import a_pod
from tests.fakes.kubelet import FakeContainer, FakeKubelet

REPOSITORY = Path(__file__).resolve().parents[2]
QUIET = ("object.", "sys._", "import", "compile", "exec", "marshal.", "code.", "builtins.id")
"""Audit events that are no I/O."""


class Onlooker:
    """Writes down what Python code of the kubelet's calls asks of the operating system.

    An audit hook cannot be taken away again: it records only while it is switched on.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] | None = None
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.seen is None or not threading.current_thread().name.startswith("kubelet-call"):
            return
        if not event.startswith(QUIET):
            self.seen.append((event, str(arguments[0]) if arguments else ""))

    @contextmanager
    def recording(self) -> Iterator[list[tuple[str, str]]]:
        self.seen = found = []
        try:
            yield found
        finally:
            self.seen = None


@pytest.fixture(scope="module")
def onlooker() -> Onlooker:
    return Onlooker()


def test_only_the_kubelet_s_checkpoint_and_its_pods_are_read(
    kubelet: FakeKubelet, onlooker: Onlooker
) -> None:
    def stored() -> tuple[Pod, ...]:
        raise AssertionError("the API server is asked")

    with RunningAgent(kubelet, advertised=devices(8), stored=stored):
        # Whatever is loaded or looked up once is so by now.
        kubelet.admit(a_pod("GPU-7"))
        kubelet.calls.clear()
        containers = [FakeContainer("setup", 1, init=True), FakeContainer("main", 2)]
        with onlooker.recording() as seen:
            for one in (a_pod("GPU-1"), a_pod("GPU-2", "GPU-3"), a_pod(), a_pod(containers=containers)):
                assert kubelet.admit(one)
    assert {event for event, _ in seen} == {"open"}
    assert {what for _, what in seen} == {str(kubelet.checkpoint)}
    assert set(kubelet.calls) == {"ListPods"}


def test_the_test_s_observer_detects_a_file_a_connection_and_a_process(
    onlooker: Onlooker, tmp_path: Path
) -> None:
    def body() -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(OSError, match="No such file"):
            connect_to_a_missing_socket(tmp_path)
        subprocess.run(["/bin/true"], check=True)

    with onlooker.recording() as seen:
        thread = threading.Thread(target=body, name="kubelet-call-0")
        thread.start()
        thread.join()
    assert {"open", "socket.connect", "subprocess.Popen"} <= {event for event, _ in seen}


def connect_to_a_missing_socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(str(folder / "missing.sock"))


def test_code_that_answers_the_kubelet_loads_no_nvml_and_no_http() -> None:
    program = "import sys, deviceplugin.plugin; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.split()
    assert "deviceplugin.allocator" in loaded
    foreign = {"pynvml", "urllib3", "waitress", "deviceplugin.nvml.real", "deviceplugin.nvml.watch"}
    assert foreign.isdisjoint(loaded)


class Faulty:
    """Every source at once; each fails as the test says."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def list(self, *, patient: bool = True) -> tuple[Pod, ...]:
        del patient
        raise self.error

    def is_missing(self) -> bool:
        raise self.error

    def names(self) -> frozenset[tuple[str, str]]:
        raise self.error

    def read(self) -> PodDevices:
        raise self.error

    def stored(self) -> tuple[Pod, ...]:
        raise self.error


FAULTS = [
    PodsApiError("flooded", code=grpc.StatusCode.RESOURCE_EXHAUSTED),
    PodResourcesError("away"),
    CheckpointError("another form"),
    OSError(28, "No space left on device"),
    PermissionError(13, "Permission denied"),
    KeyError("null"),
    RecursionError(),
    MemoryError(),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
]


@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("broken", ["everything", "checkpoint", "pods"])
def test_the_kubelet_is_answered_whatever_fails(error: Exception, broken: str) -> None:
    faulty, device_cache = Faulty(error), DeviceCache()
    device_cache.put(AdvertisedDevices(devices(4), reported=True))

    class Well(Faulty):
        def list(self, *, patient: bool = True) -> tuple[Pod, ...]:
            del patient
            return (pod("a", assignment=["GPU-2"]),)

        def read(self) -> PodDevices:
            return PodDevices()

    well = Well(error)
    kubelet = faulty if broken in {"everything", "pods"} else well
    admission = Allocator(
        AllocatorSources(
            resource=names.GPU_RESOURCE,
            device_cache=device_cache,
            checkpoint=faulty if broken in {"everything", "checkpoint"} else well,
            pods=PodSource(kubelet, faulty, faulty.stored),
        ),
        metrics=AgentMetrics(CollectorRegistry()),
        clock=FakeClock(),
    )
    everything = frozenset(device.uuid for device in devices(4))
    with capture_logs():
        for size in (1, 4):
            for must in (frozenset[str](), frozenset({"GPU-3"})):
                choice = admission.prefer(AllocationRequest(everything, must, size))
                if broken == "checkpoint" and isinstance(error, CheckpointError):
                    assert len(choice.devices) == size
                    assert must <= set(choice.devices) <= everything
                else:  # something may have been assigned to the pod that is being admitted (law L6)
                    assert (choice.verdict, choice.devices) == (Verdict.PODS_UNAVAILABLE, ())
        assert admission.held(everything) is None
