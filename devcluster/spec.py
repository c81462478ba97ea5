"""The specification of a cluster: values that a caller writes, checked before anything is touched."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from devcluster import versions
from devcluster.addresses import NODES_AT_MOST
from devcluster.errors import ClusterError
from devcluster.fakenvml import GpuSpec, default_gpus

DEFAULT_NAME = "default"

_LABEL = re.compile(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?")
_RESERVED_CLUSTERS = {"logs", "kubeconfig"}
_RESERVED_NODES = {"pki", "etcd", "logs", "configuration"}


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One node: its name, its simulated GPUs, and labels that its kubelet sets.

    real: whether it has this machine's driver and all its GPUs in place of simulated ones.
    kubernetes: minor version of its kubelet, such as 1.34; empty: that of the cluster.
    """

    name: str
    gpus: tuple[GpuSpec, ...] = ()
    real: bool = False
    labels: Mapping[str, str] = {}
    kubernetes: str = ""


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A whole cluster.

    name: its name on this machine, at most 20 characters; two clusters of one name cannot run together.
    scheduler: a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) without its clientConnection's
        kubeconfig; empty for the default profile.
    apiserver_arguments: further command line arguments of kube-apiserver.
    kubelet: fields that override those of every kubelet's KubeletConfiguration.
    kubernetes: minor version of all of Kubernetes, such as 1.30, which is built first; empty: the newest.
    emulates: minor version that the newest Kubernetes is to pass for, such as 1.35: nothing is built. Its
        kubelets, which cannot do that, get the gates of that version that matter to us.
    """

    name: str = DEFAULT_NAME
    nodes: tuple[NodeSpec, ...] = (
        NodeSpec(name="node-a", gpus=default_gpus(0)),
        NodeSpec(name="node-b", gpus=default_gpus(1)),
    )
    scheduler: Mapping[str, Any] = {}
    apiserver_arguments: tuple[str, ...] = ()
    kubelet: Mapping[str, Any] = {}
    kubernetes: str = ""
    emulates: str = ""


def checked_name(name: str) -> str:
    """The name of a cluster, or a ClusterError that says what a name may be."""
    if not _LABEL.fullmatch(name) or name in _RESERVED_CLUSTERS:
        raise ClusterError(
            f"A cluster cannot be called {name!r}: a name has 1 to 20 characters of a-z, 0-9 and '-', begins "
            f"with a letter, does not end with '-', and is none of {', '.join(sorted(_RESERVED_CLUSTERS))}."
        )
    return name


def checked(spec: ClusterSpec) -> ClusterSpec:
    """The specification unchanged, or a ClusterError that names the first thing wrong with it."""
    checked_name(spec.name)
    names = [node.name for node in spec.nodes]
    if not 1 <= len(names) <= NODES_AT_MOST:
        raise ClusterError(f"A cluster has 1 to {NODES_AT_MOST} nodes; {len(names)} were asked for.")
    if len(set(names)) != len(names):
        raise ClusterError(f"Every node needs a name of its own; these were given: {', '.join(names)}.")
    versions.check(spec.kubernetes, spec.emulates, *(node.kubernetes for node in spec.nodes))
    for node in spec.nodes:
        if not _LABEL.fullmatch(node.name) or node.name in _RESERVED_NODES | set(CONTROL_PLANE):
            raise ClusterError(
                f"A node cannot be called {node.name!r}: a name has 1 to 20 characters of a-z, 0-9 and '-', "
                "begins with a letter, does not end with '-', and is not the name of a daemon."
            )
    return spec


CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
