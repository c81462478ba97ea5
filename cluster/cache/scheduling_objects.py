"""What pods that are to be placed find on the nodes: other pods, claims, volumes. Kept for who asks for it.

Owned and guarded by ``ClusterCache``. Of each pod that is bound little is kept, whether or not it asks for
GPUs: there may be tens of thousands.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Generic

from cluster.decide.ledger.resource_versions import is_older
from cluster.decide.scheduler_filters import ClusterObjects, ExistingPod, NodePods, load_of, other_of
from cluster.kube.resources import Object, T
from cluster.objects.namespaces import Namespace
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from cluster.objects.volumes import StorageClass, Volume, VolumeClaim


class Store(Generic[T]):
    """All objects of one kind, as they are now: a handler for a reflector."""

    def __init__(self, lock: AbstractContextManager[object], tell: Callable[[], None]) -> None:
        self._lock = lock
        self._tell = tell
        self._objects: dict[str, T] = {}

    def all(self) -> Mapping[str, T]:
        """Name, or ``namespace/name``, -> object, at this instant; the lock must be held."""
        return dict(self._objects)

    def replace(self, items: Sequence[T], _version: str, /) -> None:
        """All there are."""
        with self._lock:
            self._objects = {_key(one): one for one in items}
        self._tell()

    def upsert(self, obj: T, /) -> None:
        """One is new or has changed; an older state than the one that is known changes nothing."""
        with self._lock:
            known = self._objects.get(_key(obj))
            if known is None or not is_older(obj.metadata, known.metadata):
                self._objects[_key(obj)] = obj
        self._tell()

    def remove(self, obj: T, /) -> None:
        """One is gone."""
        with self._lock:
            self._objects.pop(_key(obj), None)
        self._tell()


class SchedulingObjects:
    """Pods by node; claims, volumes and their classes."""

    def __init__(self, lock: AbstractContextManager[object], tell: Callable[[], None]) -> None:
        self._on: dict[str, dict[str, ExistingPod]] = {}
        self._node_of: dict[str, str] = {}
        self._loads: dict[str, NodePods] = {}
        self._stale: set[str] = set()
        self.claims: Store[VolumeClaim] = Store(lock, tell)
        """PersistentVolumeClaims."""
        self.volumes: Store[Volume] = Store(lock, tell)
        """PersistentVolumes."""
        self.classes: Store[StorageClass] = Store(lock, tell)
        """StorageClasses."""

    def apply_pod(self, pod: Pod) -> None:
        """A pod is new or has changed."""
        uid, node = pod.metadata.uid, pod.spec.node_name
        other = other_of(pod) if node else None
        if node is None or other is None:
            self.forget_pod(uid)
            return
        on = self._on.setdefault(node, {})
        # A bound pod stays where it is; what its status tells is no news here.
        if on.get(uid) != other:
            on[uid] = other
            self._node_of[uid] = node
            self._stale.add(node)

    def forget_pod(self, uid: str) -> None:
        """A pod is gone, has ended or has been told to go."""
        node = self._node_of.pop(uid, None)
        if node is not None:
            del self._on[node][uid]
            self._stale.add(node)

    def around(self, nodes: Mapping[str, Node], namespaces: Mapping[str, Namespace]) -> ClusterObjects:
        """This instant; what is handed in is kept as it is."""
        self._sum_up()
        return ClusterObjects(
            nodes=nodes,
            loads=dict(self._loads),
            claims=self.claims.all(),
            volumes=self.volumes.all(),
            classes=self.classes.all(),
            namespaces=namespaces,
        )

    def _sum_up(self) -> None:
        for node in self._stale:
            if self._on[node]:
                self._loads[node] = load_of(self._on[node].values())
            else:
                del self._on[node]
                self._loads.pop(node, None)
        self._stale.clear()


def _key(obj: Object) -> str:
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
