"""Everything that is decided before the first process starts: the input of every component's command line."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from devcluster import versions
from devcluster.addresses import Addresses
from devcluster.paths import Paths
from devcluster.pki import Pki
from devcluster.spec import ClusterSpec, NodeSpec

API_PORT = 6443
_KUBELET_PORT = 10250
_KUBELET_HEALTH_PORT = 10350


class Programs(msgspec.Struct, frozen=True):
    """Where the cluster's binaries lie: absolute paths by name."""

    paths: dict[str, str]

    def path(self, name: str) -> Path:
        """The absolute path of a binary."""
        return Path(self.paths[name])


@dataclass(frozen=True, slots=True)
class Plan:
    """A cluster with its paths, addresses, keys and binaries."""

    spec: ClusterSpec
    paths: Paths
    addresses: Addresses
    programs: Programs
    cgroup_version: int

    @property
    def pki(self) -> Pki:
        """Keys, certificates and tokens."""
        return Pki(self.paths.pki)

    @property
    def server(self) -> str:
        """URL of the API server, on the host, inside the cluster and in pods."""
        return f"https://{self.addresses.control_plane}:{API_PORT}"

    def kubernetes(self, command: str) -> list[str]:
        """The beginning of the command line of one of Kubernetes' commands."""
        return [str(self.programs.path("kubebox")), command]

    def kubelet(self, node: NodeSpec) -> list[str]:
        """The beginning of the command line of a node's kubelet."""
        own = versions.program(node.kubernetes) if node.kubernetes else "kubebox"
        return [str(self.programs.path(own)), "kubelet"]

    def configuration(self, name: str) -> Path:
        """The path of a configuration file of the control plane."""
        return self.paths.configuration / name

    @property
    def nodes(self) -> list["NodePlan"]:
        """The nodes in the order of their indexes."""
        return [NodePlan(self, index, spec) for index, spec in enumerate(self.spec.nodes)]

    @property
    def search_path(self) -> str:
        """PATH of every daemon: containerd finds its shim there."""
        folders = {self.programs.path(name).parent for name in ("containerd-shim-runc-v2", "runc", "kubebox")}
        return ":".join(
            [*sorted(map(str, folders)), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
        )


@dataclass(frozen=True, slots=True)
class NodePlan:
    """Names, addresses and ports of one node."""

    cluster: Plan
    index: int
    spec: NodeSpec

    @property
    def name(self) -> str:
        """The node's name."""
        return self.spec.name

    @property
    def folder(self) -> Path:
        """The node's own state on the host."""
        return self.cluster.paths.node(self.name)

    @property
    def gpu_folder(self) -> Path:
        """State of the node's simulated GPUs; `dev/` in it has their device nodes."""
        return self.folder / "gpu"

    @property
    def device_folder(self) -> Path:
        """The node's simulated device nodes: nvidia0, nvidiactl, nvidia-uvm ..."""
        return self.gpu_folder / "dev"

    @property
    def cgroup(self) -> str:
        """The kubelet's cgroupRoot."""
        return f"/{self.cluster.paths.mark}.{self.name}"

    @property
    def kubelet_port(self) -> int:
        """The kubelet's port; nodes share a network namespace, so their ports differ."""
        return _KUBELET_PORT + self.index

    @property
    def kubelet_health_port(self) -> int:
        """The port at which the kubelet answers /healthz, inside the cluster."""
        return _KUBELET_HEALTH_PORT + self.index

    @property
    def kubeconfig(self) -> Path:
        """The kubelet's kubeconfig."""
        return self.folder / "kubelet.kubeconfig"
