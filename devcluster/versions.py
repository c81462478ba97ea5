"""Versions of Kubernetes that a cluster may have, and what each needs to be set to run here. Pure.

The newest is built for every cluster. An older one is built from its own pinned modules by the first cluster
that asks for it, or else the newest passes for it (``--emulated-version``), as far as it can: its APIs and
defaults, not its code.
"""

from typing import Final

from devcluster.binaries.pins import NEWEST, OLDER, version
from devcluster.errors import ClusterError

NEWEST_MINOR: Final = ".".join(version(NEWEST).removeprefix("v").split(".")[:2])
EMULATED: Final = ("1.34", "1.35", "1.36")
"""What the newest can pass for: it refuses anything that is older."""
_BEFORE_NODES_IN_TOKENS: Final = ("1.30",)


def check(kubernetes: str, emulates: str, *kubelets: str) -> None:
    """ClusterError unless there are all of these versions, each a minor version or empty."""
    for minor in {kubernetes, *kubelets} - {"", *OLDER}:
        raise ClusterError(
            f"There is no Kubernetes {minor} here: there are {', '.join(OLDER)} and, if none is named, the"
            f" newest, {NEWEST_MINOR}. That one can emulate {', '.join(EMULATED)}."
        )
    if emulates and emulates not in EMULATED:
        raise ClusterError(
            f"Kubernetes {NEWEST_MINOR} cannot emulate {emulates}, only {', '.join(EMULATED)}."
        )
    if emulates and kubernetes:
        raise ClusterError(
            f"Kubernetes {kubernetes} is to emulate {emulates}, but only the newest can: name one of both."
        )


def named(minor: str) -> str:
    """The field of a specification for a minor version that a person has named; empty for the newest."""
    return "" if minor == NEWEST_MINOR else minor


def program(minor: str) -> str:
    """The name, among a cluster's programs, of all of an older Kubernetes in one executable."""
    return f"kubebox-{minor}"


def server_gates(minor: str) -> dict[str, bool]:
    """Gates of the API server: node agents that are processes of the host have tokens bound to a Node."""
    return {"ServiceAccountTokenNodeBinding": True} if minor in _BEFORE_NODES_IN_TOKENS else {}


def proxy_gates(minor: str) -> dict[str, bool]:
    """Gates of kube-proxy: without a right to iptables, it works by nftables."""
    return {"NFTablesProxyMode": True} if minor in _BEFORE_NODES_IN_TOKENS else {}


def kubelet_gates(emulates: str) -> dict[str, bool]:
    """Gates of a kubelet of the newest version in a cluster that passes for an older one."""
    return {"PodsAPI": False} if emulates else {}


def emulation(emulates: str) -> list[str]:
    """Arguments of API server, kube-controller-manager and every kube-scheduler."""
    return [f"--emulated-version=kube={emulates}"] if emulates else []
