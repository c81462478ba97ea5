"""Reports kubelets that have rejected pods: an Event on the Node, and a counter.

``__main__`` runs it periodically in a thread of its own.
"""

from collections.abc import Callable
from typing import Final

import structlog

from cluster import event_reasons
from cluster.decide.serving import KubeletRejection
from cluster.objects.nodes import Node
from cluster.process.clock import Clock
from extender.leadership import Leads
from extender.metrics import Metrics
from extender.state.cluster_state import ClusterState

log = structlog.get_logger(__name__)

EVERY: Final = 1.0
"""Seconds between two rounds."""

Report = Callable[[Node, str, str], object]
"""``(node, reason, message)``: write an Event on the Node; never raises."""


class KubeletRejections:
    """Reports the rejections that the state has recorded."""

    def __init__(
        self, state: ClusterState, clock: Clock, report: Report, metrics: Metrics, *, leads: Leads
    ) -> None:
        """Args: leads: whether this extender leads: only the leader writes Events."""
        self._leads = leads
        self._state = state
        self._clock = clock
        self._report = report
        self._metrics = metrics

    def reconcile(self) -> None:
        """One round: report every rejection once."""
        with self._state.locked():
            found = [(rejection, self._node(rejection)) for rejection in self._state.kubelet_rejections]
            self._state.kubelet_rejections.clear()
        for rejection, node in found:
            self._metrics.kubelet_rejections.inc()
            log.warning("a kubelet rejected a pod", pod=rejection.pod.key, node=rejection.pod.spec.node_name)
            if node and self._leads():
                self._report(node, event_reasons.KUBELET_REFUSES, message(rejection))

    def rejecting(self) -> float:
        """Number of nodes that are barred now."""
        with self._state.locked():
            return float(len(self._state.serving.rejecting(monotonic=self._clock.monotonic())))

    def _node(self, rejection: KubeletRejection) -> Node | None:
        return self._state.nodes.get(rejection.pod.spec.node_name or "")


def message(rejection: KubeletRejection) -> str:
    """The text of the Event on the Node."""
    pod = rejection.pod
    words = (pod.status.message or pod.status.reason or "").strip().rstrip(".")
    return (
        f"The kubelet rejected pod {pod.key}, which was bound here with GPUs: {words}."
        f" No GPU pod is bound here for {rejection.pause:.0f} s,"
        " nor before the node agent has renewed its Lease."
    )
