"""The whole agent as a process: a simulated driver, a kubelet in the test, and no API server at all."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import urllib3

from cluster import names
from cluster.fake.clock import eventually
from cluster.objects.slots import as_a_name
from devcluster.fakenvml import H200, FakeNvml, default_gpus, gpu
from devcluster.fakenvml.fake import RunningProcess
from tests.deviceplugin.agents import sockets
from tests.fakes import hurried
from tests.fakes.kubelet import FakeContainer, FakeKubelet, FakePod

REPOSITORY = Path(__file__).resolve().parents[2]


def a_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


class Agent:
    """A running agent and its probes."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.log = log
        self._port = port

    def says(self, path: str) -> tuple[int, str]:
        """Status and text of a probe; 0 while the agent does not listen."""
        try:
            answer = urllib3.request("GET", f"http://127.0.0.1:{self._port}{path}", retries=False, timeout=5)
        except urllib3.exceptions.HTTPError:
            return 0, ""
        return answer.status, answer.data.decode()

    def ready_says(self, text: str) -> bool:
        """Whether /readyz holds this text."""
        return text in self.says("/readyz")[1]


USUAL = (sys.executable, "-m", "deviceplugin")
HURRIED = tuple(hurried.command("deviceplugin"))
"""With a clock that goes five times as fast: for what is done every ten seconds, or given up after five."""


@contextmanager
def agent(
    kubelet: FakeKubelet,
    gpus: FakeNvml,
    tmp_path: Path,
    program: tuple[str, ...] = USUAL,
    **settings: str,
) -> Iterator[Agent]:
    """An agent of a node whose API server refuses connections."""
    dev, token = tmp_path / "dev", tmp_path / "token"
    dev.mkdir(exist_ok=True)
    for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{minor}" for minor in range(4))):
        (dev / name).touch()
    token.write_text("secret")
    port = a_free_port()
    environment = {
        **os.environ,
        **gpus.environment(),
        "GPU_BOOKING_NODE_NAME": "node-a",
        "GPU_BOOKING_INSTANCE": "uid-1",
        "GPU_BOOKING_PORT": str(port),
        "GPU_BOOKING_HOST": "127.0.0.1",
        "GPU_BOOKING_KUBELET_ROOT": str(kubelet.root),
        "GPU_BOOKING_DEVICE_PLUGINS": str(kubelet.plugins),
        "GPU_BOOKING_CDI_DIR": str(tmp_path / "cdi"),
        "GPU_BOOKING_DEV_ROOT": str(dev),
        "GPU_BOOKING_DRIVER_ROOT": str(tmp_path / "no-driver"),
        "GPU_BOOKING_KUBE_SERVER": f"http://127.0.0.1:{a_free_port()}",
        "GPU_BOOKING_KUBE_CA_FILE": str(token),
        "GPU_BOOKING_KUBE_TOKEN_FILE": str(token),
        **settings,
    }
    log = tmp_path / "agent.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            program,
            cwd=REPOSITORY,
            env=environment,
            stdout=output,
            stderr=output,
        )
        try:
            yield Agent(process, port, log)
        finally:
            process.kill()
            process.wait()


def simulated(tmp_path: Path) -> FakeNvml:
    gpus = FakeNvml(tmp_path / "gpus")
    gpus.create(default_gpus(0))
    return gpus


def test_the_kubelet_gets_the_gpus_without_any_api_server(kubelet: FakeKubelet, tmp_path: Path) -> None:
    gpus = simulated(tmp_path)
    with agent(kubelet, gpus, tmp_path) as running:
        eventually(lambda: kubelet.allocatable == 4, deadline=30)
        assert set(kubelet.devices) == set(gpus.uuids())
        spec = json.loads((tmp_path / "cdi" / f"{names.DOMAIN}-gpu.json").read_text())
        assert {device["name"] for device in spec["devices"]} == set(gpus.uuids())
        eventually(lambda: running.ready_says("The inventory could not be written to the Node"))
        assert running.says("/healthz") == (HTTPStatus.OK, "ok\n")
        eventually(
            lambda: (
                'gpu_booking_agent_registered{resource="nvidia.com/gpu"} 1.0' in running.says("/metrics")[1]
            )
        )
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(timeout=30) == 0, running.log.read_text()
    eventually(lambda: kubelet.allocatable == 0)
    assert sockets(kubelet.plugins) == []
    assert (tmp_path / "cdi" / f"{names.DOMAIN}-gpu.json").exists(), "containers may restart meanwhile"


