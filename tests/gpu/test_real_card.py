"""The agent's view of a real card. Reads only, changes no setting."""

import csv
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from deviceplugin.nvml.interface import GpuEvent
from deviceplugin.nvml.inventory import read_inventory
from deviceplugin.nvml.real import RealNvml
from tests.gpu.work import JOB, launches_in, seen_in

pytestmark = pytest.mark.gpu

FIELDS = ("index", "uuid", "name", "memory.total", "pci.bus_id", "driver_version")
"""Of nvidia-smi."""
ROUNDING_MIB = 1


def smi() -> list[dict[str, str]]:
    """What nvidia-smi says of each GPU, without units."""
    words = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    rows = csv.reader(output.splitlines(), skipinitialspace=True)
    return [dict(zip(FIELDS, row, strict=True)) for row in rows]


def test_the_inventory_equals_the_output_of_nvidia_smi(nvml: RealNvml) -> None:
    gpus = {d.uuid: d for d in read_inventory(nvml, lambda _pci: None) if d.published.parent is None}
    rows = smi()
    assert set(gpus) == {row["uuid"] for row in rows}
    for row in rows:
        published = gpus[row["uuid"]].published
        assert published.index == int(row["index"])
        assert published.model == row["name"].replace(" ", "-")
        assert abs((published.memory or 0) - int(row["memory.total"])) <= ROUNDING_MIB
        # It writes eight digits for the domain, sysfs four.
        assert nvml.facts(row["uuid"]).pci == row["pci.bus_id"][-12:].lower()
        assert nvml.driver_version() == row["driver_version"]


def test_every_gpu_is_found_with_model_memory_and_device_node(nvml: RealNvml) -> None:
    devices = read_inventory(nvml, lambda _pci: None)
    gpus = [d for d in devices if d.published.parent is None]
    assert len(gpus) == nvml.count()
    for gpu in gpus:
        assert gpu.uuid.startswith("GPU-")
        assert " " not in gpu.published.model
        assert gpu.published.is_healthy, gpu.published.reason
        node = Path(f"/dev/nvidia{gpu.minor}")
        assert stat.S_ISCHR(node.stat().st_mode)
        assert os.minor(node.stat().st_rdev) == gpu.minor


def test_a_healthy_card_asks_for_no_recovery_and_sends_no_event_by_itself(nvml: RealNvml) -> None:
    uuids = [nvml.uuid(index) for index in range(nvml.count())]
    assert {nvml.recovery_action(uuid) for uuid in uuids} == {0}
    stream = nvml.events(uuids)
    try:
        assert not stream.events_unavailable
        assert stream.wait(1.0) is None
    finally:
        stream.close()


def test_two_readings_of_one_card_are_equal(nvml: RealNvml) -> None:
    assert read_inventory(nvml, lambda _pci: None) == read_inventory(nvml, lambda _pci: None)


def test_events_can_be_waited_for_while_cuda_computes(nvml: RealNvml) -> None:
    """And nothing comes: a job that does nothing wrong is no event."""
    uuids = [nvml.uuid(index) for index in range(nvml.count())]
    stream = nvml.events(uuids)
    job = subprocess.Popen([sys.executable, str(JOB), "60"], stdout=subprocess.PIPE, text=True)
    assert job.stdout is not None
    events: list[GpuEvent | None] = []
    try:
        first = job.stdout.readline()
        seen = seen_in(first)
        assert seen is not None
        assert set(seen.uuids) <= set(uuids), seen
        assert seen.uuids, seen.why
        events += [stream.wait(1.0) for _ in range(5)]
        busy = [nvml.usage(uuid, ()).processes for uuid in uuids]
        assert any(busy), "NVML lists no process although one computes: is this another PID namespace?"
    finally:
        job.send_signal(signal.SIGTERM)
        rest, _ = job.communicate(timeout=120)
        stream.close()
    assert events == [None] * 5
    assert launches_in(first + rest) > 0
