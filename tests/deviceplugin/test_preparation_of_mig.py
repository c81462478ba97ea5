"""MIG devices from a report of NVML to the lists and the specification, with the nodes that give access."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from cluster import names
from cluster.fake.clock import FakeClock
from cluster.objects.meta import Meta
from cluster.objects.pods import Pod, PodStatus
from devcluster.fakenvml import capabilities
from deviceplugin.advertised import TAKEN_IN_PARTS, AdvertisingOptions
from deviceplugin.device_cache import DeviceCache
from deviceplugin.injection.strategy import Strategy, injection_of
from deviceplugin.kubelet.checkpoint import NAME, CheckpointFile
from deviceplugin.metrics import AgentMetrics
from deviceplugin.nvml.inventory import NodeDevice
from deviceplugin.nvml.mig_strategy import MigStrategy
from deviceplugin.nvml.watch import NvmlReport
from deviceplugin.preparation import Folders, Preparation
from tests.deviceplugin.nvml.cut import gpu, part, reasons

SMALL = f"{names.MIG_RESOURCE_PREFIX}1g.10gb"


class Machine:
    """A machine with two GPUs whose driver says which nodes give access to their parts."""

    def __init__(self, root: Path, *parts: NodeDevice) -> None:
        self.root, self.dev, self.proc = root, root / "dev", root / capabilities.PROC
        (self.dev / capabilities.FOLDER).mkdir(parents=True)
        for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
            (self.dev / name).touch()
        for one in parts:
            self.give_access(one)
        self.device_cache = DeviceCache()
        self.pods: tuple[Pod, ...] | None = None
        folders = Folders(
            cdi=root / "cdi",
            dev_root=self.dev,
            host_dev_root=self.dev,
            driver_root=root / "none",
            capabilities=self.proc,
        )
        self.preparation = Preparation(
            self.device_cache,
            AdvertisingOptions(strategy=Strategy.CDI, mig=MigStrategy.MIXED),
            folders,
            checkpoint=CheckpointFile(root, names.GPU_RESOURCE),
            pods=lambda: self.pods,
            metrics=AgentMetrics(CollectorRegistry()),
            clock=FakeClock(),
        )

    def give_access(self, one: NodeDevice) -> None:
        """Make the files that the driver makes with a MIG device."""
        assert one.minor is not None
        assert one.gpu_instance is not None
        instance = self.proc / f"gpu{one.minor}/mig/gi{one.gpu_instance}"
        for place, ci in ((instance, None), (instance / "ci0", 0)):
            number = capabilities.number(one.minor, one.gpu_instance, ci)
            place.mkdir(parents=True)
            (place / "access").write_text(f"DeviceFileMinor: {number}\n")
            (self.dev / capabilities.FOLDER / f"nvidia-cap{number}").touch()

    def report(self, *devices: NodeDevice) -> None:
        self.preparation.update(NvmlReport(devices))

    def holds(self, uid: str, resource: str, uuid: str) -> None:
        """Write this holding in the kubelet's checkpoint."""
        entry = {"PodUID": uid, "ContainerName": "main", "ResourceName": resource, "DeviceIDs": {"0": [uuid]}}
        data = {"PodDeviceEntries": [entry], "RegisteredDevices": {}}
        (self.root / NAME).write_text(json.dumps({"Data": data, "Checksum": 1}))

    def nodes_in_spec(self, uuid: str) -> list[str]:
        spec = json.loads((self.root / "cdi" / names.CDI_FILE).read_text())
        (edits,) = [one["containerEdits"] for one in spec["devices"] if one["name"] == uuid]
        return [node["path"] for node in edits["deviceNodes"]]

    def listed(self) -> dict[str, list[str]]:
        return {name: [one.uuid for one in some] for name, some in self.device_cache.now.listed.items()}


def a_pod(uid: str, phase: str) -> Pod:
    return Pod(metadata=Meta(name=uid, uid=uid), status=PodStatus(phase=phase))


