"""Caches of every pod and node, fed by reflectors, and waits for conditions on them."""

import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from cluster.kube.resources import T
from cluster.objects.pods import Pod
from devcluster.demo.pod_status import TRANSITIONS
from devcluster.wait import poll

V = TypeVar("V")


class ObjectCache(Generic[T]):
    """The newest version of each object, by name: a handler for a reflector."""

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._lock = threading.Lock()

    def replace(self, items: Iterable[T], _version: str) -> None:
        """Store the objects of a list, which are all that there are."""
        with self._lock:
            self._objects = {item.metadata.name: item for item in items}

    def upsert(self, obj: T) -> None:
        """Store a new or changed object."""
        with self._lock:
            self._objects[obj.metadata.name] = obj

    def remove(self, obj: T) -> None:
        """Forget an object that was deleted."""
        with self._lock:
            self._objects.pop(obj.metadata.name, None)

    def get(self, name: str) -> T | None:
        """The newest version; None if there is no such object."""
        with self._lock:
            return self._objects.get(name)

    def await_that(self, name: str, condition: Callable[[T], V | None], *, seconds: float) -> V | None:
        """Wait until the condition returns something true for this object; None after the seconds."""

        def ask() -> V | None:
            found = self.get(name)
            return None if found is None else condition(found)

        return poll(ask, seconds=seconds, every=0.005)


class PodCache(ObjectCache[Pod]):
    """The newest version of each pod; it reports each transition of a pod once."""

    def __init__(self, report: Callable[[str, Pod], None]) -> None:
        """Args: report: called once per pod and transition, with the transition's name, in their order."""
        super().__init__()
        self._report = report
        self._reported: set[tuple[str, str]] = set()

    def replace(self, items: Iterable[Pod], version: str) -> None:
        """Store all pods, and report what happened to them while the watch was interrupted."""
        pods = tuple(items)
        super().replace(pods, version)
        for pod in pods:
            self._check(pod)

    def upsert(self, obj: Pod) -> None:
        """Store a new or changed pod, and report its new milestones."""
        super().upsert(obj)
        self._check(obj)

    def _check(self, obj: Pod) -> None:
        for name, reached in TRANSITIONS.items():
            key = (obj.metadata.uid, name)
            if key not in self._reported and reached(obj):
                self._reported.add(key)
                self._report(name, obj)
