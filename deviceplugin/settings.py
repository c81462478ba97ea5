"""The node agent's settings, from the environment: ``GPU_BOOKING_NODE_NAME`` and so on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from cluster import names
from cluster.objects.slots import PER_GPU
from cluster.process.logs import Level, Style
from deviceplugin.allocation.mig_packing import Packing
from deviceplugin.injection.share_edits import Hook
from deviceplugin.injection.strategy import Strategy
from deviceplugin.nvml.call_deadline import DEADLINE_SECONDS
from deviceplugin.nvml.health import RECOVERY_SECONDS
from deviceplugin.nvml.mig_strategy import MigStrategy
from deviceplugin.nvml.xids import XidPolicy

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Xid = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Xids = Annotated[tuple[Xid, ...], msgspec.Meta(max_length=1000)]
NodeName = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z", max_length=253)]
Namespace = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z", max_length=63)]
DriverName = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z", max_length=40)]
"""The name of the node's sockets begins with it."""
Instance = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?\Z", max_length=40)]
"""A pod's uid has 36 characters."""
Address = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z.:-]+\Z", max_length=253)]
Url = Annotated[str, msgspec.Meta(pattern=r"^https?://[!-~]+\Z", max_length=2048)]
ProcessName = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]

LONGEST_PATH: Final = 4095
"""Bytes; the kernel's limit."""
LONGEST: Final = {"device_plugins": 69, "kubelet_root": 80}
"""Bytes, by setting; the path of a socket beneath it may have 107."""


