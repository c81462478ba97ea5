"""Pods that come and go on a real cluster, and the moments at which a watch saw their states."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from cluster import names
from cluster.kube.interface import Kube
from cluster.kube.reflector import Reflector
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator

NAMESPACE = "bench"
PATIENCE = 180.0
MOST = 16
"""Requests at once: so many connections does the client keep."""


@dataclass(frozen=True)
class Birth:
    """Seconds from a pod's creation until it was bound, and until it ran."""

    bound: float
    running: float


class Sightings:
    """When each pod was first seen in a state: a handler for a reflector."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._seen: dict[tuple[str, str], float] = {}
        self._changed = threading.Condition()

    def replace(self, items: Sequence[Pod], _version: str, /) -> None:
        """All existing pods."""
        for pod in items:
            self.upsert(pod)

    def upsert(self, obj: Pod, /) -> None:
        """A new or changed pod."""
        if obj.spec.node_name:
            self._note(obj.metadata.name, "bound")
        if obj.status.start_time:
            self._note(obj.metadata.name, "started")
        if obj.status.phase in {"Running", "Failed"}:
            self._note(obj.metadata.name, obj.status.phase)
        reasons = {one.reason for one in obj.status.conditions or ()}
        if "Unschedulable" in reasons:
            self._note(obj.metadata.name, "rejected")
        if not reasons.isdisjoint({"Unschedulable", "SchedulingGated"}):
            self._note(obj.metadata.name, "waiting")
        if obj.metadata.deletion_timestamp:
            self._note(obj.metadata.name, "leaving")
        if obj.metadata.annotation(names.RECREATED_FROM) and obj.status.phase == "Running":
            self._note(obj.metadata.name, "returned")

    def remove(self, obj: Pod, /) -> None:
        """A deleted pod."""
        self._note(obj.metadata.name, "gone")

    def at(self, name: str, state: str) -> float:
        """When the pod was first seen in this state, on the monotonic clock; waits for it."""
        with self._changed:
            if not self._changed.wait_for(lambda: (name, state) in self._seen, PATIENCE):
                seen = [known for pod, known in self._seen if pod == name]
                raise RuntimeError(f"Pod {name} was not {state} within {PATIENCE:.0f} s, but only {seen}.")
            return self._seen[name, state]

    def _note(self, name: str, state: str) -> None:
        with self._changed:
            self._seen.setdefault((name, state), self._clock.monotonic())
            self._changed.notify_all()


class Ground:
    """One namespace of a cluster, watched."""

    def __init__(self, kube: Kube, sightings: Sightings) -> None:
        self._kube = kube
        self._sightings = sightings
        self._clock = SystemClock()
        self._born: dict[str, float] = {}

    def bear(self, *bodies: dict[str, Any], by: Kube | None = None) -> list[Birth]:
        """Create pods at once, as somebody or as the administrator, and wait until all of them run."""
        return [self.birth(name) for name in self.create(*bodies, by=by)]

    def create(self, *bodies: dict[str, Any], by: Kube | None = None) -> list[str]:
        """The same without waiting; returns their names."""
        kube, created = by or self._kube, self._clock.monotonic()
        with ThreadPoolExecutor(min(MOST, len(bodies))) as pool:
            list(pool.map(lambda body: kube.create(PODS, body, namespace=NAMESPACE), bodies))
        pods = [body["metadata"]["name"] for body in bodies]
        self._born.update(dict.fromkeys(pods, created))
        return pods

    def birth(self, name: str) -> Birth:
        """Wait until a pod runs."""
        created = self._born[name]
        return Birth(
            bound=self._sightings.at(name, "bound") - created,
            running=self._sightings.at(name, "Running") - created,
        )

    def remove(self, name: str) -> float:
        """Delete a pod and wait until it is gone; the seconds that this took."""
        begin = self._clock.monotonic()
        self._kube.delete(PODS, name, namespace=NAMESPACE)
        return self._sightings.at(name, "gone") - begin

    def remove_all(self, names: Iterable[str]) -> None:
        """Delete pods at once and wait until all are gone."""
        with ThreadPoolExecutor(MOST) as pool:
            list(pool.map(self.remove, names))

    def born(self, name: str) -> float:
        """When the pod's creation was requested, on the monotonic clock."""
        return self._born[name]

    def left(self, name: str) -> float:
        """When the pod was first seen to be terminating."""
        return self._sightings.at(name, "leaving")

    def await_waiting(self, name: str) -> None:
        """Wait until a pod waits: in line, or because kube-scheduler has found no node for it."""
        self._sightings.at(name, "waiting")

    def await_return(self, name: str) -> None:
        """Wait until a pod that was evicted runs again."""
        self._sightings.at(name, "returned")


@contextmanager
def sighted(kube: Kube, namespace: str = NAMESPACE) -> Iterator[Sightings]:
    """The states of a namespace's pods, while they are watched."""
    stop, sightings = threading.Event(), Sightings()
    reflector = Reflector(kube, PODS, sightings, SystemClock(), namespace=namespace)
    thread = threading.Thread(target=reflector.run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield sightings
    finally:
        stop.set()
        thread.join()


@contextmanager
def on_ground(cluster: Cluster) -> Iterator[Ground]:
    """The namespace, while its pods are watched."""
    cluster.kubectl("create", "namespace", NAMESPACE)
    with closing(administrator(cluster)) as kube, sighted(kube) as sightings:
        yield Ground(kube, sightings)