def test_l1_a_gpu_of_which_a_pod_has_a_share_is_not_offered_whole(
    kubelet: FakeKubelet, tmp_path: Path
) -> None:
    gpus = simulated(tmp_path)
    shared, other = gpus.uuids()[:2]
    container = FakeContainer(
        "main", 1, resource=names.SHARED_RESOURCE, amounts={names.GPU_MEMORY_PERCENTAGE: 50}
    )
    pod = FakePod("half", "uid-h", [container], {names.ASSIGNED: json.dumps({"main": [shared]})})
    with agent(kubelet, gpus, tmp_path):
        eventually(lambda: (kubelet.allocatable, len(kubelet.slots)) == (4, 64), deadline=60)
        assert kubelet.admit(pod), pod.message
        eventually(lambda: kubelet.allocatable == 3, deadline=60)
        assert kubelet.devices[shared].health == "Unhealthy"
        kubelet.prestart(pod.uid, "main")
        (slot,) = kubelet.devices_of(pod.uid)
        file = tmp_path / "cdi" / f"{names.SHARE_FILE_PREFIX}{as_a_name(slot)}.json"
        assert f"{names.DEVICES_VARIABLE}={shared}" in file.read_text()
        whole = FakePod("all", "uid-w", [FakeContainer("main", 1)])
        whole.annotations = {names.ASSIGNED: json.dumps({"main": [other]})}
        assert kubelet.admit(whole), whole.message
        eventually(lambda: sum(one.health == "Healthy" for one in kubelet.slots.values()) == 48, deadline=60)
        kubelet.end(pod.uid)
        eventually(lambda: kubelet.allocatable == 4, deadline=60)


@pytest.fixture
def moved(tmp_path: Path) -> Iterator[FakeKubelet]:
    """A kubelet with --root-dir: its folder of device plugins has stayed where it was."""
    with TemporaryDirectory(prefix="kl", dir="/tmp") as folder:  # sockets' paths have to be short
        kubelet = FakeKubelet(Path(folder, "moved"), Path(folder, "usual/device-plugins"))
        process = tmp_path / "proc" / "7"
        process.mkdir(parents=True)
        (process / "cmdline").write_text(f"/usr/bin/kubelet\0--root-dir={kubelet.root}\0")
        kubelet.start()
        yield kubelet
        kubelet.stop()


def test_l6_an_agent_that_looks_in_another_root_folder_than_the_kubelet_s_does_not_serve(
    moved: FakeKubelet, tmp_path: Path
) -> None:
    gpus = simulated(tmp_path)
    first, *_, last = gpus.uuids()
    wrong = moved.plugins.parent
    where = {"GPU_BOOKING_KUBELET_ROOT": str(wrong), "GPU_BOOKING_PROC_ROOT": str(tmp_path / "proc")}
    with agent(moved, gpus, tmp_path, **where) as running:
        eventually(lambda: moved.allocatable == 4, deadline=30)
        advice = f"The kubelet runs with --root-dir {moved.root}, and the agent looks in {wrong}"
        eventually(lambda: running.ready_says(advice))
        assert "gpu_booking_agent_pods_known 0.0" in running.says("/metrics")[1]
        for uuid in (last, first):
            assigned = {names.ASSIGNED: json.dumps({"main": [uuid]})}
            pod = FakePod(uuid, uuid, [FakeContainer("main", gpus=1)], annotations=assigned)
            assert not moved.admit(pod), "it might get another GPU than the assigned one"


