"""MPS on a card: the chart's program keeps the daemons, and processes get what a slot's CDI file tells them.

It sets the compute mode of the cards, and sets it back: only with ``MPS=1``. Root.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from cluster import mps_names, names
from cluster.fake.clock import eventually
from cluster.objects.inventory import Sharing
from cluster.objects.pods import Pod
from cluster.process.clock import SystemClock
from devcluster.paths import CHECKOUT
from deviceplugin.injection.mps_daemons import MpsDaemons
from deviceplugin.injection.share_edits import share_edits
from deviceplugin.nvml.inventory import read_inventory
from deviceplugin.nvml.real import RealNvml
from tests.deviceplugin.pods import pod, share
from tests.gpu.work import JOB

pytestmark = pytest.mark.gpu

PROGRAM = CHECKOUT / "charts/gpu-booking/files/mps.sh"
LIMIT_MIB = 8192
ASKS = f"""
import ctypes, sys
sys.path.insert(0, {str(JOB.parent)!r})
from cuda_job import Cuda
cuda, free, total = Cuda(), ctypes.c_size_t(), ctypes.c_size_t()
cuda("cuInit", 0)
cuda.begin()
cuda("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
print(free.value >> 20)
"""
"""A program that says how many MiB it may have."""


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[MpsDaemons]:
    if not os.environ.get("MPS") or os.geteuid() != 0:
        pytest.skip("MPS WAS NOT TRIED: it sets the compute mode, so it needs root and MPS=1")
    if shutil.which("nvidia-cuda-mps-control") is None:
        pytest.skip("MPS WAS NOT TRIED: there is no nvidia-cuda-mps-control here")
    root = tmp_path / "mps"
    process = subprocess.Popen(
        ["/bin/sh", str(PROGRAM)], env={**os.environ, "MPS_ROOT": str(root), "MPS_POD": "uid-mps"}
    )
    found = MpsDaemons(root, SystemClock())
    eventually(found.answering)
    yield found
    process.send_signal(signal.SIGTERM)
    process.wait()


def free_mib(environment: Mapping[str, str]) -> int | None:
    """What a process with this environment may have; None where CUDA refuses it."""
    done = subprocess.run(
        [sys.executable, "-c", ASKS],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return int(done.stdout) if done.returncode == 0 else None


def sharing(limits: Mapping[str, str | int]) -> Pod:
    bare = pod("a", app=(share("main", **limits),))
    meta = msgspec.structs.replace(bare.metadata, annotations={names.SHARING_MODE: "mps"})
    return msgspec.structs.replace(bare, metadata=meta)


def test_a_process_has_what_its_slot_says_and_nobody_gets_around_the_daemon(
    nvml: RealNvml, daemons: MpsDaemons
) -> None:
    first = next(d for d in read_inventory(nvml, lambda _pci: None) if d.uuid in daemons.answering())
    device = msgspec.structs.replace(first.published, share=Sharing(slots=16, memory=first.published.memory))
    edits = share_edits(
        sharing({names.GPU_MEMORY: LIMIT_MIB}), ("main",), (device,), pipe=daemons.pipe(first.uuid)
    )
    around = {"CUDA_VISIBLE_DEVICES": first.uuid, mps_names.PIPE_VARIABLE: "/nonexistent"}
    assert (free_mib(around) or 0) > LIMIT_MIB
    assert daemons.why_not_yet([first.uuid], is_mps=True) is None
    assert 0 < (free_mib(edits.environment) or 0) <= LIMIT_MIB
    holder = subprocess.Popen(
        [sys.executable, str(JOB), "60"], env={**os.environ, **edits.environment}, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline()
        assert free_mib(around) is None
        assert 0 < (free_mib(edits.environment) or 0) <= LIMIT_MIB
    finally:
        holder.kill()
        holder.wait()
    daemons.want(())
    assert daemons.why_not_yet([first.uuid], is_mps=False) is None
    assert (free_mib(around) or 0) > LIMIT_MIB
