"""Checks a node and the agent's permissions: ``python -m deviceplugin doctor``.

It changes nothing. Each check reports one finding and, if something is wrong, what to do. ``examine`` runs
all of them with the tools that it is given.
"""

import os
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from cluster import event_reasons, mps_names, names
from cluster.kube.access_review import Permission
from cluster.kube.errors import ApiError
from cluster.kube.events import NAMESPACE_OF_NODES
from cluster.objects.nodes import Node
from deviceplugin.beside.observer import amounts
from deviceplugin.beside.opening import Opening
from deviceplugin.beside.owner import Whose, given_by, whose
from deviceplugin.dra.checks import Examined, checks
from deviceplugin.injection import cdi, driver
from deviceplugin.injection.strategy import Strategy
from deviceplugin.kubelet.checkpoint import CheckpointError, CheckpointFile
from deviceplugin.kubelet.pod_access import wrong_root
from deviceplugin.kubelet.root_in_use import root_in_use
from deviceplugin.kubelet.second_plugin import DOES_NOT_REGISTER, GIVES_NO_CLAIMS, OtherPlugin
from deviceplugin.nvml.interface import Nvml, NvmlError
from deviceplugin.settings import Settings
from deviceplugin.usage.processes import Processes

PATIENCE: Final = 30.0
"""Seconds for NVML: without persistence mode the driver takes seconds for each GPU."""

RIGHTS: Final = (
    Permission("get", "nodes"),
    Permission("watch", "nodes"),
    Permission("patch", "nodes"),
    Permission("list", "pods"),
    Permission("watch", "pods"),
    Permission("create", "events", namespace=NAMESPACE_OF_NODES),
)
"""Permissions that the agent needs, besides those for Leases."""
STATUS_RIGHT: Final = Permission("patch", "nodes/status")
"""It needs this one to write gpushare's numbers into its Node."""
LEASE_RIGHTS: Final = ("get", "create", "patch")
"""Permissions that it needs for Leases in its own namespace."""

_RUNTIMES: Final = {"containerd": (1, 7), "cri-o": (1, 23)}
"""The first version of each runtime that understands the CDI devices of a device plugin."""
_SWITCHED: Final = (2, 0)
"""Before this version of containerd, CDI must be enabled in its configuration."""