class PathError(ValueError):
    """The settings have paths that cannot be used; a message for each."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that may differ between two nodes or installations."""

    node_name: NodeName
    """The Node that this agent runs on."""
    instance: Instance | None = None
    """Names this agent among others of the node, in its sockets and its Lease: its pod's uid."""
    namespace: Namespace = names.NAMESPACE
    """Where the agent's Lease is."""

    device_plugin: Literal["ours", "existing", "dra"] = "ours"
    """Who gives out the GPUs, unless the Node's label ``gpu-booking.io/device-plugin`` says: this agent's
    device plugin, another one that is there already and that the agent then only observes, or this agent's
    driver of claims. Devices that pods still have in another way of ours stay with them until they end."""
    dra_driver: DriverName = names.DRA_DRIVER
    """Name of the driver of claims, in DeviceClasses and ResourceSlices."""
    dra_shares: bool = False
    """Whether claims can ask for a part of a GPU's memory (`capacity`), so that several have one GPU. Then
    the capacity `memory` of a GPU is what can be shared. It needs Kubernetes 1.36."""
    dra_counters: bool = True
    """Whether the MIG devices of a GPU consume shared counters, if the API server stores these (from
    Kubernetes 1.36 on). A kube-scheduler that does not know them gives no device that has any: switch it off
    where kube-scheduler is older than the API server, or has the gate DRAPartitionableDevices off."""
    book_claims: bool = False
    """Whether claims can be booked: then the inventory says by which name claims have each device. Extender,
    controller and booking server need the same."""
    device_list_strategy: Strategy = Strategy.CDI
    """How devices come into a container."""
    mig_strategy: MigStrategy = MigStrategy.NONE
    """How MIG devices are advertised: not at all, all as ``nvidia.com/gpu`` (``single``), or
    each profile as a resource of its own next to whole GPUs (``mixed``)."""
    mig_packing: Packing = Packing.DISTRIBUTED
    """From which GPU a pod's MIG device is taken without an assignment: that of which the fewest are taken
    (``distributed``), or the most (``packed``)."""
    mig_capabilities: Path = Path("/proc/driver/nvidia/capabilities")
    """Where the driver says which device nodes give access to a MIG device."""
    sharing_slots: Annotated[int, msgspec.Meta(ge=0, le=64)] = PER_GPU
    """How many containers can share a GPU (``nvidia.com/gpu.shared``); 0: GPUs are given whole only. With
    another strategy than ``cdi`` a container gets its GPUs, but is not told how much of them it may use."""
    sharing_reserve_mib: Annotated[int, msgspec.Meta(ge=0, le=999_999)] = 512
    """MiB of each GPU that are not given in shares, besides what the driver keeps for itself: contexts of
    CUDA take some."""
    sharing_hook: Hook | None = None
    """A library of yours that limits containers which share a GPU in time slices, as JSON: `{"mounts": {"/in
    the/container": "/on/the/node"}, "environment": {"VARIABLE": "{memory}"}}`, where `{memory}` is MiB and
    `{cores}` percent. Nothing of the kind is shipped."""
    mps_root: Path | None = None
    """The folder by which the agent and the control daemons of NVIDIA's Multi-Process Service speak; without
    it GPUs are shared in time slices only."""
    sharing_reservation_pods: bool = False
    """Whether GPUs that another device plugin gives out can be shared, each opened by a reservation pod, if
    ``NVIDIA_VISIBLE_DEVICES`` has an effect on this node."""
    sharing_gpushare_status: Literal["none", "GiB", "MiB"] = "none"
    """The unit in which the Node's status has `aliyun.com/gpu-mem` (and `aliyun.com/gpu-count`), which
    `kubectl inspect gpushare` reads. Not where gpushare's own plugin runs."""
    own_dev_root: Path = Path("/dev")
    """The folder of the device nodes of the agent's own container, which show whether it has."""
    kubelet_root: Path = Path("/var/lib/kubelet")
    """The folder that the kubelet's ``--root-dir`` names, at the same path on the node: in it are the sockets
    of the Pods API and of PodResources."""
    kubelet_state: Path | None = None
    """Where this process finds the same folder as a whole, with the kubelet's record of claims; without it,
    there."""
    device_plugins: Path = Path("/var/lib/kubelet/device-plugins")
    """The kubelet's folder of device plugins, with its checkpoint. It does not move with ``--root-dir``."""
    cdi_dir: Path = Path("/var/run/cdi")
    """The folder from which the container runtime reads CDI specifications."""
    host_cdi_dirs: Annotated[tuple[Path, ...], msgspec.Meta(max_length=8)] = (
        Path("/etc/cdi"),
        Path("/var/run/cdi"),
    )
    """Where the agent looks for a specification of ``nvidia.com/gpu`` that the host has already: that is used
    where it has all GPUs of the node and is of the driver that is installed, otherwise ours. The runtime's
    folders as the agent sees them, the one that wins last; none, given as ``[]``: ours is always used."""
    dev_root: Path = Path("/dev")
    """The folder of the device nodes, as the agent sees it."""
    host_dev_root: Path | None = None
    """The same folder as the container runtime sees it; by default the same path."""
    sys_root: Path = Path("/sys")
    """Where the kernel says on which NUMA node a GPU is."""
    driver_root: Path = Path("/")
    """The root under which the driver's libraries and tools are, as the agent sees it."""
    host_driver_root: Path | None = None
    """The same root as the container runtime sees it; by default the same path."""
    nvml_library: Path | None = None
    """``libnvidia-ml.so.1``; by default that under ``driver_root``, or else wherever the loader finds it."""
    on_missing_gpus: Literal["wait", "fail"] = "wait"
    """What an agent does that finds no driver or no GPU at its start: it tries again, or it ends."""
    nvml_deadline_seconds: Annotated[float, msgspec.Meta(ge=1, le=50)] = DEADLINE_SECONDS
    """How long the driver may take to answer about one GPU before that GPU counts as hanging, in seconds."""
    recovery_seconds: Annotated[float, msgspec.Meta(ge=0, le=86400)] = RECOVERY_SECONDS
    """How long a GPU must be without a bad signal to be healthy again, in seconds."""
    ignore_xids: Xids = ()
    """Numbers of XID errors that leave a GPU healthy, in addition to those of the table."""
    critical_xids: Xids = ()
    """Numbers of XID errors that make a GPU unhealthy although the table says that they do not."""
    node_labels: bool = True
    """Whether the Node gets the labels of GPU feature discovery, and one for each model. Those that node
    feature discovery writes are left to it. Where it is off those go that an agent wrote before."""
    proc_root: Path = Path("/proc")
    """Where the kernel says which boot of the node this is."""

    tolerated_processes: Annotated[tuple[ProcessName, ...], msgspec.Meta(max_length=1000)] = (
        "Xorg",
        "Xwayland",
        "gnome-shell",
        "nvidia-cuda-mps",
    )
    """Names (15 letters, as the kernel keeps them) of processes of no pod that may use GPUs: a display
    server, MPS. Any other is reported, and every process of a pod that does not hold the GPU."""
    metrics_include_users: bool = True
    """Whether ``/metrics`` names the user and the booking of the pod on each device."""
    usage_report_seconds: Annotated[float, msgspec.Meta(ge=0, le=60)] = 10
    """How often the Lease reports how the GPUs are used, with a renewal that is due anyway; 0: never."""

    host: Address = "0.0.0.0"
    """Where ``/livez``, ``/healthz``, ``/readyz`` and ``/metrics`` are served."""
    port: Port = 9400
    """Port of the probes and metrics."""
    kube_server: Url | None = None
    """URL of the API server; by default that of the cluster which this pod runs in."""
    kube_ca_file: Path | None = None
    """Certificate of the API server's authority; by default the ServiceAccount's."""
    kube_token_file: Path | None = None
    """The token that we show it, read again when it changes; by default the ServiceAccount's."""
    log_level: Level = "info"
    """The least important lines that are written."""
    log_style: Style = "json"
    """One JSON object per line, or text for people."""

    def __post_init__(self) -> None:
        """Check the paths and the XIDs.

        Raises:
            ContradictionError: an XID is both ignored and critical.
            PathError: a path cannot be used.
        """
        if unusable := list(self._unusable_paths()):
            raise PathError("\n".join(unusable))
        XidPolicy(frozenset(self.ignore_xids), frozenset(self.critical_xids))

    def _unusable_paths(self) -> Iterator[str]:
        for field in msgspec.structs.fields(self):
            value = getattr(self, field.name)
            longest = LONGEST.get(field.name, LONGEST_PATH)
            for path in value if isinstance(value, tuple) else (value,):
                if isinstance(path, Path) and not _is_usable(path, longest):
                    allowed = f"expected an absolute path of 1 to {longest} bytes"
                    yield f"The setting {names.setting(field.name)} is {str(path)!r}: {allowed}."

    @property
    def xid_policy(self) -> XidPolicy:
        """Which XIDs make a GPU unhealthy."""
        return XidPolicy(frozenset(self.ignore_xids), frozenset(self.critical_xids))

    @property
    def pods_api_socket(self) -> Path:
        """The kubelet's Pods API."""
        return self.kubelet_root / "pods-api" / "pods-api.sock"

    @property
    def pod_resources_socket(self) -> Path:
        """The kubelet's PodResources API."""
        return self.kubelet_root / "pod-resources" / "kubelet.sock"


def _is_usable(path: Path, longest: int) -> bool:
    try:
        length = len(bytes(path))
    except UnicodeEncodeError:  # half a character
        return False
    return path.is_absolute() and length <= longest and "\0" not in str(path)
