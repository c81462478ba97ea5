"""What a pod to be scheduled finds on the nodes: other pods, claims, volumes. Kept on request.

Owned and guarded by ``ClusterCache``. Little is kept of each bound pod, whether or not it requests GPUs:
there may be tens of thousands.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Generic

from cluster.decide.ledger.resource_versions import is_older
from cluster.decide.scheduler_filters import ClusterObjects, ExistingPod, NodePods, node_pods_of, other_of
from cluster.kube.resources import Object, T
from cluster.objects.namespaces import Namespace
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from cluster.objects.volumes import StorageClass, Volume, VolumeClaim


class Store(Generic[T]):
    """All objects of one kind, as they are now: a handler for a reflector."""

    def __init__(self, lock: AbstractContextManager[object], notify: Callable[[], None]) -> None:
        self._lock = lock
        self._notify = notify
        self._objects: dict[str, T] = {}

    def all(self) -> Mapping[str, T]:
        """Name, or ``namespace/name``, -> object, at this instant."""
        with self._lock:
            return dict(self._objects)

    def replace(self, items: Sequence[T], _version: str, /) -> None:
        """A list: objects that are not in it are gone."""
        with self._lock:
            self._objects = {_key(one): one for one in items}
        self._notify()

    def upsert(self, obj: T, /) -> None:
        """An object is new or has changed; a state older than the known one is ignored."""
        with self._lock:
            known = self._objects.get(_key(obj))
            if known is None or not is_older(obj.metadata, known.metadata):
                self._objects[_key(obj)] = obj
        self._notify()

    def remove(self, obj: T, /) -> None:
        """An object was deleted."""
        with self._lock:
            self._objects.pop(_key(obj), None)
        self._notify()


class SchedulingObjects:
    """Pods by node; claims, volumes and their classes."""

    def __init__(self, lock: AbstractContextManager[object], notify: Callable[[], None]) -> None:
        self._on: dict[str, dict[str, ExistingPod]] = {}
        self._node_of: dict[str, str] = {}
        self._node_pods: dict[str, NodePods] = {}
        self._stale: set[str] = set()
        self.claims: Store[VolumeClaim] = Store(lock, notify)
        """PersistentVolumeClaims."""
        self.volumes: Store[Volume] = Store(lock, notify)
        """PersistentVolumes."""
        self.classes: Store[StorageClass] = Store(lock, notify)
        """StorageClasses."""

    def apply_pod(self, pod: Pod) -> None:
        """A pod is new or has changed."""
        uid, node = pod.metadata.uid, pod.spec.node_name
        other = other_of(pod) if node else None
        if node is None or other is None:
            self.forget_pod(uid)
            return
        on = self._on.setdefault(node, {})
        # A bound pod stays where it is; changes of its status do not matter here.
        if on.get(uid) != other:
            on[uid] = other
            self._node_of[uid] = node
            self._stale.add(node)

    def forget_pod(self, uid: str) -> None:
        """A pod is gone, has ended or is terminating."""
        node = self._node_of.pop(uid, None)
        if node is not None:
            del self._on[node][uid]
            self._stale.add(node)

    def cluster_objects(
        self, nodes: Mapping[str, Node], namespaces: Mapping[str, Namespace]
    ) -> ClusterObjects:
        """The present state; the given mappings are used without a copy."""
        self._sum_up()
        return ClusterObjects(
            nodes=nodes,
            node_pods=dict(self._node_pods),
            claims=self.claims.all(),
            volumes=self.volumes.all(),
            classes=self.classes.all(),
            namespaces=namespaces,
        )

    def _sum_up(self) -> None:
        for node in self._stale:
            if self._on[node]:
                self._node_pods[node] = node_pods_of(self._on[node].values())
            else:
                del self._on[node]
                self._node_pods.pop(node, None)
        self._stale.clear()


def _key(obj: Object) -> str:
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
