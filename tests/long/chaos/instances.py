"""Which pod and which container of the product is meant, and the processes of a container on this machine."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cluster import names
from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import LEASES, WHOLE_PODS, WholePod
from tests.long.chaos.plan import AGENT, CONTROLLER, EXTENDER, SCHEDULER, SERVER

COMPONENTS: Final = {
    AGENT: ("node-agent", "node-agent", None),
    SERVER: ("server", "server", None),
    CONTROLLER: ("controller", "controller", names.CONTROLLER_LEASE),
    EXTENDER: ("extender", "extender", names.SCHEDULER_LEASE),
    SCHEDULER: ("extender", "kube-scheduler", names.SCHEDULER_LEASE),
}
"""Target -> its pods' component, its container, and the Lease whose holder leads."""


@dataclass(frozen=True)
class Instance:
    """One container of one pod, as it runs now."""

    pod: str
    uid: str
    container: str
    container_id: str
    """Empty where it does not run."""
    node: str
    is_ready: bool
    """Every container of the pod is."""

    def processes(self) -> list[int]:
        """Their PIDs on the host: the container's id is in the name of its control group."""
        groups = ((file, _text(file)) for file in Path("/proc").glob("[0-9]*/cgroup"))
        return [int(file.parent.name) for file, text in groups if self.container_id in text]

    def signal(self, number: int) -> None:
        """Send a signal to all of its processes; nothing happens where they have ended."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def instances(kube: Kube, target: str) -> list[Instance]:
    """Those of a target that there are, whichever leads; those of a node's agent on that node alone.

    Raises:
        ApiError: the API server does not answer.
    """
    node, _, part = target.rpartition("/")
    component, container, _ = COMPONENTS[part]
    ours = Selection(namespace=names.NAMESPACE, label_selector=f"{names.COMPONENT}={component}")
    found = _containers(kube.list(WHOLE_PODS, ours).items)
    return [one for one in found if one.container == container and node in ("", one.node)]


def chosen(kube: Kube, target: str) -> Instance | None:
    """The one that a harm is meant for: who leads, where one leads; None while there is none that runs.

    Raises:
        ApiError: the API server does not answer.
    """
    running = [one for one in instances(kube, target) if one.container_id]
    lease = COMPONENTS[target.rpartition("/")[2]][2]
    if lease is None:
        return running[0] if running else None
    holder = kube.get(LEASES, lease, namespace=names.NAMESPACE).spec.holder_identity or ""
    return next((one for one in running if holder.startswith(f"{one.pod}_")), None)


def _containers(pods: Iterable[WholePod]) -> Iterator[Instance]:
    for pod in pods:
        statuses: list[dict[str, Any]] = pod.status.get("containerStatuses") or []
        is_ready = bool(statuses) and all(status.get("ready") for status in statuses)
        for status in () if pod.metadata.deletion_timestamp else statuses:
            runs = "running" in (status.get("state") or {})
            container_id = str(status.get("containerID") or "").rpartition("/")[2] if runs else ""
            meta = pod.metadata
            node = str(pod.spec.get("nodeName"))
            yield Instance(meta.name, meta.uid, status["name"], container_id, node, is_ready)


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # it has ended
        return ""
