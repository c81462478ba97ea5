"""What tests/gpu asks a card, asked of the simulated library: whether the questions are right."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.fakenvml import FakeNvml, default_gpus, library
from deviceplugin.nvml.interface import Nvml
from deviceplugin.nvml.real import RealNvml
from tests.gpu import calls


@pytest.fixture
def simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RealNvml]:
    fake = FakeNvml(tmp_path / "gpus")
    fake.create(default_gpus(0))
    for name, value in fake.environment().items():
        monkeypatch.setenv(name, value)
    nvml = RealNvml(library())
    nvml.open()
    yield nvml
    nvml.close()


def test_every_call_of_the_interface_is_tested() -> None:
    tested = {*calls.OF_THE_DRIVER, *calls.OF_A_GPU, *calls.LIFE}
    assert tested == {name for name, _ in inspect.getmembers(Nvml, inspect.isfunction) if name[0] != "_"}


def test_every_call_is_answered(simulated: RealNvml) -> None:
    calls.every_call_is_answered(simulated)


def test_calls_about_missing_gpus_are_refused(simulated: RealNvml) -> None:
    calls.calls_about_missing_gpus_are_refused(simulated)


def test_no_call_is_answered_after_close(simulated: RealNvml) -> None:
    calls.no_call_is_answered_after_close(simulated)
