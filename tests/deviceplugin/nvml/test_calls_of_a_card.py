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


def test_no_call_of_the_port_is_forgotten() -> None:
    asked = {*calls.OF_THE_DRIVER, *calls.OF_A_GPU, *calls.LIFE}
    assert asked == {name for name, _ in inspect.getmembers(Nvml, inspect.isfunction) if name[0] != "_"}


def test_every_call_is_answered(simulated: RealNvml) -> None:
    calls.every_call_is_answered(simulated)


def test_who_is_not_there_is_refused(simulated: RealNvml) -> None:
    calls.who_is_not_there_is_refused(simulated)


def test_nothing_is_answered_after_the_end(simulated: RealNvml) -> None:
    calls.nothing_is_answered_after_the_end(simulated)
