"""The context of the story's steps, and the lines that report it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from cluster import names
from cluster.kube.interface import Kube
from cluster.objects.inventory import Device
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from devcluster.demo import pod_status
from devcluster.demo.pod_cache import ObjectCache, PodCache
from devcluster.demo.reporter import Reporter
from devcluster.demo.rest import Rest


class Kubectl(Protocol):
    """kubectl as the cluster's administrator."""

    def __call__(self, *arguments: str) -> str:
        """Run kubectl with these arguments; returns what it printed."""
        ...


def _nothing(_name: str) -> None:
    """The default interlude: do nothing."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """What the steps of the story need.

    people: user -> their client of the API server. rest: alice's client of the booking server. policy:
    restarts the booking server with another policy (environment). interlude: called with a name at the
    moments at which a test may inject a fault.
    """

    namespace: str
    people: dict[str, Kube]
    rest: Rest
    policy: Callable[[dict[str, str]], None]
    kubectl: Kubectl
    pods: PodCache
    nodes: ObjectCache[Node]
    node_names: tuple[str, ...]
    interlude: Callable[[str], None] = _nothing
    patience: float = 60.0
    """Seconds that each step may take."""


class Narrator:
    """Reports what happens to pods as it happens."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._models: dict[str, str] = {}
        self._since: dict[str, float] = {}
        self.moments: dict[tuple[str, str], float] = {}
        """(pod, transition) -> seconds since the story began, of the newest pod of that name."""

    def knows(self, device: Device) -> None:
        """Remember the model of a device that has been published."""
        self._models[device.uuid] = device.model

    def begins(self, name: str) -> None:
        """Start to measure the time of a pod that is about to be created."""
        self._since[name] = self._reporter.seconds

    def model(self, uuid: str) -> str:
        """The model of a device, or ``unknown``."""
        return self._models.get(uuid, "unknown")

    def devices(self, uuids: frozenset[str]) -> str:
        """Devices as text: their UUIDs, with their models."""
        return ", ".join(f"{u} ({self.model(u)})" for u in sorted(uuids)) or "no device"

    def report(self, transition: str, pod: Pod) -> None:
        """Write one line for one transition of a pod."""
        name, now = pod.metadata.name, self._reporter.seconds
        if transition == "returned":
            self._since[name] = now
        self.moments[name, transition] = now
        took = f"after {now - self._since.get(name, now):.2f} s"
        next_because = "booked" if pod.metadata.annotation(names.BOOKING) else "the next in line"
        lines = {
            "returned": "comes back without a GPU",
            "held": f"is {next_because}: {self.devices(pod_status.held(pod))} is kept for it",
            "scheduled": f"is scheduled to {pod.spec.node_name} {took}",
            "bound": f"is bound with {self.devices(pod_status.devices(pod))}",
            "running": f"runs {took}",
            "notified": f"is notified: {pod_status.notice(pod)}",
            "leaving": "has to leave",
            "ended": f"has ended {took}",
        }
        self._reporter.say(name, lines[transition])
