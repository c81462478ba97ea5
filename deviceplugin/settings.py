"""The node agent's settings, from the environment: ``GPU_BOOKING_NODE_NAME`` and so on."""

from pathlib import Path
from typing import Annotated

import msgspec

from cluster import names
from cluster.runtime.logs import Level, Style
from deviceplugin.allocate import Strategy
from deviceplugin.nvml.health import QUIET_SECONDS

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that may differ between two nodes or installations."""

    node_name: str
    """The Node that this agent runs on."""
    instance: str | None = None
    """Names this agent among others of the node, in its sockets and its Lease: its pod's uid."""
    namespace: str = names.NAMESPACE
    """Where the agent's Lease is."""

    strategy: Strategy = Strategy.CDI
    """How devices come into a container."""
    kubelet_root: Path = Path("/var/lib/kubelet")
    """The kubelet's root folder, at the same path on the node."""
    cdi_dir: Path = Path("/var/run/cdi")
    """The folder from which the container runtime reads CDI specifications."""
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
    """``libnvidia-ml.so.1``; by default wherever the loader finds it."""
    quiet_seconds: Annotated[float, msgspec.Meta(ge=0)] = QUIET_SECONDS
    """How long a GPU must be without a critical sign to be healthy again."""

    host: str = "0.0.0.0"
    """Where ``/healthz``, ``/readyz`` and ``/metrics`` are served."""
    port: Port = 9400
    """Port of the probes and metrics."""
    kube_server: str | None = None
    """URL of the API server; by default that of the cluster which this pod runs in."""
    kube_ca_file: Path | None = None
    """Certificate of the API server's authority; by default the ServiceAccount's."""
    kube_token_file: Path | None = None
    """The token that we show it, read again when it changes; by default the ServiceAccount's."""
    log_level: Level = "info"
    """The least important lines that are written."""
    log_style: Style = "json"
    """One JSON object per line, or text for people."""

    @property
    def device_plugins(self) -> Path:
        """The kubelet's folder of device plugins."""
        return self.kubelet_root / "device-plugins"

    @property
    def pods_api_socket(self) -> Path:
        """The kubelet's Pods API."""
        return self.kubelet_root / "pods-api" / "pods-api.sock"

    @property
    def pod_resources_socket(self) -> Path:
        """The kubelet's PodResources API."""
        return self.kubelet_root / "pod-resources" / "kubelet.sock"