Severity = Literal["fine", "warning", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    about: str
    severity: Severity
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The sources of the checks."""

    nvml: Nvml
    node: Callable[[], Node]
    """This Node from the API server; raises ApiError."""
    may: Callable[[Permission], bool]
    """Whether the agent has a permission; raises ApiError."""
    claims: Examined
    patience: float = PATIENCE


def examine(settings: Settings, tools: Tools) -> Iterator[Finding]:
    """Every finding, in the order in which the things checked depend on each other."""
    minors: dict[str, int | None] = {}
    yield _driver(tools, minors)
    yield from _device_nodes(settings.dev_root, minors)
    yield _driver_files(settings)
    yield from _sockets(settings)
    yield _other_plugin(settings, tools)
    yield _owner(settings, tools)
    yield from _claims(settings, tools)
    yield _processes(Processes(settings.proc_root))
    if settings.device_list_strategy is Strategy.CDI:
        yield _cdi_folder(settings.cdi_dir)
    yield _shares(settings, tools)
    yield from _api(settings, tools)


def report(findings: Iterable[Finding]) -> tuple[str, bool]:
    """The findings as text for people, a line each, and whether nothing is wrong."""
    listed = tuple(findings)
    lines = [f"{finding.severity:8}{finding.about}: {finding.message}\n" for finding in listed]
    return "".join(lines), all(finding.severity != "wrong" for finding in listed)


def _driver(tools: Tools, minors: dict[str, int | None]) -> Finding:
    """Check the driver, in a thread of its own that is abandoned if the driver hangs; fills ``minors``."""
    about, found, done = "driver", list[Finding](), threading.Event()

    def ask() -> None:
        try:
            tools.nvml.open()
            version = tools.nvml.driver_version()
            for uuid in map(tools.nvml.uuid, range(tools.nvml.count())):
                minors[uuid] = tools.nvml.facts(uuid).minor
            found.append(_counted(version, len(minors)))
        except NvmlError as error:
            found.append(Finding(about, "wrong", str(error)))
        finally:
            tools.nvml.close()
            done.set()

    threading.Thread(target=ask, name="doctor-nvml", daemon=True).start()
    if not done.wait(tools.patience):
        message = f"It has not answered for {tools.patience:g} s: it hangs. Look at the kernel's log."
        return Finding(about, "wrong", message)
    return found[0]


def _counted(version: str, gpus: int) -> Finding:
    if gpus:
        return Finding("driver", "fine", f"Version {version} answers and lists GPUs: {gpus}.")
    message = f"Version {version} answers, but lists no GPU: none is there, or its device node is hidden."
    return Finding("driver", "wrong", message)


def _processes(processes: Processes) -> Finding:
    if processes.are_the_nodes():
        return Finding("processes", "fine", "The agent is in the node's PID namespace.")
    message = (
        "The agent is not in the node's PID namespace: who uses a GPU without holding it, and how much memory"
        " each pod uses, is not known. Set nodeAgent.hostPID in the chart."
    )
    return Finding("processes", "warning", message)


def _shares(settings: Settings, tools: Tools) -> Finding:
    about, slots = "shares", settings.sharing_slots
    mode, node = _whose(settings, tools)
    if not slots or (mode == "existing" and not settings.sharing_reservation_pods):
        return Finding(about, "fine", "GPUs are given whole only.")
    if mode == "existing":
        way = Opening(slots=slots, reserve=settings.sharing_reserve_mib, own_dev=settings.own_dev_root)
        if problem := way.problem(amounts(node)):
            return Finding(about, "warning", f"No GPU can be opened for shares. {problem}")
        return Finding(about, "fine", f"A reservation pod opens a GPU, which {slots} containers can share.")
    if settings.device_list_strategy is not Strategy.CDI:
        message = (
            f"With the strategy {settings.device_list_strategy} containers get their GPUs, but are not told"
            f" how much of them they may use: set {names.setting('device_list_strategy')} to {Strategy.CDI}."
        )
        return Finding(about, "warning", message)
    if settings.mps_root is not None and not any(settings.mps_root.glob(f"*/{mps_names.STATE}")):
        message = (
            f"No MPS control daemon has answered yet, by {settings.mps_root}: see the pods of sharing.mps."
        )
        return Finding(about, "warning", message)
    return Finding(about, "fine", f"{slots} containers can share a GPU.")


def _device_nodes(dev_root: Path, minors: dict[str, int | None]) -> Iterator[Finding]:
    about = "device nodes"
    if not minors:
        return
    for uuid, minor in minors.items():
        if minor is None:
            yield Finding(about, "wrong", f"The driver does not say which one belongs to {uuid}.")
        elif not (dev_root / f"nvidia{minor}").exists():
            yield Finding(about, "wrong", f"There is no {dev_root}/nvidia{minor} for {uuid}.")
    for name, remedy in (("nvidiactl", "nvidia-modprobe"), (cdi.UNIFIED_MEMORY, "nvidia-modprobe -u -c=0")):
        if not (dev_root / name).exists():
            message = f"There is no {dev_root}/{name}, without which CUDA does not work: run `{remedy}`."
            yield Finding(about, "wrong", message)
    yield Finding(about, "fine", f"Looked for in {dev_root}.")


def _driver_files(settings: Settings) -> Finding:
    about, root = "driver files", settings.driver_root
    version = driver.driver_version(driver.find(root))
    if version is None:
        message = f"No libnvidia-ml.so.<version> is under {root}: images must bring the driver's libraries."
        return Finding(about, "warning", message)
    return Finding(about, "fine", f"Those of version {version} are under {root}.")


def _sockets(settings: Settings) -> Iterator[Finding]:
    yield _socket("kubelet", settings.device_plugins / "kubelet.sock", "wrong", "no GPU can be allocated")
    if elsewhere := wrong_root(settings.kubelet_root, root_in_use(settings.proc_root)):
        yield Finding("kubelet's root folder", "wrong", elsewhere)
    without = "the API server is asked instead"
    pods_api = _socket("kubelet's Pods API", settings.pods_api_socket, "warning", without)
    yield pods_api
    without = "pods of a kubelet without the Pods API cannot be distinguished"
    severity: Severity = "warning"
    if pods_api.severity != "fine":
        severity, without = "wrong", "pods cannot be distinguished, so the node gets none"
    yield _socket("kubelet's PodResources API", settings.pod_resources_socket, severity, without)


def _other_plugin(settings: Settings, tools: Tools) -> Finding:
    about = "other plugins"
    mode, _ = _whose(settings, tools)
    if mode == "existing":
        return _existing(settings)
    effect = GIVES_NO_CLAIMS if mode == "dra" else DOES_NOT_REGISTER
    found = OtherPlugin(settings.device_plugins, effect=effect)()
    if found is not None:
        return Finding(about, "wrong", found)
    return Finding(about, "fine", "None gives out GPUs on this node.")


def _whose(settings: Settings, tools: Tools) -> tuple[Whose, Node | None]:
    """Who gives out the GPUs now, and the Node if it can be read."""
    try:
        node = tools.node()
    except ApiError:
        return settings.device_plugin, None
    return given_by(node) or whose(node, settings.device_plugin), node


def _owner(settings: Settings, tools: Tools) -> Finding:
    about = "who gives out GPUs"
    now, node = _whose(settings, tools)
    wanted = whose(node, settings.device_plugin) if node else now
    if now == wanted:
        return Finding(about, "fine", f"It is {now!r}.")
    message = (
        f"It is still {now!r}, and the label {names.DEVICE_PLUGIN} says {wanted!r}: an Event"
        f" {event_reasons.CHANGE_WAITS} on the Node says what that waits for."
    )
    return Finding(about, "warning", message)


def _claims(settings: Settings, tools: Tools) -> Iterator[Finding]:
    now, _ = _whose(settings, tools)
    for severity, message in checks(tools.claims, settings.dra_driver, are_given=now == "dra"):
        yield Finding("claims", severity, message)


def _existing(settings: Settings) -> Finding:
    """Whether another plugin has registered GPUs, where it is to give them out."""
    about = "other plugins"
    try:
        registered = CheckpointFile(settings.device_plugins, names.GPU_RESOURCE).registered()
    except CheckpointError as error:
        return Finding(about, "wrong", str(error))
    if not registered:
        message = "The kubelet has no registered GPU: the device plugin of this node does not run."
        return Finding(about, "wrong", message)
    counted = ", ".join(f"{name}: {len(ids)}" for name, ids in sorted(registered.items()))
    return Finding(about, "fine", f"Another one gives out the GPUs, and this agent observes ({counted}).")


def _socket(about: str, path: Path, severity: Severity, without: str) -> Finding:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(PATIENCE)
        try:
            client.connect(str(path))
        except OSError as error:
            why = error.strerror or str(error)
            return Finding(about, severity, f"Nobody answers at {path} ({why}): {without}.")
    return Finding(about, "fine", f"It answers at {path}.")


def _cdi_folder(folder: Path) -> Finding:
    about = "CDI"
    if not folder.is_dir():
        return Finding(about, "wrong", f"There is no folder {folder}: the runtime would find nothing there.")
    if not os.access(folder, os.W_OK):
        return Finding(about, "wrong", f"The agent may not write to {folder}.")
    return Finding(about, "fine", f"Specifications can be written to {folder}.")


def _api(settings: Settings, tools: Tools) -> Iterator[Finding]:
    about = "API server"
    leases = (Permission(verb, "leases", "coordination.k8s.io", settings.namespace) for verb in LEASE_RIGHTS)
    status = () if settings.sharing_gpushare_status == "none" else (STATUS_RIGHT,)
    try:
        missing = [right for right in (*RIGHTS, *status, *leases) if not tools.may(right)]
        for right in missing:
            yield Finding(about, "wrong", f"The agent may not {right}: install the chart's roles.")
        if not missing:
            yield Finding(about, "fine", "It answers, and the agent has its rights.")
        if settings.device_list_strategy is Strategy.CDI and RIGHTS[0] not in missing:
            yield runtime(tools.node().status.node_info.container_runtime_version)
    except ApiError as error:
        yield Finding(about, "wrong", f"{error}")


def runtime(version: str) -> Finding:
    """Whether a container runtime understands CDI, by its version in the Node (``containerd://2.1.4``)."""
    about = "container runtime"
    name, _, numbers = version.partition("://")
    found = re.match(r"v?(\d+)\.(\d+)", numbers)
    if found is None or name not in _RUNTIMES:
        return Finding(about, "warning", f"It is not known whether {version or 'it'} understands CDI.")
    number = (int(found[1]), int(found[2]))
    if number < _RUNTIMES[name]:
        least = ".".join(map(str, _RUNTIMES[name]))
        remedy = f"set {names.setting('device_list_strategy')}"
        message = f"{version} does not understand CDI, {name} {least} does: {remedy}."
        return Finding(about, "wrong", message)
    if name == "containerd" and number < _SWITCHED:
        message = f"{version} understands CDI if its configuration says enable_cdi = true."
        return Finding(about, "warning", message)
    return Finding(about, "fine", f"{version} understands CDI.")
