"""The whole agent as a process on a machine where something is wrong: the driver, a disk, its settings."""

import json
import resource
import shutil
from http import HTTPStatus
from pathlib import Path

import pytest

from cluster import names
from cluster.fake.clock import eventually
from devcluster.fakenvml import FakeNvml
from tests.deviceplugin.test_agent_process import Agent, agent, simulated
from tests.deviceplugin.test_allocator_with_a_kubelet import a_pod
from tests.fakes.kubelet import FakeKubelet

LONG = 120.0
DEADLINE = {names.setting("nvml_deadline_seconds"): "1"}
OF_ONE_GPU = ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetFieldValues", "nvmlDeviceGetRemappedRows")


def admitted(kubelet: FakeKubelet, *gpus: str) -> None:
    """A pod comes, gets what it was assigned, starts and ends."""
    pod = a_pod(*gpus)
    assert kubelet.admit(pod), pod.message
    assert kubelet.devices_of(pod.uid) == set(gpus)
    kubelet.prestart(pod.uid, "main")
    kubelet.end(pod.uid)


def state_of(running: Agent, gpu: str) -> str:
    """State and reason of a GPU in the metrics."""
    lines = running.says("/metrics")[1].splitlines()
    state = f"{names.METRICS_PREFIX}_agent_device_state{{"
    return "".join(line for line in lines if line.startswith(state) and gpu in line)


def test_a_healthy_gpu_is_given_to_a_pod_beside_one_that_hangs_one_lost_and_one_failing(
    kubelet: FakeKubelet, tmp_path: Path
) -> None:
    gpus = simulated(tmp_path)
    hung, lost, broken, well = gpus.uuids()
    with agent(kubelet, gpus, tmp_path, **DEADLINE) as running:
        eventually(lambda: kubelet.allocatable == 4, deadline=LONG)
        gpus.hang("nvmlDeviceGetMemoryInfo", hung)
        gpus.lose(lost)
        gpus.error("nvmlDeviceGetRemappedRows", broken, 999)
        admitted(kubelet, well)
        eventually(lambda: kubelet.allocatable == 1, deadline=LONG)
        for _ in range(5):
            admitted(kubelet, well)
        assert {device.ID for device in kubelet.devices.values() if device.health == "Healthy"} == {well}
        for gpu, why in ((hung, "The driver hangs"), (lost, "lost"), (broken, "NVML error 999")):
            assert 'state="healthy"' not in state_of(running, gpu)
            assert why in state_of(running, gpu)
        # Neither is a reason to restart the agent, nor does it keep the others from being checked.
        assert running.says("/livez") == running.says("/healthz") == (HTTPStatus.OK, "ok\n")
        gpus.clear()
        eventually(lambda: "The driver hangs" not in state_of(running, hung), deadline=LONG)


def test_while_every_call_about_a_gpu_hangs_pods_are_admitted(kubelet: FakeKubelet, tmp_path: Path) -> None:
    gpus = simulated(tmp_path)
    with agent(kubelet, gpus, tmp_path) as running:
        eventually(lambda: kubelet.allocatable == 4, deadline=LONG)
        gpus.log_calls()
        for call in OF_ONE_GPU:
            gpus.hang(call)
        eventually(lambda: gpus.calls()[-1:] and gpus.calls()[-1][1] in OF_ONE_GPU, deadline=LONG)
        for gpu in gpus.uuids():
            admitted(kubelet, gpu)
        assert running.says("/livez") == (HTTPStatus.OK, "ok\n")
        for call in OF_ONE_GPU:
            gpus.release(call)


def test_healthz_reports_a_kubelet_that_is_away_and_the_agent_lives(
    kubelet: FakeKubelet, tmp_path: Path
) -> None:
    with agent(kubelet, simulated(tmp_path), tmp_path) as running:
        eventually(lambda: running.says("/healthz")[0] == HTTPStatus.OK, deadline=LONG)
        kubelet.stop()
        eventually(lambda: "kubelet: " in running.says("/healthz")[1], deadline=LONG)
        assert running.says("/healthz")[0] == HTTPStatus.SERVICE_UNAVAILABLE
        assert running.says("/livez") == (HTTPStatus.OK, "ok\n")


def test_healthz_reports_a_driver_that_is_missing_and_the_agent_lives(
    kubelet: FakeKubelet, tmp_path: Path
) -> None:
    gpus = FakeNvml(tmp_path / "gpus")
    gpus.create([])
    with agent(kubelet, gpus, tmp_path) as running:
        eventually(lambda: "gpus: NVML lists no GPU" in running.says("/healthz")[1], deadline=LONG)
        assert running.says("/livez") == (HTTPStatus.OK, "ok\n")


def test_a_full_disk_takes_gpus_out_of_use_and_leaves_nothing_half_written(
    kubelet: FakeKubelet, tmp_path: Path
) -> None:
    gpus, cdi = simulated(tmp_path), tmp_path / "cdi"
    with agent(kubelet, gpus, tmp_path) as running:
        eventually(lambda: kubelet.allocatable == 4, deadline=LONG)
        whole = (cdi / f"{names.DOMAIN}-gpu.json").read_bytes()
        admitted(kubelet, gpus.uuids()[0])
        # For every file that the agent writes the disk is full after 100 bytes.
        _, hard = resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (100, hard))
        (cdi / f"{names.DOMAIN}-gpu.json").unlink()
        eventually(lambda: kubelet.allocatable == 0, deadline=LONG)
        assert kubelet.capacity == 4
        assert "The CDI specification cannot be written" in state_of(running, gpus.uuids()[0])
        assert list(cdi.iterdir()) == []
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        eventually(lambda: kubelet.allocatable == 4, deadline=LONG)
        assert (cdi / f"{names.DOMAIN}-gpu.json").read_bytes() == whole
        admitted(kubelet, gpus.uuids()[1])


def test_after_a_reboot_pods_that_were_there_keep_their_gpus_and_a_missing_one_is_known(
    kubelet: FakeKubelet, tmp_path: Path
) -> None:
    """The kubelet has its checkpoint and its pods; a GPU has not come back; the reset has mended a fault."""
    gpus, proc = simulated(tmp_path), tmp_path / "proc"
    boot = proc / "sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("first")
    held, gone, faulty, _ = gpus.uuids()
    where = {names.setting("proc_root"): str(proc)}
    pods = [a_pod(held), a_pod(gone)]
    with agent(kubelet, gpus, tmp_path, **where):
        eventually(lambda: kubelet.allocatable == 4, deadline=LONG)
        for pod in pods:
            assert kubelet.admit(pod), pod.message
        gpus.xid(faulty, 79)
        eventually(lambda: kubelet.allocatable == 3, deadline=LONG)
    kubelet.stop()
    boot.write_text("second")
    gpus.remove_gpu(gone)
    shutil.rmtree(tmp_path / "cdi")  # it is in memory
    kubelet.start()
    with agent(kubelet, gpus, tmp_path, **where):
        eventually(lambda: (kubelet.capacity, kubelet.allocatable) == (4, 3), deadline=LONG)
        assert kubelet.devices[gone].health == "Unhealthy"
        assert kubelet.devices[faulty].health == "Healthy"
        kubelet.prestart(pods[0].uid, "main")
        with pytest.raises(Exception, match="NVML does not list this GPU any more"):
            kubelet.prestart(pods[1].uid, "main")
        admitted(kubelet, faulty)
        spec = json.loads((tmp_path / "cdi" / f"{names.DOMAIN}-gpu.json").read_text())
        assert gone not in {device["name"] for device in spec["devices"]}
