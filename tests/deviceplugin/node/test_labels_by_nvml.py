"""From the simulated library to the labels: what NVML reports about real models, whole and cut."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import names
from devcluster.fakenvml import FakeNvml, default_gpus, library, mig
from devcluster.fakenvml.fake import MACHINE
from deviceplugin.node.label_source import Labelling
from deviceplugin.nvml.interface import Versions
from deviceplugin.nvml.inventory import read_inventory
from deviceplugin.nvml.mig_strategy import MigStrategy
from deviceplugin.nvml.real import RealNvml
from deviceplugin.nvml.watch import NvmlReport


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    made = FakeNvml(tmp_path)
    made.create(default_gpus(0))
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture
def nvml(fake: FakeNvml) -> Iterator[RealNvml]:
    assert fake.uuids()
    opened = RealNvml(library())
    opened.open()
    yield opened
    opened.close()


def labels(fake: FakeNvml, nvml: RealNvml, strategy: MigStrategy) -> dict[str, str]:
    labelling = Labelling(strategy, fake.sys_root, on=True)
    versions = Versions(nvml.driver_version(), nvml.cuda_version())
    labelling.update(NvmlReport(read_inventory(nvml, lambda _: None), versions=versions))
    return dict(labelling.wanted or {})


def values(found: dict[str, str], *keys: str) -> tuple[str | None, ...]:
    return tuple(found.get(names.NVIDIA_PREFIX + key) for key in keys)


def test_a_node_of_the_development_cluster_is_labelled(fake: FakeNvml, nvml: RealNvml) -> None:
    found = labels(fake, nvml, MigStrategy.NONE)
    assert values(found, "gpu.product", "gpu.count", "gpu.memory") == ("NVIDIA-A100-SXM4-80GB", "2", "81920")
    assert values(found, "gpu.family", "gpu.compute.major", "gpu.compute.minor") == ("ampere", "8", "0")
    assert values(found, "gpu.machine", "gpu.mode") == (MACHINE.replace(" ", "-"), "compute")
    assert values(found, "cuda.driver-version.full", "cuda.runtime-version.full") == ("580.159.04", "13.0")
    assert values(found, "mig.capable", "mig.strategy") == ("true", None)
    assert found[f"{names.MODEL_LABEL}NVIDIA-RTX-A6000"] == "2"


def test_a_cut_card_is_labelled_by_its_mig_devices(fake: FakeNvml, nvml: RealNvml) -> None:
    fake.mig(0, mig(default_gpus(0)[0], ["3g.40gb", "1g.10gb", "1g.10gb"]))
    found = labels(fake, nvml, MigStrategy.MIXED)
    assert values(found, "mig-1g.10gb.count", "mig-1g.10gb.memory", "mig-3g.40gb.count") == ("2", "9728", "1")
    assert values(found, "mig-3g.40gb.multiprocessors", "mig-3g.40gb.slices.gi") == ("42", "3")
    assert values(found, "mig-3g.40gb.engines.copy", "mig-3g.40gb.slices.ci") == ("3", "3")
    assert values(found, "gpu.count", "gpu.replicas", "mig.strategy") == ("2", "1", "mixed")
    assert found[f"{names.MODEL_LABEL}NVIDIA-A100-SXM4-80GB"] == "1"


def test_values_that_the_driver_does_not_know_are_left_out(fake: FakeNvml, nvml: RealNvml) -> None:
    fake.error("nvmlDeviceGetCudaComputeCapability", None, 3)
    fake.error("nvmlSystemGetCudaDriverVersion", None, 13)
    fake.error("nvmlDeviceGetMigMode", None, 3)
    found = labels(fake, nvml, MigStrategy.NONE)
    assert values(found, "gpu.family", "cuda.runtime-version.full", "mig.capable") == (None, None, "false")
    assert values(found, "gpu.count") == ("2",)