def test_a_mig_device_has_its_gpu_s_device_node_and_its_capability_nodes(tmp_path: Path) -> None:
    machine = Machine(tmp_path, part(0, 1), part(0, 2))
    machine.report(gpu(0, cut=True), part(0, 1), part(0, 2), gpu(1))
    access = [capabilities.number(0, 2), capabilities.number(0, 2, 0)]
    own = ["/dev/nvidia0", *(f"/dev/{capabilities.FOLDER}/nvidia-cap{number}" for number in access)]
    assert machine.nodes_in_spec("MIG-0-2") == own
    assert machine.nodes_in_spec("GPU-1") == ["/dev/nvidia1"]
    assert machine.listed() == {names.GPU_RESOURCE: ["GPU-1"], SMALL: ["MIG-0-1", "MIG-0-2"]}
    given = injection_of({"MIG-0-1", "MIG-0-2"}, Strategy.DEVICE_NODES, machine.device_cache.now.nodes)
    paths = [node.path for node in given.nodes]
    assert len(paths) == len(set(paths)) == 1 + 4 + 2, "the GPU's own node once, though both have it"


def test_a_mig_device_without_access_is_not_in_the_specification(tmp_path: Path) -> None:
    machine = Machine(tmp_path, part(0, 1))
    machine.report(gpu(0, cut=True), part(0, 1), part(0, 2))
    assert reasons(machine.device_cache.now.devices) == {
        "GPU-0": None,
        "MIG-0-1": None,
        "MIG-0-2": "A device node that gives access to this MIG device is missing",
    }


def test_a_new_layout_is_in_the_specification_and_in_the_lists(tmp_path: Path) -> None:
    machine = Machine(tmp_path, part(0, 1), part(0, 5))
    machine.report(gpu(0), gpu(1))
    machine.report(gpu(0, cut=True), part(0, 1), gpu(1))
    assert machine.listed() == {names.GPU_RESOURCE: ["GPU-1"], SMALL: ["MIG-0-1"]}
    machine.report(gpu(0, cut=True), part(0, 1, gone=True), part(0, 5, "3g.40gb"), gpu(1))
    assert machine.listed() == {
        names.GPU_RESOURCE: ["GPU-1"],
        f"{names.MIG_RESOURCE_PREFIX}3g.40gb": ["MIG-0-5"],
    }
    assert machine.nodes_in_spec("MIG-0-5")


def test_devices_of_a_pod_are_known_by_the_checkpoint_until_the_pod_has_ended(tmp_path: Path) -> None:
    machine = Machine(tmp_path, part(0, 1))
    machine.holds("a", SMALL, "MIG-0-1")
    machine.pods = (a_pod("a", "Running"),)
    machine.report(gpu(0), part(0, 1, gone=True), gpu(1))
    assert reasons(machine.device_cache.now.devices)["GPU-0"] == TAKEN_IN_PARTS
    assert machine.listed()[SMALL] == ["MIG-0-1"]
    machine.pods = None
    machine.report(gpu(0), part(0, 1, gone=True), gpu(1))
    assert reasons(machine.device_cache.now.devices)["GPU-0"] == TAKEN_IN_PARTS, "who lives is not known"
    machine.pods = (a_pod("a", "Succeeded"),)
    machine.report(gpu(0), part(0, 1, gone=True), gpu(1))
    assert machine.listed() == {names.GPU_RESOURCE: ["GPU-0", "GPU-1"]}
    assert reasons(machine.device_cache.now.devices)["GPU-0"] is None


def test_a_pod_with_a_mig_device_may_restart_and_one_whose_mig_device_is_gone_may_not(tmp_path: Path) -> None:
    machine = Machine(tmp_path, part(0, 1))
    machine.report(gpu(0, cut=True), part(0, 1))
    assert machine.device_cache.now.startable["MIG-0-1"].is_healthy
    machine.holds("a", SMALL, "MIG-0-1")
    machine.report(gpu(0, cut=True), part(0, 1, gone=True))
    assert not machine.device_cache.now.startable["MIG-0-1"].is_healthy


@pytest.mark.parametrize("damage", [lambda file: file.write_text("{"), Path.unlink])
def test_devices_stay_held_while_the_checkpoint_is_unreadable_or_missing(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    machine = Machine(tmp_path, part(0, 1))
    machine.holds("a", SMALL, "MIG-0-1")
    machine.pods = (a_pod("a", "Running"),)
    machine.report(gpu(0), part(0, 1, gone=True), gpu(1))
    damage(tmp_path / NAME)
    machine.report(gpu(0), part(0, 1, gone=True), gpu(1))
    assert reasons(machine.device_cache.now.devices)["GPU-0"] == TAKEN_IN_PARTS
    machine.pods = (a_pod("a", "Succeeded"),)
    machine.report(gpu(0), part(0, 1, gone=True), gpu(1))
    assert reasons(machine.device_cache.now.devices)["GPU-0"] is None
