"""From NVML's answers to the GPUs that a container without an assignment gets."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from cluster.objects.pods import Pod
from devcluster.fakenvml import H200, FakeNvml, gpu, library
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.allocation.preferred import AllocationRequest, NodeState, Verdict, choose
from deviceplugin.linked_gpus import Linked
from deviceplugin.nvml.call_deadline import AbandonedError
from deviceplugin.nvml.inventory import read_inventory
from deviceplugin.nvml.pci_topology import PciTopology
from deviceplugin.nvml.real import RealNvml
from deviceplugin.nvml.watch import GpuWatch, NvmlReport
from tests.deviceplugin.pods import GPU, held, pod
from tests.fakes.nvml import MemoryNvml, a_gpu


def report(nvml: MemoryNvml) -> NvmlReport:
    nvml.open()
    topology = PciTopology(nvml)
    topology.learn([gpu.uuid for gpu in nvml.gpus])
    return NvmlReport(read_inventory(nvml, lambda _: None), topology_levels=topology.known)


def pairs_on_switches() -> MemoryNvml:
    """Four GPUs: 0 and 2 on one switch, 1 and 3 on another one."""
    nvml = MemoryNvml([a_gpu(index) for index in range(4)])
    for index, one in enumerate(nvml.gpus):
        one.topology_levels = {
            other.uuid: 10 if (index - position) % 2 == 0 else 50
            for position, other in enumerate(nvml.gpus)
            if other is not one
        }
    return nvml


def view(linked: Linked, *pods: Pod, holdings: PodDevices | None = None) -> NodeState:
    return NodeState(GPU, holdings or PodDevices(), pods, pick=partial(linked.pick, {}))


def test_a_container_without_an_assignment_gets_linked_gpus() -> None:
    linked = Linked()
    linked.update(report(pairs_on_switches()))
    seen = view(linked, pod("a"), pod("b", 2), holdings=held(a="GPU-0"))
    choice = choose(AllocationRequest(frozenset({"GPU-1", "GPU-2", "GPU-3"}), frozenset(), 2), seen)
    assert (choice.verdict, choice.devices) == (Verdict.UNASSIGNED, ("GPU-1", "GPU-3"))


def test_links_stay_as_they_were_while_the_driver_does_not_answer() -> None:
    linked = Linked()
    linked.update(report(pairs_on_switches()))
    linked.update(NvmlReport((), "The driver is not loaded."))
    assert list(linked.pick({}, ["GPU-0", "GPU-1", "GPU-2"], frozenset(), 2)) == ["GPU-0", "GPU-2"]


def test_a_topology_level_that_the_driver_does_not_report_is_not_asked_for_again() -> None:
    nvml = pairs_on_switches()
    nvml.gpus[1].topology_levels = {}
    nvml.gpus[3].lost = True
    nvml.open()
    topology = PciTopology(nvml)
    gpus = [gpu.uuid for gpu in nvml.gpus]
    assert topology.learn(gpus)
    assert topology.known == {"GPU-0": {"GPU-1": 50, "GPU-2": 10}}
    assert not topology.learn(gpus)


def test_no_topology_level_is_asked_for_after_a_call_that_hung() -> None:
    nvml = pairs_on_switches()
    nvml.open()
    calls: list[tuple[str, str]] = []

    class Hanging(MemoryNvml):
        def topology_level(self, uuid: str, other: str) -> int | None:
            calls.append((uuid, other))
            raise AbandonedError

    topology = PciTopology(Hanging())
    with pytest.raises(AbandonedError):
        topology.learn(["GPU-0", "GPU-1"])
    assert not topology.learn(["GPU-0", "GPU-1", "GPU-2"])
    assert calls == [("GPU-0", "GPU-1")]


def test_the_gpus_are_reported_before_their_topology_levels_are_asked_for() -> None:
    nvml = pairs_on_switches()
    reports: list[NvmlReport] = []
    GpuWatch(nvml, lambda _: None, reports.append, clock=nvml).run(nvml.stop)
    assert [len(one.topology_levels) for one in reports] == [0, 3]
    assert [len(one.devices) for one in reports] == [4, 4]


def test_the_topology_level_of_two_gpus_is_the_one_that_nvml_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = ("0/0/0", "0/0/0", "0/0/1", "0/1/2", "1/2/3")
    fake = FakeNvml(tmp_path)
    fake.create([replace(gpu(H200, index), place=place) for index, place in enumerate(places)])
    for name, value in fake.environment().items():
        monkeypatch.setenv(name, value)
    nvml = RealNvml(library())
    nvml.open()
    try:
        uuids = [nvml.uuid(index) for index in range(len(places))]
        assert [nvml.topology_level(uuids[0], other) for other in uuids] == [None, 10, 30, 40, 50]
        assert [nvml.topology_level(other, uuids[0]) for other in uuids] == [None, 10, 30, 40, 50]
        fake.error("nvmlDeviceGetTopologyCommonAncestor", 0, 3)
        assert nvml.topology_level(uuids[0], uuids[1]) is None
    finally:
        nvml.close()
