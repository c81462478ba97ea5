"""Which labels of the Node are written and taken away, and by whom."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from cluster import names
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.errors import Refusal, Request, refused
from cluster.kube.resources import NODES
from cluster.objects.nodes import Node
from deviceplugin.node.label_changes import change
from deviceplugin.node.label_source import Labelling
from deviceplugin.node.label_writer import RETRY_AFTER, LabelWriter
from deviceplugin.nvml.interface import Versions
from deviceplugin.nvml.inventory import NodeDevice, read_inventory
from deviceplugin.nvml.mig_strategy import MigStrategy
from deviceplugin.nvml.watch import NvmlReport
from tests.fakes.nvml import MemoryNvml, a_gpu

PRODUCT = f"{names.NVIDIA_PREFIX}gpu.product"
COUNT = f"{names.NVIDIA_PREFIX}gpu.count"
VERSIONS = Versions("580.159.04", (13, 0))


def node(labels: dict[str, str] | None = None, **annotations: str) -> Node:
    return msgspec.convert({"metadata": {"labels": labels or {}, "annotations": annotations}}, Node)


def written(*keys: str) -> dict[str, str]:
    return {names.LABELS: ",".join(keys)}


# --- what to change ------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "gpus."])
def test_labels_that_node_feature_discovery_owns_are_left_to_it(prefix: str) -> None:
    theirs = {prefix + names.FEATURE_LABELS: f"cpu-hyperthreading,{PRODUCT}"}
    came_after_us = node({PRODUCT: "theirs", COUNT: "2"}, **theirs, **written(COUNT, PRODUCT))
    assert change({PRODUCT: "X", COUNT: "2"}, came_after_us) == ({}, {names.LABELS: COUNT})
    assert change({}, came_after_us) == ({COUNT: None}, {names.LABELS: None})


def test_labels_that_node_feature_discovery_gives_up_become_ours() -> None:
    theirs = {names.FEATURE_LABELS: "cpu-hyperthreading"}
    assert change({PRODUCT: "X"}, node({}, **theirs)).labels == {PRODUCT: "X"}


def test_no_label_is_changed_while_nothing_is_known() -> None:
    assert change(None, node({PRODUCT: "X"}, **written(PRODUCT))) == ({}, {})


# --- what is wanted ------------------------------------------------------------------------------------


def devices(count: int) -> tuple[NodeDevice, ...]:
    nvml = MemoryNvml([a_gpu(index) for index in range(count)])
    nvml.open()
    return read_inventory(nvml, lambda _: None)


def labelling(sys_root: Path, *, on: bool = True) -> Labelling:
    return Labelling(MigStrategy.NONE, sys_root, on=on)


def test_labels_follow_from_the_reports_of_nvml_and_the_kernel(tmp_path: Path) -> None:
    machine = tmp_path / "class/dmi/id/product_name"
    machine.parent.mkdir(parents=True)
    machine.write_text("PowerEdge XE9680\n", encoding="utf-8")
    pci = tmp_path / "bus/pci/devices/0000:07:00.0/class"
    pci.parent.mkdir(parents=True)
    pci.write_text("0x030200\n", encoding="utf-8")
    ours = labelling(tmp_path)
    ours.update(NvmlReport(devices(2), versions=VERSIONS))
    wanted = ours.wanted or {}
    assert wanted[COUNT] == "2"
    assert wanted[f"{names.NVIDIA_PREFIX}gpu.machine"] == "PowerEdge-XE9680"
    assert wanted[f"{names.NVIDIA_PREFIX}gpu.mode"] == "compute"


def test_labels_stay_while_the_driver_does_not_answer(tmp_path: Path) -> None:
    ours = labelling(tmp_path)
    assert ours.wanted is None
    ours.update(NvmlReport((), "The driver is not loaded."))
    assert ours.wanted is None
    ours.update(NvmlReport(devices(1), versions=VERSIONS))
    before = ours.wanted
    ours.update(NvmlReport((), "The driver is not loaded."))
    assert before
    assert ours.wanted == before


def test_labels_are_removed_when_the_driver_lists_no_gpu(tmp_path: Path) -> None:
    ours = labelling(tmp_path)
    ours.update(NvmlReport((), "NVML lists no GPU on this node.", versions=VERSIONS))
    assert ours.wanted == {}


def test_there_are_no_labels_when_they_are_switched_off(tmp_path: Path) -> None:
    ours = labelling(tmp_path, on=False)
    ours.update(NvmlReport(devices(1), versions=VERSIONS))
    assert ours.wanted == {}


# --- writing -------------------------------------------------------------------------------------------


class Bench:
    """A writer with a Node."""

    def __init__(self, wanted: Callable[[], dict[str, str] | None]) -> None:
        self.clock = FakeClock(self_advancing=True)
        self.kube = FakeKube(self.clock)
        self.kube.put(NODES, {"metadata": {"name": "node-a", "labels": {"other": "stays"}}})
        self.writer = LabelWriter(self.kube, wanted, self.clock)

    @property
    def node(self) -> Node:
        return self.kube.get(NODES, "node-a")

    @property
    def patches(self) -> int:
        return sum(call.verb == "PATCH" for call in self.kube.calls)


def test_labels_are_written_once_and_removed_when_they_no_longer_apply() -> None:
    wanted = {PRODUCT: "X", COUNT: "2"}
    bench = Bench(lambda: wanted)
    seen = bench.writer.write(bench.writer.write(bench.node))
    assert seen.metadata.labels == bench.node.metadata.labels == {"other": "stays", PRODUCT: "X", COUNT: "2"}
    assert bench.patches == 1
    wanted.clear()
    bench.writer.write(seen)
    assert bench.node.metadata.labels == {"other": "stays"}
    assert bench.node.metadata.annotation(names.LABELS) is None


def test_a_label_that_has_come_since_the_node_was_read_is_not_overwritten() -> None:
    bench = Bench(lambda: {PRODUCT: "X"})
    stale = bench.node
    bench.kube.patch(NODES, "node-a", {"metadata": {"labels": {PRODUCT: "theirs"}}})
    bench.writer.write(stale)
    assert (bench.node.metadata.labels or {})[PRODUCT] == "theirs"


def test_refused_labels_are_tried_again_later_without_an_error() -> None:
    bench = Bench(lambda: {PRODUCT: "X"})
    before = bench.node
    request = Request("PATCH", "/api/v1/nodes/node-a")
    bench.kube.fail("PATCH", refused(request, Refusal(403, "Forbidden")))
    assert bench.writer.write(before) == before
    call_count = len(bench.kube.calls)
    bench.writer.write(before)
    assert len(bench.kube.calls) == call_count
    bench.clock.advance(RETRY_AFTER)
    bench.writer.write(before)
    assert (bench.node.metadata.labels or {})[PRODUCT] == "X"
