"""Reports kubelets that have refused pods: an Event on the Node, and a counter.

``__main__`` runs it periodically in a thread of its own.
"""

from collections.abc import Callable
from typing import Final

import structlog

from cluster import names
from cluster.decide.serving import Refusal
from cluster.objects.nodes import Node
from cluster.process.clock import Clock
from extender.leadership import Leads
from extender.metrics import Metrics
from extender.state import ClusterState

log = structlog.get_logger(__name__)

EVERY: Final = 1.0
"""Seconds between two rounds."""

Report = Callable[[Node, str, str], object]
"""``(node, reason, message)``: write an Event on the Node; never raises."""


class KubeletRejections:
    """Reports the refusals that the state has recorded."""

    def __init__(
        self, state: ClusterState, clock: Clock, report: Report, metrics: Metrics, *, leads: Leads
    ) -> None:
        """Args: leads: whether this extender is the one of several that reports."""
        self._leads = leads
        self._state = state
        self._clock = clock
        self._report = report
        self._metrics = metrics

    def reconcile(self) -> None:
        """One round: report every refusal once."""
        with self._state.locked():
            found = [(refusal, self._node(refusal)) for refusal in self._state.refusals]
            self._state.refusals.clear()
        for refusal, node in found:
            self._metrics.refusals.inc()
            log.warning("a kubelet rejected a pod", pod=refusal.pod.key, node=refusal.pod.spec.node_name)
            if node and self._leads():
                self._report(node, names.KUBELET_REFUSES, message(refusal))

    def refusing(self) -> float:
        """How many nodes are barred at this instant."""
        with self._state.locked():
            return float(len(self._state.serving.refusing(monotonic=self._clock.monotonic())))

    def _node(self, refusal: Refusal) -> Node | None:
        return self._state.nodes.get(refusal.pod.spec.node_name or "")


def message(refusal: Refusal) -> str:
    """The text of the Event on the Node."""
    pod = refusal.pod
    words = (pod.status.message or pod.status.reason or "").strip().rstrip(".")
    return (
        f"The kubelet refused pod {pod.key}, which was bound here with GPUs: {words}."
        f" No GPU pod is bound here for {refusal.pause:.0f} s,"
        " nor before the node agent has renewed its Lease."
    )