def test_an_agent_of_a_kubelet_with_another_root_folder_gives_what_was_assigned(
    moved: FakeKubelet, tmp_path: Path
) -> None:
    gpus = simulated(tmp_path)
    uuid = gpus.uuids()[-1]
    with agent(moved, gpus, tmp_path) as running:
        eventually(lambda: moved.allocatable == 4, deadline=30)
        assigned = {names.ASSIGNED: json.dumps({"main": [uuid]})}
        assert moved.admit(FakePod("a", "uid-a", [FakeContainer("main", gpus=1)], annotations=assigned))
        assert moved.devices_of("uid-a") == {uuid}
        eventually(lambda: "gpu_booking_agent_pods_known 1.0" in running.says("/metrics")[1])
        assert not running.ready_says("pods: ")


def test_a_hanging_driver_does_not_delay_the_end_of_the_agent(kubelet: FakeKubelet, tmp_path: Path) -> None:
    gpus = simulated(tmp_path)
    with agent(kubelet, gpus, tmp_path, HURRIED) as running:
        eventually(lambda: kubelet.allocatable == 4, deadline=30)
        gpus.log_calls()
        gpus.hang("nvmlDeviceGetFieldValues")
        eventually(
            lambda: gpus.calls()[-1:] and gpus.calls()[-1][1] == "nvmlDeviceGetFieldValues", deadline=30
        )
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(timeout=60) == 1
        log = running.log.read_text()
    assert "The call does not return: its thread is left behind." in log
    assert "threads did not end within the grace period" not in log
    eventually(lambda: kubelet.allocatable == 0)


def test_without_a_library_the_agent_reports_it_and_advertises_nothing(
    kubelet: FakeKubelet, tmp_path: Path
) -> None:
    missing = str(tmp_path / "libnvidia-ml.so.1")
    with agent(kubelet, simulated(tmp_path), tmp_path, GPU_BOOKING_NVML_LIBRARY=missing) as running:
        eventually(lambda: running.ready_says("gpus: "), deadline=30)
        eventually(lambda: running.ready_says(missing))
        assert running.says("/readyz")[0] == HTTPStatus.SERVICE_UNAVAILABLE
        assert kubelet.registered == []


def test_without_gpus_the_agent_reports_it_and_advertises_nothing(
    kubelet: FakeKubelet, tmp_path: Path
) -> None:
    gpus = FakeNvml(tmp_path / "gpus")
    gpus.create([])
    with agent(kubelet, gpus, tmp_path) as running:
        eventually(lambda: running.ready_says("NVML lists no GPU"), deadline=30)
        assert kubelet.registered == []


