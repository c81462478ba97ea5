"""What a bind decides: devices, counted in the ledger before another pod can get them.

Steps that can fail by themselves, such as encoding the body, come before the decision is counted. It is taken
back if, and only if, it is certain that it did not happen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cluster import names
from cluster.decide.available import shares_on
from cluster.decide.ledger import AssumedBind, NodeView
from cluster.decide.ledger.liveness import AgentState
from cluster.decide.placement import NoPlaceError, choose, choose_shares
from cluster.decide.predicates import AGENT, HELD_NOT_FREE, ON_HOLD, rejection
from cluster.decide.request import GpuRequest
from cluster.objects.assignment import devices_of, encode_assignment
from cluster.objects.hold_verdicts import NOT_FREE, NOT_NOW, REFUSED, HoldVerdict
from cluster.objects.pods import Pod
from cluster.objects.quantity import QuantityError
from cluster.objects.reservation_pods import visible_key
from cluster.objects.scheduling_gates import is_late
from cluster.process.clock import Clock
from extender.binding.gpushare import gpushare_annotations
from extender.state.cluster_state import ClusterState

NOT_LEADING: Final = (
    f"{names.NOT_NOW} This extender does not lead, or does not know whether it does:"
    " another one binds the pod."
)
NOTHING: Final[Mapping[str, str]] = {}


class BindError(Exception):
    """The pod is not bound; the text says why, and is the same each time for the same reason."""

    def __init__(self, message: str, verdict: HoldVerdict = REFUSED) -> None:
        """Args: verdict: what it means for a pod with a hold."""
        super().__init__(message)
        self.verdict = verdict


class NotNowError(BindError):
    """No node is to blame; the text begins with ``names.NOT_NOW``."""

    def __init__(self, message: str) -> None:
        super().__init__(message, NOT_NOW)


class AwaitsKubeletError(BindError):
    """The pod would fit, but the node's kubelet has not answered yet for another pod that we bound there."""

    def __init__(self, node: str) -> None:
        super().__init__(
            f"The kubelet of node {node} has not answered yet for the pod that was bound there before."
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """Node and devices for a pod, counted in the ledger."""

    assumed: AssumedBind
    body: dict[str, Any]
    """The Binding to post."""
    made_at: float
    """When the decision was made, in seconds of the monotonic clock."""
    was_posted: bool = False
    """Whether it has been posted before, with unknown outcome."""

    @property
    def pod(self) -> Pod:
        """The pod as it was at the decision."""
        return self.assumed.pod


class BindDecisions:
    """Makes decisions and takes them back."""

    def __init__(self, state: ClusterState, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    def make(self, pod: Pod, node: str, *, counts_from: float | None = None) -> Decision:
        """Check once more, choose devices, and count the choice in the ledger, in one step.

        Args:
            pod: the pod as filter saw it.
            node: the node to bind it to.
            counts_from: when the decision counts as made, in seconds of the monotonic clock; by default now.

        Raises:
            AwaitsKubeletError: the node's kubelet has not answered for another pod yet.
            BindError: the pod does not fit there any more.
        """
        made_at = self._clock.monotonic() if counts_from is None else counts_from
        with self._state.locked() as ledger:
            try:
                request = self._state.request(pod)
            except QuantityError as error:
                raise BindError(str(error)) from error
            ((view, agent),) = self._state.snapshot((node,))
            reason = rejection(request, view, agent) or self._state.plan_rejection(pod, request)(node)
            if reason:
                verdict = NOT_FREE if reason.code == HELD_NOT_FREE.code else REFUSED
                raise BindError(f"The pod no longer fits on node {node}: {reason}.", verdict)
            if request.demand and self._state.awaits_answer(node):
                raise AwaitsKubeletError(node)
            try:
                assumed = _assumed(request, view, pod)
            except NoPlaceError as error:
                raise BindError(f"The pod no longer fits on node {node}.") from error
            body = binding(assumed, self._for_others(assumed, view))
            ledger.assume(pod, node, assumed.assignment, mode=assumed.mode)
            self._state.expect_answer(pod.metadata.uid)
        return Decision(assumed, body, made_at)

    def renew(self, earlier: AssumedBind) -> Decision:
        """The same decision, counted from now on, so that ``assumed_binds`` gives it its full time again.

        Raises:
            BindError: it would not be made any more (law L6). It stays assumed: its Binding may yet arrive.
        """
        made_at = self._clock.monotonic()
        again = replace(earlier)
        with self._state.locked() as ledger:
            ((view, agent),) = self._state.snapshot((earlier.node,))
            reason = _outdated(earlier, view, agent)
            if reason:
                raise BindError(f"The pod no longer fits on node {earlier.node}: {reason}.")
            ledger.forget_assumed(again.pod.metadata.uid)
            ledger.assume(again.pod, again.node, again.assignment, mode=again.mode)
            body = binding(again, self._for_others(again, view))
        return Decision(again, body, made_at, was_posted=True)

    def _for_others(self, assumed: AssumedBind, view: NodeView) -> dict[str, str]:
        """Annotations for others to read: containers, by the downward API, and tools of gpushare's users."""
        return {
            **gpushare_annotations(assumed, view, self._clock.now()),
            **visible_annotations(assumed, view),
        }

    def not_posted(self, decision: Decision) -> None:
        """Take back a decision that was not posted this time, unless it was posted before."""
        if not decision.was_posted:
            self.take_back(decision.pod.metadata.uid)

    def take_back(self, uid: str) -> None:
        """Free the devices of a pod that was certainly not bound, and will not be."""
        with self._state.locked() as ledger:
            ledger.forget_assumed(uid)
            self._state.decide_again(uid)

    def rests_on(self, decided: Pod, pod: Pod) -> bool:
        """Whether both filters, ours and kube-scheduler's, would get the same request as for the decision."""
        before, now = decided.metadata, pod.metadata
        return (
            pod.spec == decided.spec
            and now.labels == before.labels
            and now.deletion_timestamp == before.deletion_timestamp
            and self._state.request(pod) == self._state.request(decided)
        )


def _outdated(earlier: AssumedBind, view: NodeView, agent: AgentState) -> str | None:
    """Why a decision that waits for its answer would not be made any more; None if it would."""
    chosen = devices_of(earlier.assignment)
    if not chosen:
        return None
    if agent != "alive":
        return AGENT[agent]
    if not chosen <= {device.uuid for device in view.devices if device.is_healthy}:
        return "a GPU that was chosen is not healthy any more"
    if earlier.mode and view.is_numbered and not chosen <= view.opened.keys():
        return "a GPU that was chosen is not open for shares any more"
    uid = earlier.pod.metadata.uid
    return ON_HOLD if any(view.on_hold.get(uuid, uid) != uid for uuid in chosen) else None


def _assumed(request: GpuRequest, view: NodeView, pod: Pod) -> AssumedBind:
    if request.allocated_on:
        return AssumedBind(pod=pod, node=view.name, assignment={})
    if shares_on(request, view):
        chosen = choose_shares(request, view)
        return AssumedBind(pod=pod, node=view.name, assignment=chosen.assignment, mode=chosen.mode)
    return AssumedBind(pod=pod, node=view.name, assignment=choose(request, view))


def visible_annotations(assumed: AssumedBind, view: NodeView) -> dict[str, str]:
    """Which GPUs the containers see that read them from annotations: those that are there already."""
    known = assumed.pod.metadata.annotations or {}
    return {
        key: ",".join(view.opened.get(uuid, uuid) for uuid in uuids)
        for container, uuids in assumed.assignment.items()
        if (key := visible_key(container)) in known
    }


def binding(assumed: AssumedBind, more: Mapping[str, str] = NOTHING) -> dict[str, Any]:
    """The body of ``POST pods/<name>/binding``: node, devices and preconditions in one write.

    Args:
        assumed: the decision.
        more: further annotations, for others to read.
    """
    meta = assumed.pod.metadata
    metadata: dict[str, Any] = {
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }
    annotations = {key: "" for key in names.WAITING_STATE if meta.annotation(key)}
    if assumed.assignment or is_late(assumed.pod):  # nothing else tells later that a late one is for GPUs
        annotations[names.ASSIGNED] = encode_assignment(assumed.assignment)
    if assumed.mode:
        annotations[names.SHARING_MODE] = assumed.mode
    annotations |= more
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": assumed.node},
    }
