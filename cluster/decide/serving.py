"""Whether a node serves: whether its kubelet would take a GPU pod that is bound to it now (ADR 58). Pure.

The Lease of its agent shows that, but may be wrong until the agent's death is noticed. So

- a rejection bars the node until its agent has renewed the Lease afterwards and a pause is over, which
  doubles with each further rejection; once a later pod was admitted, nothing of it counts any more;
- where renewals of Leases may have been missed for a while, a node counts after its next renewal;
- a node whose kubelet reports fewer allocatable devices than its agent has healthy ones gets no pod;
- no more pods wait for the answer of its kubelet than its window is wide (``answer_windows``), so that the
  death of an agent costs few.

Instants of pods and Leases are compared only if one node's clock wrote both; all others are the reader's.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cluster import names
from cluster.decide.answer_windows import LARGEST, SILENT_AFTER, AnswerWindows
from cluster.decide.exponential_backoff import exponential_backoff
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.liveness import AgentState, Liveness
from cluster.objects.assignment import readable_assignment_of
from cluster.objects.inventory import resource_of
from cluster.objects.kubelet_rejection import blames_node
from cluster.objects.nodes import Lease, Node
from cluster.objects.pods import Pod, container_needs, is_live
from cluster.objects.quantity import QuantityError, parse_count

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds."""
MISSED_AFTER: Final = 15.0
"""Seconds without an event of any Lease after which some may have been missed; agents renew every 10 s."""
ANSWERED_WITHIN: Final = 30.0
"""Seconds for which a pod without the kubelet's answer keeps others off its node, if the agent is alive."""
_SECOND: Final = timedelta(seconds=1)
"""The unit to which a pod's ``status.startTime`` is rounded."""
_COUNTED: Final = 10_000
"""Number of rejected pods to remember, so that none counts twice."""


@dataclass(frozen=True, slots=True)
class KubeletRejection:
    """The newest rejection of a node's kubelet."""

    pod: Pod
    at: float
    """When it happened, on the reader's monotonic clock."""
    number: int = 1
    """How many there were in a row, including this one."""

    @property
    def pause(self) -> float:
        """Seconds after it during which nothing is bound to the node."""
        return exponential_backoff(self.number, first=FIRST_PAUSE, longest=LONGEST_PAUSE)

    @property
    def ends(self) -> float:
        """When the pause is over, on the reader's monotonic clock."""
        return self.at + self.pause


@dataclass(slots=True)
class _Watch:
    """One watch of Leases: that of the agents', or that of the kubelets'."""

    required_after: float = float("-inf")
    """Renewals until then may have been missed."""
    last_at: float | None = None
    """When the last event came; None: there was none since."""
    was_listed: bool = False


