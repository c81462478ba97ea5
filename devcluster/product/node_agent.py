"""The node agent in a development cluster: in its node's mounts, with the node's simulated GPUs."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cluster import names
from devcluster.components.containerd import CDI_FOLDER
from devcluster.fakenvml import FakeNvml
from devcluster.product.part import Part

NAME: Final = "node-agent"
PROGRAM: Final = (sys.executable, "-m", "deviceplugin")
ACCOUNT: Final = names.NODE_AGENT
FIRST_PORT: Final = 9500
"""Agents of all nodes share the cluster's network, so each gets a port of its own from here on."""
_RECOVERY_SECONDS = 3
"""So that a simulated GPU is soon healthy again: the default would be a minute."""


def part(
    *, node: str, name: str, port: int, program: Sequence[str], gpus: Path | None, settings: Mapping[str, str]
) -> Part:
    """How a node's agent is started.

    Args:
        node: the node's name.
        name: of the daemon; a second agent of one node needs another.
        port: of its probes.
        program: its command line.
        gpus: folder of the node's simulated GPUs; None if it has the machine's own.
        settings: environment that has priority: its account's, and what differs from the default.
    """
    environment = {
        **({} if gpus is None else _simulated(gpus)),
        names.setting("node_name"): node,
        names.setting("instance"): f"{name}-{port}",
        names.setting("port"): str(port),
        names.setting("recovery_seconds"): str(_RECOVERY_SECONDS),
        # A specification in /etc/cdi is the host's: the node's containerd does not read it.
        names.setting("host_cdi_dirs"): CDI_FOLDER,
        **settings,
    }
    return Part(name=name, program=program, environment=environment, probes=port, node=node)


def _simulated(gpus: Path) -> dict[str, str]:
    return {**FakeNvml(gpus).environment(), names.setting("dev_root"): str(gpus / "dev")}
