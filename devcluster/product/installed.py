"""The whole product in a development cluster as an administrator gets it: built images, and `helm install`.

The cluster first gets what it lacks compared with a real one: a volume for the database, and simulated GPUs,
which the node agent finds through the chart's own values.
"""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from cluster import names
from cluster.process.clock import SystemClock
from cluster.version import VERSION
from devcluster.binaries import ProgressLine
from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.fakenvml import FakeNvml
from devcluster.images import product, stock
from devcluster.product import chart
from devcluster.product.people import IDENTITY_RULES, People
from devcluster.wait import poll

EXTENDERS: Final = f"deployment/{names.EXTENDER}"
"""In mode ``existing``: only the replica that leads is Ready."""
_SECONDS: Final = 180
_EVERY: Final = 0.5
_NODE: Final = f"$({names.setting('node_name')})"
_NEVER: Final = "Never"


class Installed:
    """Our chart's pods in one cluster."""

    def __init__(self, cluster: Cluster, values: Mapping[str, Any] | None = None) -> None:
        """Args: values: of the chart, besides those that a development cluster needs; they have priority."""
        self._cluster = cluster
        self._given = values or {}
        self.folder = cluster.state / "parts"
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.people = People(cluster, self.folder)
        self._server: dict[str, str] = {}
        self._url = ""

    def deploy(self, report: Callable[[str], None] = lambda _line: None) -> None:
        """Bring images and a volume, install the chart, and wait until every pod is ready.

        Raises:
            BuildError: an image cannot be built.
            ClusterError: the chart is refused, or a part does not get ready.
        """
        self.bring()
        report("the nodes have our images")
        self.people.create()
        self.install()
        report("the chart is installed, and all of its pods are ready")

    def bring(self) -> None:
        """Provide images and a volume, which an administrator has before the chart is installed.

        Raises:
            BuildError: an image cannot be built.
        """
        for image in product.build(VERSION, ProgressLine(sys.stderr, SystemClock())):
            self._cluster.load_image(image.tar)
        self._cluster.load_image(stock.kube_scheduler(self._cluster.program("kubebox")).tar)
        self._give_volume()

    def install(self) -> None:
        """`helm upgrade --install` with the current values; returns when every pod is ready."""
        chart.install(self._cluster, self.values())
        self.await_ready()
        # The Service has no address before: the command line finds it after the next installation.
        self._url = self.booking_url

    def set_policy(self, settings: Mapping[str, str]) -> None:
        """Upgrade the chart with these settings of the booking server, named as environment variables."""
        prefix = names.setting("")
        self._server = {name.removeprefix(prefix).lower(): value for name, value in settings.items()}
        self.install()

    def await_ready(self) -> None:
        """Wait until all pods are ready as last installed, and no older ones are left.

        Raises:
            ClusterError: that takes too long; with the pods and the ends of their logs.
        """
        where = f"--namespace={names.NAMESPACE}"
        for workload in self._workloads():
            try:
                if workload == EXTENDERS:
                    self._await_leader(where)
                else:
                    self._cluster.kubectl("rollout", "status", workload, where, f"--timeout={_SECONDS}s")
            except ClusterError as error:
                seen = self._cluster.kubectl("get", "pods", where, "--output=wide")
                logs = self._cluster.kubectl("logs", workload, where, "--all-containers", "--tail=5")
                raise ClusterError(f"{error}\n{seen}\n{logs}") from error

    def _workloads(self) -> tuple[str, ...]:
        mode = self._given.get("scheduler", {}).get("mode")
        deciding = EXTENDERS if mode == "existing" else f"deployment/{names.SCHEDULER_ACCOUNT}"
        server, controller = f"deployment/{names.BOOKING_SERVER}", f"deployment/{names.CONTROLLER}"
        return f"daemonset/{names.NODE_AGENT}", deciding, server, controller

    def _await_leader(self, where: str) -> None:
        """Wait until one replica is Ready: `rollout status` would wait for all of them."""

        def leads() -> bool:
            found = json.loads(self._cluster.kubectl("get", EXTENDERS, where, "--output=json"))
            status, replicas = found["status"], found["spec"]["replicas"]
            is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
            # Old pods count, too, until they are gone.
            counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "readyReplicas")]
            return is_seen and counts == [replicas, replicas, 1]

        if not poll(leads, seconds=_SECONDS, every=_EVERY):
            raise ClusterError(f"No pod of {EXTENDERS} gets ready within {_SECONDS} s.")

    @property
    def booking_url(self) -> str:
        """URL of the booking server, without a path: the same on the host and in pods."""
        service = ("service", names.BOOKING_SERVER, f"--namespace={names.NAMESPACE}")
        address = self._cluster.kubectl("get", *service, "--output=jsonpath={.spec.clusterIP}")
        return f"http://{address}"

    def values(self) -> dict[str, Any]:
        """The values that differ from the chart's defaults: local images, people, simulated GPUs."""
        repository, _, tag = stock.KUBE_SCHEDULER.rpartition(":")
        needed = {
            "image": {"pullPolicy": _NEVER},
            "identityRules": json.loads(IDENTITY_RULES),
            "scheduler": {
                "image": {"repository": repository, "tag": tag, "pullPolicy": _NEVER},
                "extraArgs": self._cluster.emulation,
            },
            "server": {"settings": self._server, "url": self._url},
            "nodeAgent": self._simulated(),
        }
        return _merged(needed, self._given)

    def _simulated(self) -> dict[str, Any]:
        """Values with which each agent sees the folder of its node, at the path that it has on the node."""
        nodes = self._cluster.gpu_folder(self._cluster.nodes[0]).parent.parent
        found = FakeNvml(self._cluster.gpu_folder(self._cluster.nodes[0]))
        prefix, here = names.setting(""), str(found.folder)
        there = here.replace(str(nodes / self._cluster.nodes[0]), f"{nodes}/{_NODE}")
        seen = {name: value.replace(here, there) for name, value in found.environment().items()}
        library = Path(seen[names.setting("nvml_library")]).parent
        ours = {
            name.removeprefix(prefix).lower(): value
            for name, value in seen.items()
            if name.startswith(prefix)
        }
        dev = {"dev_root": f"{there}/dev", "host_dev_root": f"{there}/dev"}
        mounts = {"simulated": nodes, "library": library}
        return {
            "settings": {**ours, **dev, "recovery_seconds": 3},
            "extraEnv": [{"name": n, "value": v} for n, v in seen.items() if not n.startswith(prefix)],
            "extraVolumes": [{"name": n, "hostPath": {"path": str(p)}} for n, p in mounts.items()],
            "extraVolumeMounts": [{"name": n, "mountPath": str(p)} for n, p in mounts.items()],
        }

    def _give_volume(self) -> None:
        """Make the volume that a storage class would make: a folder of the first node."""
        folder = self.folder / "volume"
        folder.mkdir(exist_ok=True)
        node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [self._cluster.nodes[0]]}
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": names.DATABASE_CLAIM},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "local": {"path": str(folder)},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [node]}]}},
            },
        }
        self._cluster.kubectl("apply", "--server-side", "--filename=-", given=json.dumps(volume))


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Values as Helm merges them: mappings key by key; everything else is replaced as a whole."""
    both = {
        key: _merged(below[key], above[key])
        for key in below.keys() & above.keys()
        if isinstance(below[key], Mapping) and isinstance(above[key], Mapping)
    }
    return {**below, **above, **both}
