"""What is wrong with a node, in sentences."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

from cluster import names
from cluster.kube.access_review import Permission
from cluster.kube.errors import Request, Unreachable
from cluster.objects.meta import Meta
from cluster.objects.nodes import Node, NodeInfo, NodeStatus
from deviceplugin.doctor import Finding, Tools, examine, report, runtime
from deviceplugin.dra.checks import Examined
from deviceplugin.dra.prepared import PreparedClaim, PreparedFile
from deviceplugin.injection.strategy import Strategy
from deviceplugin.kubelet.checkpoint import NAME
from deviceplugin.nvml.interface import NvmlError
from deviceplugin.settings import Settings
from tests.fakes.nvml import MemoryNvml, a_gpu, no_driver

CONTAINERD = "containerd://2.1.4"


class Patient:
    """A node on which all is well, unless a test spoils it."""

    def __init__(self, root: Path) -> None:
        self.dev, self.kubelet, self.driver = root / "dev", root / "kubelet", root / "driver"
        self.settings = Settings(
            node_name="node-a",
            dev_root=self.dev,
            kubelet_root=self.kubelet,
            device_plugins=self.kubelet / "device-plugins",
            driver_root=self.driver,
            cdi_dir=root / "cdi",
            proc_root=root / "proc",
        )
        libraries = self.driver / "usr/lib64"
        for folder in (self.dev, libraries, root / "cdi"):
            folder.mkdir(parents=True)
        self.first = root / "proc/1/cmdline"
        self.first.parent.mkdir(parents=True)
        self.first.write_text("/sbin/init\0")
        for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
            (self.dev / name).touch()
        (libraries / "libnvidia-ml.so.580.159.04").touch()
        self.nvml = MemoryNvml([a_gpu(0)])
        self.forbidden: set[str] = set()
        self.runtime = CONTAINERD
        self.away = False
        self.labels: dict[str, str] = {}
        self.record = PreparedFile(root / "prepared.json", "boot")
        self.foreign: tuple[str, ...] = ()
        self.orphans: list[PreparedClaim] = []
        self.patience = 30.0
        self.sockets = [
            self.listening(path)
            for path in (
                self.settings.device_plugins / "kubelet.sock",
                self.settings.pods_api_socket,
                self.settings.pod_resources_socket,
            )
        ]

    def listening(self, path: Path) -> socket.socket:
        path.parent.mkdir(parents=True)
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.bind(str(path))
        server.listen()
        return server

    def may(self, right: Permission) -> bool:
        if self.away:
            raise Unreachable(Request("POST", "/"), "connection refused")
        return str(right) not in self.forbidden

    def findings(self) -> list[Finding]:
        node = Node(
            metadata=Meta(name="node-a", labels=self.labels),
            status=NodeStatus(node_info=NodeInfo(container_runtime_version=self.runtime)),
        )
        claims = Examined(
            registry=self.kubelet / "plugins_registry",
            record=self.record,
            foreign=lambda: self.foreign,
            orphans=lambda: self.orphans,
        )
        tools = Tools(nvml=self.nvml, node=lambda: node, may=self.may, claims=claims, patience=self.patience)
        return list(examine(self.settings, tools))

    def wrong(self) -> list[str]:
        """What is wrong or doubtful, as sentences."""
        return [f"{one.about}: {one.message}" for one in self.findings() if one.severity != "fine"]


@pytest.fixture
def patient() -> Iterator[Patient]:
    with TemporaryDirectory(prefix="d", dir="/tmp") as folder:  # sockets' paths have to be short
        made = Patient(Path(folder))
        try:
            yield made
        finally:
            for server in made.sockets:
                server.close()


def test_nothing_wrong_is_reported_about_a_healthy_node(patient: Patient) -> None:
    text, is_well = report(patient.findings())
    assert is_well, text
    assert patient.wrong() == []
    assert "fine    driver: Version 580.159.04 answers and lists GPUs: 1.\n" in text


def test_a_driver_that_is_not_loaded_is_reported_and_the_rest_is_checked(patient: Patient) -> None:
    patient.nvml.fault = no_driver()
    patient.forbidden.add("patch nodes")
    assert patient.wrong() == [
        "driver: The NVIDIA driver is not loaded",
        "API server: The agent may not patch nodes: install the chart's roles.",
    ]
    assert not report(patient.findings())[1]


def test_the_node_s_status_has_to_be_patched_only_where_gpushare_s_numbers_are_written(
    patient: Patient,
) -> None:
    patient.forbidden.add("patch nodes/status")
    assert patient.wrong() == []

    patient.settings = msgspec.structs.replace(patient.settings, sharing_gpushare_status="MiB")
    assert patient.wrong() == ["API server: The agent may not patch nodes/status: install the chart's roles."]


def test_an_agent_that_cannot_see_the_node_s_processes_reports_what_it_cannot_know(patient: Patient) -> None:
    patient.first.write_text("python\0-m\0deviceplugin\0")
    (message,) = patient.wrong()
    assert "nodeAgent.hostPID" in message
    assert report(patient.findings())[1], "a doubt, not a fault"


def test_a_node_without_gpus_is_distinguished_from_one_without_a_driver(patient: Patient) -> None:
    patient.nvml.gpus.clear()
    (message,) = patient.wrong()
    assert "lists no GPU" in message


def test_a_hanging_driver_is_reported(patient: Patient) -> None:
    free = threading.Event()

    class Hanging(MemoryNvml):
        def open(self) -> None:
            free.wait()

    patient.nvml, patient.patience = Hanging([a_gpu(0)]), 0.1
    try:
        assert "it hangs" in patient.wrong()[0]
    finally:
        free.set()


@pytest.mark.parametrize("name", ["nvidia0", "nvidiactl", "nvidia-uvm"])
def test_a_device_node_that_is_missing_is_named(patient: Patient, name: str) -> None:
    (patient.dev / name).unlink()
    (message,) = patient.wrong()
    assert f"There is no {patient.dev}/{name}" in message


def test_a_driver_root_without_a_driver_is_reported(patient: Patient) -> None:
    (patient.driver / "usr/lib64/libnvidia-ml.so.580.159.04").unlink()
    (message,) = patient.wrong()
    assert message.startswith(f"driver files: No libnvidia-ml.so.<version> is under {patient.driver}")


def test_a_kubelet_none_of_whose_apis_answers_is_an_error(
    patient: Patient,
) -> None:
    for server in patient.sockets:
        server.close()
    severities = {one.about: one.severity for one in patient.findings() if "kubelet" in one.about}
    assert severities == {
        "kubelet": "wrong",
        "kubelet's Pods API": "warning",
        "kubelet's PodResources API": "wrong",
    }


def test_a_kubelet_with_another_root_folder_than_the_settings_say_is_wrong(patient: Patient) -> None:
    process = patient.settings.proc_root / "70"
    process.mkdir()
    (process / "cmdline").write_bytes(b"/usr/local/bin/kubelet\0--v=2\0--root-dir\0/data/kubelet\0")
    (message,) = patient.wrong()
    assert message.startswith("kubelet's root folder: The kubelet runs with --root-dir /data/kubelet")
    assert "nodeAgent.kubeletRoot" in message


def test_a_missing_cdi_folder_is_reported(patient: Patient) -> None:
    patient.settings.cdi_dir.rmdir()
    (message,) = patient.wrong()
    assert message.startswith("CDI: There is no folder")


def test_an_unreachable_api_server_is_reported(patient: Patient) -> None:
    patient.away = True
    (message,) = patient.wrong()
    assert message.startswith("API server: ")
    assert "connection refused" in message


@pytest.mark.parametrize(
    ("version", "severity"),
    [
        (CONTAINERD, "fine"),
        ("containerd://1.7.27", "warning"),
        ("containerd://1.6.9", "wrong"),
        ("cri-o://1.30.1", "fine"),
        ("cri-o://1.22.0", "wrong"),
        ("docker://29.0", "warning"),
        ("", "warning"),
        ("containerd://Unknown", "warning"),
    ],
)
def test_the_capabilities_of_a_runtime_are_known_by_its_version(version: str, severity: str) -> None:
    assert runtime(version).severity == severity


def test_an_error_of_nvml_has_its_own_message(patient: Patient) -> None:
    patient.nvml.fault = NvmlError("nvmlInit answers Unknown Error", code=999, call="nvmlInit")
    assert patient.wrong()[0] == "driver: nvmlInit answers Unknown Error"


@pytest.mark.parametrize(
    ("strategy", "slots", "severity"),
    [("cdi", 16, "fine"), ("environment", 16, "warning"), ("device-nodes", 0, "fine")],
)
def test_shares_whose_size_no_container_gets_to_know_are_a_warning(
    patient: Patient, strategy: str, slots: int, severity: str
) -> None:
    patient.settings = msgspec.structs.replace(
        patient.settings, device_list_strategy=Strategy(strategy), sharing_slots=slots
    )
    assert [one.severity for one in patient.findings() if one.about == "shares"] == [severity]


def test_where_claims_give_gpus_it_is_checked_that_they_can_be_prepared_and_nobody_else_gives_any(
    patient: Patient,
) -> None:
    patient.labels = {names.DEVICE_PLUGIN: "dra", names.GIVEN_BY: "dra"}
    (message,) = patient.wrong()
    assert message.startswith("claims: None of our sockets")
    socket_name = f"{names.SOCKET_PREFIX}x.sock"
    patient.sockets.append(patient.listening(patient.kubelet / "plugins_registry" / socket_name))
    assert patient.wrong() == []

    patient.foreign = ("node-a-gpu.nvidia.com-x7k",)
    (message,) = patient.wrong()
    assert patient.foreign[0] in message
    patient.foreign = ()
    lost = PreparedClaim(uid="u", namespace="team", name="lost")
    patient.record.write({"u": lost})
    assert patient.wrong() == []
    patient.orphans = [lost]
    (message,) = patient.wrong()
    assert "team/lost" in message
    (patient.kubelet.parent / "prepared.json").write_text("{")
    (message,) = patient.wrong()
    assert "cannot be read" in message


def test_a_node_that_is_not_yet_as_its_label_says_is_examined_as_it_is(patient: Patient) -> None:
    patient.labels = {names.DEVICE_PLUGIN: "existing", names.GIVEN_BY: "ours"}
    (message,) = patient.wrong()
    assert message.startswith("who gives out GPUs: It is still 'ours'")


def test_another_plugin_is_wrong_where_our_agent_gives_out_the_gpus(patient: Patient) -> None:
    path = patient.settings.device_plugins / "nvidia-gpu.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(path))
        other.listen()
        (found,) = (one for one in patient.findings() if one.about == "other plugins")
    assert found.severity == "wrong"
    assert path.name in found.message


@pytest.mark.parametrize(("ids", "severity"), [(["GPU-a", "GPU-b"], "fine"), ([], "wrong")])
def test_no_other_plugin_is_wrong_where_another_one_gives_them_out(
    patient: Patient, ids: list[str], severity: str
) -> None:
    patient.settings = msgspec.structs.replace(patient.settings, device_plugin="existing")
    record = {"Data": {"PodDeviceEntries": None, "RegisteredDevices": {names.GPU_RESOURCE: ids}}}
    (patient.settings.device_plugins / NAME).write_bytes(msgspec.json.encode(record))
    assert [one.severity for one in patient.findings() if one.about == "other plugins"] == [severity]
