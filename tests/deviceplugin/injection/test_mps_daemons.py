"""The pod with MPS's control daemons, as the chart has it, and the node agent: they speak by files.

NVIDIA's two programs are played (tests/standin).
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import mps_names
from cluster.fake.clock import FakeClock, eventually
from cluster.process.clock import SystemClock
from devcluster.paths import CHECKOUT
from deviceplugin.injection.mps_daemons import MANY, PATIENCE, SILENT_AFTER, MpsDaemons

PROGRAM = CHECKOUT / "charts/gpu-booking/files/mps.sh"
STANDINS = {"nvidia-cuda-mps-control": "mps_control.py", "nvidia-smi": "nvidia_smi.py"}
GPUS = frozenset({"GPU-0", "GPU-1"})


class DaemonsPod:
    """The pod on a node of two GPUs, and one in MIG mode."""

    def __init__(self, folder: Path) -> None:
        self.root, self.modes = folder / "mps", folder / "modes"
        programs = folder / "bin"
        for one in (programs, self.modes):
            one.mkdir()
        for name, standin in STANDINS.items():
            path = programs / name
            path.write_text(f'#!/bin/sh\nexec {sys.executable} -I {CHECKOUT}/tests/standin/{standin} "$@"\n')
            path.chmod(0o755)
        environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "GPUS": "GPU-0, Disabled\nGPU-1, [N/A]\nGPU-2, Enabled",
            "MODES": str(self.modes),
            "MPS_ROOT": str(self.root),
            "MPS_POD": "uid-mps",
            "MPS_ASK_EVERY": "1",
            "MPS_PATIENCE": "1",
        }
        self.process = subprocess.Popen(["/bin/sh", str(PROGRAM)], env=environment)

    def called(self, uuid: str) -> list[str]:
        return (self.root / uuid / mps_names.PIPES / "called").read_text().split()

    def mode(self, uuid: str) -> str:
        return (self.modes / uuid).read_text()

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[DaemonsPod]:
    pod = DaemonsPod(tmp_path)
    yield pod
    pod.end()


@pytest.fixture
def agent(pod: DaemonsPod) -> MpsDaemons:
    agent = MpsDaemons(pod.root, SystemClock())
    eventually(lambda: agent.answering() == GPUS)
    return agent


def test_each_gpu_has_a_daemon_for_all_users_and_is_exclusive_while_it_is_shared_by_it(
    pod: DaemonsPod, agent: MpsDaemons
) -> None:
    assert pod.called("GPU-0")[:3] == ["-f", "-multiuser-server", "GPU-0"]
    assert agent.pod() == {"uid-mps"}
    assert pod.mode("GPU-0") == "DEFAULT"
    assert agent.why_not_yet(["GPU-0"], is_mps=True) is None
    assert pod.mode("GPU-0") == mps_names.EXCLUSIVE
    assert pod.mode("GPU-1") == "DEFAULT"
    agent.want(())
    assert agent.why_not_yet(["GPU-0", "GPU-1"], is_mps=False) is None
    assert pod.mode("GPU-0") == "DEFAULT"
    agent.want({"GPU-1"})
    eventually(lambda: pod.mode("GPU-1") == mps_names.EXCLUSIVE)
    pod.end()
    assert {pod.mode(uuid) for uuid in GPUS} == {"DEFAULT"}
    assert agent.answering() == agent.pod() == frozenset()


def test_a_daemon_that_ended_is_started_again_where_its_clients_find_it(
    pod: DaemonsPod, agent: MpsDaemons
) -> None:
    before = (pod.root / "GPU-0" / mps_names.PIPES).stat().st_ino
    *_, first = pod.called("GPU-0")
    os.kill(int(first), signal.SIGKILL)
    eventually(lambda: _other_than(pod, first) and agent.answering() == GPUS)
    assert (pod.root / "GPU-0" / mps_names.PIPES).stat().st_ino == before


def _other_than(pod: DaemonsPod, pid: str) -> bool:
    try:
        words = pod.called("GPU-0")
    except OSError:
        return False
    return bool(words) and words[-1] != pid  # the new daemon may have opened the file, and not written yet


def test_a_daemon_that_does_not_answer_loses_the_mode_and_nothing_else(pod: DaemonsPod) -> None:
    clock = FakeClock(self_advancing=True)
    agent = MpsDaemons(pod.root, clock)
    eventually(lambda: agent.answering() == GPUS)
    pipes, words = pod.root / "GPU-0" / mps_names.PIPES, pod.called("GPU-0")
    (pipes / "hangs").touch()
    eventually((pipes / "waits").exists)
    agent.answering()
    clock.advance(SILENT_AFTER)
    eventually(lambda: agent.answering() == {"GPU-1"})
    assert agent.why_not_yet(["GPU-0"], is_mps=False) is None
    assert "does not answer" in (agent.why_not_yet(["GPU-0"], is_mps=True) or "")
    assert pod.called("GPU-0") == words
    os.kill(int(words[-1]), 0)
    (pipes / "hangs").unlink()
    eventually(lambda: "GPU-0" in agent.answering())


def test_where_there_are_no_daemons_whole_pods_start_and_pods_of_the_mode_wait(tmp_path: Path) -> None:
    clock = FakeClock(self_advancing=True)
    for root in (None, tmp_path):
        agent = MpsDaemons(root, clock)
        agent.want({"GPU-0"})
        assert (agent.answering(), agent.pod()) == (frozenset(), frozenset())
        assert agent.why_not_yet(["GPU-0"], is_mps=False) is None
        before = clock.monotonic()
        assert agent.why_not_yet(["GPU-0"], is_mps=True)
        assert clock.monotonic() - before <= PATIENCE + 1
    assert (agent.why_not_yet(["GPU-0", "GPU-1"], is_mps=True) or "").startswith(MANY)