class Serving(Liveness):
    """What is known of every node: its agent's Lease, and whether its kubelet has admitted or rejected pods.

    Only pods count that have an assignment of ours: others may be rejected through no fault of the node.
    """

    def __init__(self, largest_window: int = LARGEST) -> None:
        """Args: largest_window: the number of pods to which a node's window may widen."""
        super().__init__()
        self.windows: Final = AnswerWindows(largest_window)
        self._watches = {False: _Watch(), True: _Watch()}
        """Whether it is the kubelets' -> the watch: events of one prove nothing of the other."""
        self._rejections: dict[str, KubeletRejection] = {}
        self._taken: dict[str, datetime] = {}
        """Node -> when the latest pod that has run was admitted, by the node's clock."""
        self._counted: OrderedDict[str, None] = OrderedDict()

    def apply_lease(self, lease: Lease, *, monotonic: float, now: datetime) -> None:
        """Take over a Lease of any holder: an event of one shows that its watch works for all."""
        node, of = self._place_of(lease)
        watch = self._watches[of is self._kubelets]
        if watch.last_at is not None and monotonic - watch.last_at > MISSED_AFTER:
            self.require_renewal_after(monotonic, of_kubelet=of is self._kubelets)
        watch.last_at = monotonic
        before = None if node is None else self.state(node, monotonic=monotonic)
        if node is not None and (known := of.get(node)) and monotonic - known.at > MISSED_AFTER:
            self.windows.close(node)
        super().apply_lease(lease, monotonic=monotonic, now=now)
        if node is not None and self.state(node, monotonic=monotonic) != before:
            self.note_change(node)

    def expect_list(self, *, monotonic: float, of_kubelet: bool = False) -> None:
        """A list of all Leases comes: renewals before it may have been missed, unless it is the first."""
        watch = self._watches[of_kubelet]
        first = monotonic - MISSED_AFTER
        self.require_renewal_after(monotonic if watch.was_listed else first, of_kubelet=of_kubelet)
        watch.was_listed = True

    def require_renewal_after(self, instant: float, *, of_kubelet: bool = False) -> None:
        """Renewals may have been missed until then: a node counts after a later renewal."""
        watch = self._watches[of_kubelet]
        watch.required_after, watch.last_at = instant, None
        for node in self.nodes():
            self.note_change(node)

    def apply_pod(
        self, pod: Pod, *, was_known: bool, monotonic: float, now: datetime
    ) -> KubeletRejection | None:
        """Take over a pod. Returns the rejection by its kubelet if it is a new one, else None.

        Args:
            pod: any pod.
            was_known: whether the pod was seen before; if not, a rejection is dated back to its start time.
            monotonic: the reader's monotonic clock, seconds.
            now: the reader's wall clock, aware.
        """
        node, started = pod.spec.node_name, pod.status.start_time
        if not node or not readable_assignment_of(pod):
            return None
        if blames_node(pod):
            late = timedelta() if was_known or started is None else max(timedelta(), now - started)
            return self._rejected(node, pod, monotonic - late.total_seconds(), monotonic)
        if pod.status.phase == "Running" and started is not None:
            known = self._taken.get(node)
            self._taken[node] = max(started, known) if known else started
            if self._is_outdated(node):
                del self._rejections[node]
                self.note_change(node)
        return None

    def forget_node(self, node: str) -> None:
        """A node is gone."""
        self._rejections.pop(node, None)
        self._taken.pop(node, None)
        self.windows.close(node)

    def is_full(self, node: str, unanswered: Collection[float], *, monotonic: float) -> bool:
        """Whether no further pod may be bound to the node until its kubelet has answered.

        A kubelet that does not answer does not keep pods off its node indefinitely, unless its agent has
        given no sign of life either since the pod was bound: both may be gone, with the machine.

        Args:
            node: its name.
            unanswered: since when an answer is expected, for each pod that waits for one.
            monotonic: the reader's monotonic clock, seconds.
        """
        if not unanswered:
            return False
        renewal = self.renewal(node)
        renewed = renewal.at if renewal else float("-inf")
        if monotonic - min(unanswered) > SILENT_AFTER or monotonic - renewed > MISSED_AFTER:
            self.windows.close(node)
        counted = [at for at in unanswered if monotonic - at < ANSWERED_WITHIN or renewed <= at]
        return len(counted) >= self.windows.size(node)

    def rejecting(self, *, monotonic: float) -> list[KubeletRejection]:
        """The rejections that bar their nodes now."""
        found = self._rejections.items()
        return [rejection for node, rejection in found if self._bars(node, rejection, monotonic)]

    def state(self, node: str, *, monotonic: float) -> AgentState:
        """The state of the node's agent at this instant, including rejections by its kubelet."""
        found, renewal = super().state(node, monotonic=monotonic), self.renewal(node)
        if found != "alive" or renewal is None:
            return found
        if renewal.at < self._watches[node in self._without_agent].required_after:
            return "unconfirmed"
        rejection = self._rejections.get(node)
        return "kubelet-rejecting" if rejection and self._bars(node, rejection, monotonic) else "alive"

    def due(self, node: str, *, monotonic: float) -> float | None:
        """When its state changes by time alone; None if it does not."""
        rejection, unresponsive = self._rejections.get(node), super().due(node, monotonic=monotonic)
        if rejection is None or rejection.ends <= monotonic:
            return unresponsive
        return rejection.ends if unresponsive is None else min(unresponsive, rejection.ends)

    def _rejected(self, node: str, pod: Pod, at: float, monotonic: float) -> KubeletRejection | None:
        uid = pod.metadata.uid
        if uid in self._counted or monotonic - at > LONGEST_PAUSE:
            return None
        self._counted[uid] = None
        if len(self._counted) > _COUNTED:
            self._counted.popitem(last=False)
        known = self._rejections.get(node)
        self._rejections[node] = KubeletRejection(pod, at, known.number + 1 if known else 1)
        if self._is_outdated(node):
            del self._rejections[node]
            return None
        self.windows.close(node)
        self.note_change(node)
        return self._rejections[node]

    def _is_outdated(self, node: str) -> bool:
        """Whether a pod runs that was admitted after the rejection."""
        rejection, taken = self._rejections.get(node), self._taken.get(node)
        started = rejection.pod.status.start_time if rejection else None
        return taken is not None and started is not None and taken > started

    def _bars(self, node: str, rejection: KubeletRejection, monotonic: float) -> bool:
        renewal, started = self.renewal(node), rejection.pod.status.start_time
        if renewal is None or monotonic < rejection.ends:
            return True
        if started is None:
            return renewal.seen <= rejection.at
        return renewal.renewed < started + _SECOND


def is_short(view: NodeView, node: Node | None, pods: Mapping[str, Pod]) -> bool:
    """Whether the kubelet reports fewer allocatable devices than the node's agent has healthy ones.

    Args:
        view: the node's devices and their holders.
        node: the node, whose ``status.allocatable`` its kubelet reports.
        pods: uid -> pod, of the holders there: a device that a pod has under a resource's former name is not
            allocatable under the present one.
    """
    allocatable = (node.status.allocatable if node else None) or {}
    for resource, healthy in view.healthy_count.items():
        if resource == names.CLAIM_RESOURCE:
            continue  # kubelets report no devices of claims
        missing = healthy - _count(allocatable.get(resource, 0))
        if missing > 0 and missing > _under_another_name(view, resource, pods):
            return True
    return False


def awaits_answer(pod: Pod) -> bool:
    """Whether the kubelet has neither admitted nor rejected yet a bound pod with an assignment of ours."""
    is_unanswered = pod.status.phase in (None, "Pending") and pod.status.start_time is None
    return bool(pod.spec.node_name and is_unanswered and is_live(pod) and readable_assignment_of(pod))


def _under_another_name(view: NodeView, resource: str, pods: Mapping[str, Pod]) -> int:
    ours = {device.uuid for device in view.devices if device.is_healthy and resource_of(device) == resource}
    return len(
        {
            uuid
            for holding in view.holdings
            if (pod := pods.get(holding.uid)) and resource not in _requested(pod)
            for uuid in holding.devices.keys() & ours
        }
    )


def _requested(pod: Pod) -> frozenset[str]:
    try:
        return frozenset(need.resource for need in container_needs(pod))
    except QuantityError:
        return frozenset()


def _count(amount: str | int) -> int:
    try:
        return parse_count(str(amount))
    except QuantityError:
        return 0
