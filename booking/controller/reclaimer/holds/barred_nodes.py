"""Nodes on which a hold did not help a pod: barred for it for a while.

While a node is barred, nothing is reserved for the pod there: other pods must not lose work in vain
repeatedly. The bar is an annotation; the leader measures how long it has been there unchanged.
"""

from typing import Final

from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from cluster import names
from cluster.kube.interface import Kube
from cluster.kube.resources import PODS
from cluster.objects.barred_nodes import barred
from cluster.objects.pods import Pod, is_live
from cluster.process.clock import Clock

BARRED_FOR: Final = 600.0
"""Seconds for which a node is barred."""


class BarredNodes:
    """Bars nodes, and lifts the bars when their time is over."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube = kube
        self._clock = clock
        self._seen: dict[str, tuple[str, float]] = {}

    def with_node(self, pod: Pod, node: str) -> str:
        """The annotation with one more node."""
        return ",".join(sorted(barred(pod) | {node}))

    def expired(self, snapshot: ReclaimerSnapshot) -> list[Pod]:
        """Waiting pods whose bars have been unchanged for long enough."""
        now = self._clock.monotonic()
        seen: dict[str, tuple[str, float]] = {}
        for uid, pod in snapshot.annotated.items():
            text = pod.metadata.annotation(names.BARRED)
            if text and not pod.spec.node_name and is_live(pod):
                known = self._seen.get(uid)
                seen[uid] = known if known and known[0] == text else (text, now)
        self._seen = seen
        return [snapshot.pods[uid] for uid, (_, since) in seen.items() if now - since >= BARRED_FOR]

    def lift(self, pod: Pod) -> None:
        """Allow the pod on every node again.

        Raises:
            ApiError: it could not be written.
        """
        meta = pod.metadata
        body = {"metadata": {"uid": meta.uid, "annotations": {names.BARRED: None}}}
        self._kube.patch(PODS, meta.name, body, namespace=meta.namespace)
        self._seen.pop(meta.uid, None)
