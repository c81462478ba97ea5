"""One simulated node per test, and the real pynvml in front of it."""

import ctypes
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pynvml
import pytest

from devcluster.fakenvml import FakeNvml, default_gpus


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """The GPUs of a development node, visible to this process and its children."""
    fake = FakeNvml(tmp_path / "gpus")
    fake.create(default_gpus(0))
    for name, value in fake.environment().items():
        monkeypatch.setenv(name, value)
    return fake


@pytest.fixture
def nvml(fake: FakeNvml) -> Iterator[ModuleType]:
    """NVIDIA's binding, initialised on the simulated GPUs."""
    ctypes.CDLL(fake.environment()["GPU_BOOKING_NVML_LIBRARY"])
    pynvml.nvmlInit()
    yield pynvml
    fake.clear()
    pynvml.nvmlShutdown()
