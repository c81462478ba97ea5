"""Several processes on one simulated node: each has its own initialisation, all see the same GPUs."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster.fakenvml import CompilerMissingError, FakeNvml, library
from devcluster.fakenvml.build import sources

CHILD = """
import ctypes, os, sys, pynvml
ctypes.CDLL(os.environ["GPU_BOOKING_NVML_LIBRARY"])
try:
    pynvml.nvmlDeviceGetCount()
except pynvml.NVMLError as error:
    print(type(error).__name__, flush=True)
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
print(pynvml.nvmlDeviceGetUUID(handle), flush=True)
events = pynvml.nvmlEventSetCreate()
pynvml.nvmlDeviceRegisterEvents(handle, 8, events)
print("listening", flush=True)
print(pynvml.nvmlEventSetWait(events, 60000).eventData, flush=True)
sys.stdin.readline()
try:
    print(pynvml.nvmlDeviceGetName(handle))
except pynvml.NVMLError as error:
    print(type(error).__name__, flush=True)
"""


def test_two_processes_see_the_same_gpus_events_and_losses(fake: FakeNvml) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    outputs = [child.stdout for child in children if child.stdout]
    for output in outputs:
        assert output.readline().strip() == "NVMLError_Uninitialized"
        assert output.readline().strip() == fake.uuids()[0]
        assert output.readline().strip() == "listening"
    fake.xid(0, 79)
    assert [output.readline().strip() for output in outputs] == ["79", "79"]
    fake.lose(0)
    for child in children:
        printed, _ = child.communicate("go on\n", timeout=60)
        assert printed.strip() == "NVMLError_GpuIsLost"
        assert child.returncode == 0


FORKING = """
import ctypes, os, pynvml
ctypes.CDLL(os.environ["GPU_BOOKING_NVML_LIBRARY"])
pynvml.nvmlInit()
if (child := os.fork()) == 0:
    try:
        pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        print(f"{type(error).__name__}({error.value})")
    pynvml.nvmlInit()
    print("child", pynvml.nvmlDeviceGetCount(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print("parent", pynvml.nvmlDeviceGetCount())
"""


def test_a_forked_child_is_not_initialised_until_it_initialises_itself(fake: FakeNvml) -> None:
    assert len(fake.uuids()) == 4
    done = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, check=True, timeout=60
    )
    # The first line is what a real H200 answered in a forked child.
    assert done.stdout.splitlines() == ["NVMLError_Uninitialized(1)", "child 4", "parent 4"]


def test_the_sources_compile_without_a_warning(tmp_path: Path) -> None:
    units = [str(path) for path in sources() if path.suffix == ".c"]
    compiler = shutil.which("cc")
    assert compiler, "the simulated NVML needs a C compiler: apt-get install gcc libc6-dev"
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    done = subprocess.run(
        [compiler, *flags, "-o", str(tmp_path / "library.so"), *units, "-lpthread"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_without_a_compiler_a_message_says_what_to_install(
    fake: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(fake.folder))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(CompilerMissingError, match="apt-get install gcc"):
        library()