def test_unusable_settings_end_the_agent_with_a_message(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "deviceplugin"],
        cwd=REPOSITORY,
        env={"GPU_BOOKING_DEVICE_LIST_STRATEGY": "magic", "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "GPU_BOOKING_NODE_NAME" in ended.stderr
    assert "'magic'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_agent_loads_none_of_the_heavy_libraries() -> None:
    program = "import sys, deviceplugin.__main__; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    heavy = {"kubernetes", "flask", "peewee", "requests"}
    assert heavy.isdisjoint(loaded.stdout.split())


def test_only_a_gpu_that_hangs_is_unhealthy_and_events_of_the_others_are_received(
    kubelet: FakeKubelet, tmp_path: Path
) -> None:
    gpus = simulated(tmp_path)
    hung, other = gpus.uuids()[:2]
    with agent(kubelet, gpus, tmp_path, HURRIED, GPU_BOOKING_NVML_DEADLINE_SECONDS="5") as running:
        eventually(lambda: kubelet.allocatable == 4, deadline=60)
        gpus.hang("nvmlDeviceGetMemoryInfo", hung)
        eventually(
            lambda: (kubelet.devices[hung].health, kubelet.allocatable) == ("Unhealthy", 3), deadline=120
        )
        # The kubelet is notified before the line is written, by a thread of its own.
        eventually(lambda: "The driver hangs" in running.log.read_text(), deadline=120)
        eventually(lambda: has_become_unhealthy(gpus, kubelet, other), deadline=120)
        gpus.release("nvmlDeviceGetMemoryInfo")
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(timeout=60) == 0, running.log.read_text()


def has_become_unhealthy(gpus: FakeNvml, kubelet: FakeKubelet, gpu: str) -> bool:
    """Whether a fault of a GPU is known; it is made again: one during an initialisation is not received."""
    gpus.xid(gpu, 79)
    return kubelet.devices[gpu].health == "Unhealthy"


def test_the_doctor_reports_what_is_wrong_and_ends(kubelet: FakeKubelet, tmp_path: Path) -> None:
    with agent(kubelet, simulated(tmp_path), tmp_path, program=(*USUAL, "doctor")) as running:
        assert running.process.wait(timeout=120) == 1
        output = running.log.read_text()
    assert "fine    driver: Version 580.159.04 answers and lists GPUs: 4." in output
    assert "wrong   API server: " in output
    assert "Traceback" not in output


def test_holders_usage_and_squatters_of_a_gpu_are_reported(kubelet: FakeKubelet, tmp_path: Path) -> None:
    gpus = simulated(tmp_path)
    first, second = gpus.uuids()[:2]
    owner = {names.USER: "alice", names.BOOKING: "b-1", names.ASSIGNED: json.dumps({"main": [first]})}
    gpus.used(0, percent=87, degrees=61, watts=288)
    gpus.processes(1, RunningProcess(os.getpid(), 3 << 30))
    labels = f'booking="b-1",device="{first}",index="0",namespace="default",pod="train",user="alice"'
    with agent(kubelet, gpus, tmp_path, HURRIED) as running:
        eventually(lambda: kubelet.allocatable == 4, deadline=60)
        kubelet.admit(FakePod("train", "uid-train", [FakeContainer("main", gpus=1)], annotations=owner))

        def holders() -> list[dict[str, object]]:
            return list(json.loads(running.says("/holders")[1])["holders"])

        eventually(lambda: [(one["pod"], one["source"]) for one in holders()] == [("train", "kubelet")])
        assert (holders()[0]["device"], holders()[0]["user"], holders()[0]["booking"]) == (
            first,
            "alice",
            "b-1",
        )
        shown = f"gpu_booking_agent_device_utilisation_ratio{{{labels}}} 0.87"
        eventually(lambda: shown in running.says("/metrics")[1], deadline=120)
        squatter = f'gpu_booking_agent_squatters{{device="{second}",index="1",'
        eventually(lambda: squatter in running.says("/metrics")[1], deadline=120)


def test_a_pod_without_an_assignment_gets_linked_gpus(kubelet: FakeKubelet, tmp_path: Path) -> None:
    gpus = FakeNvml(tmp_path / "gpus")
    ways = ("0/0/0", "1/1/1", "0/0/0", "1/1/1")
    gpus.create([replace(gpu(H200, n), uuid=f"GPU-{n}", place=way) for n, way in enumerate(ways)])
    with agent(kubelet, gpus, tmp_path):
        eventually(lambda: kubelet.allocatable == 4, deadline=30)
        for uid in ("one", "two"):
            kubelet.admit(FakePod(uid, uid, [FakeContainer("main", gpus=2)]))
        assert kubelet.devices_of("one") == {"GPU-0", "GPU-2"}
        assert kubelet.devices_of("two") == {"GPU-1", "GPU-3"}


def test_a_hang_of_the_driver_between_two_gpus_costs_one_of_them_until_it_answers(
    kubelet: FakeKubelet, tmp_path: Path
) -> None:
    gpus, question = simulated(tmp_path), "nvmlDeviceGetTopologyCommonAncestor"
    gpus.log_calls()
    gpus.hang(question)
    with agent(kubelet, gpus, tmp_path, HURRIED, GPU_BOOKING_NVML_DEADLINE_SECONDS="5"):
        eventually(lambda: kubelet.allocatable == 4, deadline=30)
        eventually(lambda: kubelet.allocatable == 3, deadline=60)
        gpus.release(question)
        eventually(lambda: kubelet.allocatable == 4, deadline=120)
        assert [function for _, function, _ in gpus.calls()].count(question) == 1
