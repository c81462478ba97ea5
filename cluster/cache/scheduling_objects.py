"""What a pod to be scheduled finds on the nodes: other pods, claims, volumes. Kept on request.

Owned and guarded by ``ClusterCache``. Little is kept of each bound pod, whether or not it requests GPUs:
there may be tens of thousands.
"""

from collections.abc import Mapping

from cluster.cache.store import Store
from cluster.decide.scheduler_filters import ClusterObjects, ExistingPod, NodePods, node_pods_of, other_of
from cluster.objects.namespaces import Namespace
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from cluster.objects.volumes import StorageClass, Volume, VolumeClaim


class SchedulingObjects:
    """Pods by node; claims, volumes and their classes."""

    def __init__(
        self, claims: Store[VolumeClaim], volumes: Store[Volume], classes: Store[StorageClass]
    ) -> None:
        self._on: dict[str, dict[str, ExistingPod]] = {}
        self._node_of: dict[str, str] = {}
        self._node_pods: dict[str, NodePods] = {}
        self._with_anti_affinity: dict[str, None] = {}
        """Nodes with pods that have anti-affinity terms."""
        self._stale: set[str] = set()
        self._claims, self._volumes, self._classes = claims, volumes, classes

    def change_pod(self, uid: str, _before: Pod | None, pod: Pod | None) -> None:
        """A pod is new or has changed; None for a pod that is gone."""
        node = pod.spec.node_name if pod else None
        other = other_of(pod) if pod and node else None
        if node is None or other is None:
            self._forget_pod(uid)
            return
        on = self._on.setdefault(node, {})
        # A bound pod stays where it is; changes of its status do not matter here.
        if on.get(uid) != other:
            on[uid] = other
            self._node_of[uid] = node
            self._stale.add(node)

    def _forget_pod(self, uid: str) -> None:
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
            claims=self._claims.all(),
            volumes=self._volumes.all(),
            classes=self._classes.all(),
            namespaces=namespaces,
        ).knowing_anti_affinity(self._with_anti_affinity)

    def _sum_up(self) -> None:
        for node in self._stale:
            self._with_anti_affinity.pop(node, None)
            if self._on[node]:
                self._node_pods[node] = found = node_pods_of(self._on[node].values())
                if found.with_anti_affinity:
                    self._with_anti_affinity[node] = None
            else:
                del self._on[node]
                self._node_pods.pop(node, None)
        self._stale.clear()
