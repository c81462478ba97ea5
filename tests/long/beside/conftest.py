"""Nodes whose GPUs another plugin gives out; each test has a cluster of its own."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from cluster import names
from devcluster.cluster import Cluster
from devcluster.daemons import Daemon
from devcluster.fakenvml import FakeNvml
from devcluster.product import Parts

STANDIN = Path(__file__).parents[2] / "standin" / "nvidia_plugin.py"
FOLDER = "/var/lib/kubelet/device-plugins"


class Beside(Parts):
    """The product on nodes that another plugin serves; of nodes without agents, none is started."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.cluster = cluster
        self.agents: list[str] = list(cluster.nodes)

    def start_agent(
        self,
        node: str,
        **how: object,
    ) -> Daemon:
        settings = {names.setting("device_plugin"): names.EXISTING, **dict(how.pop("settings", None) or {})}
        return super().start_agent(node, settings=settings, **how)  # type: ignore[arg-type]


def start_standin(cluster: Cluster, node: str, *, replicas: int = 1, name: str = "stock-plugin") -> Daemon:
    """The stand-in for NVIDIA's plugin, beginning to run on a node with all of its GPUs."""
    gpus = FakeNvml(cluster.gpu_folder(node))
    devices = {uuid: str(gpus.folder / "dev" / f"nvidia{index}") for index, uuid in enumerate(gpus.uuids())}
    config: Mapping[str, object] = {
        "folder": FOLDER,
        "sick": str(sick_file(cluster, node)),
        "resources": {names.GPU_RESOURCE: {"devices": devices, "replicas": replicas}},
    }
    path = cluster.state / f"{name}-{node}.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return cluster.spawn(name, [sys.executable, str(STANDIN), str(path)], node=node)


def sick_file(cluster: Cluster, node: str) -> Path:
    """Where the stand-in reads which of its devices are sick."""
    return cluster.state / f"sick-on-{node}"
