"""Nodes whose GPUs another plugin gives out; each test has a cluster of its own."""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cluster import names
from devcluster.cluster import Cluster
from devcluster.daemons import Daemon
from devcluster.fakenvml import FakeNvml
from devcluster.images import PAUSE
from devcluster.product import Parts
from devcluster.product.deploy import AGENT
from tests.e2e.usual import CONTROLLER, POLICY

STANDIN = Path(__file__).parents[2] / "standin" / "nvidia_plugin.py"
FOLDER = "/var/lib/kubelet/device-plugins"


WITHOUT_AGENT = names.setting("without_agent")


class Beside(Parts):
    """The product on nodes that other plugins serve: labels of the Nodes say on which."""

    def __init__(self, cluster: Cluster, *, whose: str = "existing", without: Iterable[str] = ()) -> None:
        """Args: whose: plugin, of nodes without a label; without: nodes on which no agent is started."""
        super().__init__(cluster)
        self._whose = whose
        self._without = frozenset(without)
        self._counts = {WITHOUT_AGENT: "labelled" if self._without else "none"}

    def begin(self) -> None:
        """Deploy everything."""
        self.deploy(server=POLICY, controller=CONTROLLER)

    def start_server(self, settings: Mapping[str, str] | None = None) -> Daemon:
        """Start the booking server."""
        return super().start_server({**self._counts, **(settings or {})})

    def start_controller(self, settings: Mapping[str, str] | None = None, **how: Any) -> Daemon:
        """Start a controller."""
        return super().start_controller({**self._counts, **(settings or {})}, **how)

    def start_agent(self, node: str, **how: Any) -> Daemon:
        """Start a node agent, if the node has one."""
        if node in self._without:
            return self._cluster.spawn("no-agent", ["sleep", "1000000"], node=node)
        settings = {names.setting("device_plugin"): self._whose, **dict(how.pop("settings", None) or {})}
        return super().start_agent(node, settings=settings, **how)

    def of_extender(self) -> dict[str, str]:
        """The environment of an extender."""
        return super().of_extender() | self._counts

    def agent(self, node: str, name: str = AGENT) -> Daemon:
        """The agent of a node, or what stands in its place."""
        return super().agent(node, "no-agent" if node in self._without else name)

    def _values(self) -> dict[str, object]:
        where = {"enabled": False, "without": self._counts[WITHOUT_AGENT]}
        return {**super()._values(), "nodeAgent": where}


class Sharing(Beside):
    """GPUs of the other plugin are opened for shares."""

    def begin(self) -> None:
        opening = {names.setting("sharing_reservation_image"): PAUSE}
        self.deploy(server=POLICY, controller=CONTROLLER | opening)

    def start_agent(self, node: str, **how: Any) -> Daemon:
        """Its container would have device nodes, if NVIDIA's runtime ran on the node."""
        own_dev = FakeNvml(self._cluster.gpu_folder(node)).folder / "dev"
        settings = {
            names.setting("sharing_reservation_pods"): "true",
            names.setting("own_dev_root"): str(own_dev),
        }
        return super().start_agent(node, settings=settings, **how)

    def _values(self) -> dict[str, object]:
        return {**super()._values(), "sharing": {"reservationPods": {"enabled": True, "image": PAUSE}}}


def start_standin(
    cluster: Cluster,
    node: str,
    *,
    replicas: int = 1,
    name: str = "stock-plugin",
    resources: Iterable[str] = (names.GPU_RESOURCE,),
    parts: Mapping[str, Iterable[str]] | None = None,
) -> Daemon:
    """The stand-in for NVIDIA's plugin, beginning to run on a node.

    Args:
        cluster: of the node.
        node: its name.
        replicas: turns on each GPU.
        name: of the daemon.
        resources: under which it has all GPUs of the node.
        parts: MIG resource -> ids of its devices, all of the first GPU.
    """
    gpus = FakeNvml(cluster.gpu_folder(node))
    devices = {uuid: str(gpus.folder / "dev" / f"nvidia{index}") for index, uuid in enumerate(gpus.uuids())}
    offers = {resource: {"devices": devices, "replicas": replicas} for resource in resources}
    first = next(iter(devices.values()))
    offers |= {resource: {"devices": dict.fromkeys(ids, first)} for resource, ids in (parts or {}).items()}
    config: Mapping[str, object] = {
        "folder": FOLDER,
        "unhealthy": str(unhealthy_file(cluster, node)),
        "resources": offers,
    }
    path = cluster.state / f"{name}-{node}.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return cluster.spawn(name, [sys.executable, str(STANDIN), str(path)], node=node)


def unhealthy_file(cluster: Cluster, node: str) -> Path:
    """Where the stand-in reads which of its devices are unhealthy."""
    return cluster.state / f"unhealthy-on-{node}"
