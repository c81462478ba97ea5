"""The verb ``bind``: choose the devices and write node and devices in one Binding.

A pod's first decision stands until it is settled: the scheduler repeats a bind that took too long, maybe for
another node, while the first may still be on its way. What was decided is therefore counted in the ledger
*before* it is posted, and taken back when, and only when, it is certain that it did not happen. What can go
wrong by itself, as writing the body, comes before it is counted. The Binding carries the
uid and the resourceVersion that filter saw: if anybody else has written the pod since (another binder, a
hold, the user), it is refused and nothing has happened. It is posted only while we lead, and only within 2 s
of its decision; and only while the node's kubelet has no other pod of ours to answer for: where its agent has
died it refuses one pod, and then nobody is bound there. All that a bind reads and posts shares one budget of
time. It empties what is on the pod only while it waits, its hold above all, in the same write: a Binding can
write annotations and remove none, and an empty one reads as none.

============================  ==========================================================================
what the API server says      what follows
============================  ==========================================================================
201                           success; the ledger goes on assuming it until the pod's event comes
409                           read the pod again: bound as we decided is success; where nothing has changed
                              on which the decision rests (since 1.35 kube-scheduler itself writes
                              ``nominatedNodeName`` on pods whose volumes are still to be bound) it is decided
                              and posted once more, in what is left of its time; otherwise taken back
any other 4xx                 refused, nothing happened: taken back
no connection in time         nothing was sent: taken back
5xx, no answer, unreadable    unknown: kept; a repeat posts the same decision, ``assumed_binds`` reads again
============================  ==========================================================================

A repeat that is refused says nothing about what was posted before: that is taken back only where the pod has
been written since, or is gone.
"""

from dataclasses import dataclass
from typing import Any, Final

import structlog

from cluster import names
from cluster.decide.ledger import AssumedBind, NodeView
from cluster.decide.ledger.liveness import AgentState
from cluster.decide.placement import NoPlaceError, choose
from cluster.decide.predicates import AGENT, KEPT, rejection
from cluster.kube.errors import (
    ApiError,
    ClientError,
    Conflict,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unsent,
)
from cluster.kube.interface import Kube
from cluster.kube.resources import PODS
from cluster.objects.assignment import devices_of, encode_assignment
from cluster.objects.pods import Pod
from cluster.objects.quantity import QuantityError
from cluster.process.clock import Clock
from extender.bind_deadline import BindDeadline
from extender.bind_outcome import bind_outcome
from extender.keyed_lock import KeyedLock
from extender.leadership import Leads
from extender.state import ClusterState
from extender.wire import ExtenderBindingArgs, ExtenderBindingResult

log = structlog.get_logger(__name__)

DEADLINE: Final = 2.0
"""Seconds after its decision within which a Binding may be posted."""
CONNECTING: Final = 1.0
"""Seconds of these that are left to connect to the API server: nothing is posted while fewer are."""

BOUND: Final = ExtenderBindingResult()

NOT_THE_NODES_FAULT: Final = (TooManyRequests, Unauthorized)
"""Refusals that no other node would change."""
NOT_LEADING: Final = (
    f"{names.NOT_NOW} This extender does not lead, or cannot tell whether it does; another one binds the pod."
)
UNDER_WAY: Final = f"{names.NOT_NOW} An earlier bind of the pod has no answer yet."


def unanswered(node: str) -> str:
    """Why a pod has to wait for another that goes to the same node; ``bind_limiter`` waits for it."""
    return f"The kubelet of node {node} has not answered yet for the pod that was bound there before."


class BindError(Exception):
    """The pod is not bound; the text says why, and is the same each time for the same reason.

    It begins with ``names.NOT_NOW`` where the node is not to blame: the reclaimer reads that on the pod.
    """


@dataclass(frozen=True, slots=True)
class _Posting:
    """A decision on its way."""

    decision: AssumedBind
    body: dict[str, Any]
    decided_at: float
    budget: BindDeadline
    is_repeat: bool = False
    """Whether it has been posted before: what becomes of that is not known."""
    is_last: bool = False
    """Whether it was decided once more after a conflict: that is done once."""

    @property
    def arguments(self) -> ExtenderBindingArgs:
        """The question, with the node for which it was decided."""
        meta = self.decision.pod.metadata
        return ExtenderBindingArgs(
            pod_name=meta.name, pod_namespace=meta.namespace, pod_uid=meta.uid, node=self.decision.node
        )


class Bind:
    """Decides and posts Bindings."""

    def __init__(
        self, kube: Kube, state: ClusterState, clock: Clock, flights: KeyedLock, *, leads: Leads
    ) -> None:
        self._kube = kube
        self._state = state
        self._clock = clock
        self._flights = flights
        self._leads = leads

    def __call__(
        self, arguments: ExtenderBindingArgs, budget: BindDeadline | None = None
    ) -> ExtenderBindingResult:
        """Bind the pod to the node, with devices that fit it; safe to repeat.

        Args:
            arguments: the question.
            budget: the time for it; by default all that kube-scheduler gives a bind.
        """
        budget = budget or BindDeadline(self._clock)
        decision, result = None, BOUND
        try:
            decision = self._alone(arguments, budget)
        except BindError as error:
            result = ExtenderBindingResult(error=str(error))
        log.info(
            "bind answered",
            pod=f"{arguments.pod_namespace}/{arguments.pod_name}",
            uid=arguments.pod_uid,
            node=arguments.node,
            devices=sorted(devices_of(decision.assignment)) if decision else None,
            error=result.error or None,
        )
        return result

    def _alone(self, arguments: ExtenderBindingArgs, budget: BindDeadline) -> AssumedBind | None:
        """``_bind``, while nobody else works on the pod."""
        with self._flights.held(arguments.pod_uid, budget.left) as is_alone:
            if not is_alone:
                raise BindError(UNDER_WAY)
            return self._bind(arguments, budget)

    def _bind(self, arguments: ExtenderBindingArgs, budget: BindDeadline) -> AssumedBind | None:
        """What was decided and has happened; None where the pod turns out to be bound there already."""
        with self._state.locked() as ledger:
            earlier = ledger.assumption(arguments.pod_uid)
            holds = ledger.holding(arguments.pod_uid)
        if holds:
            if self._has_bound(self._read(arguments, budget), arguments.node):
                return None
            if earlier is None or earlier.node != arguments.node:
                raise BindError(
                    f"{names.NOT_NOW} An earlier bind of the pod to node {holds.node} is not settled yet."
                )
            return self._post(self._renewed(earlier, budget))
        pod = self._state.remembered(arguments.pod_uid) or self._read(arguments, budget)
        decided_at = self._clock.monotonic()
        decision, body = self._decided(pod, arguments.node)
        return self._post(_Posting(decision, body, decided_at, budget))

    def _decided(self, pod: Pod, node: str) -> tuple[AssumedBind, dict[str, Any]]:
        """Check once more, choose, and count the choice in the ledger, in one step; and what is posted."""
        with self._state.locked() as ledger:
            try:
                request = self._state.request(pod)
            except QuantityError as error:
                raise BindError(str(error)) from error
            ((view, agent),) = self._state.snapshot((node,))
            reason = rejection(request, view, agent) or self._state.promises(pod, request)(node)
            if reason:
                raise BindError(f"The pod no longer fits on node {node}: {reason}.")
            if request.demand and self._state.awaits_answer(node):
                raise BindError(unanswered(node))
            try:
                assignment = choose(request, view)
            except NoPlaceError as error:
                raise BindError(f"The pod no longer fits on node {node}.") from error
            decision = AssumedBind(pod=pod, node=node, assignment=assignment)
            body = binding(decision)
            ledger.assume(pod, node, assignment)
            self._state.expect_answer(pod.metadata.uid)
        return decision, body

    def _renewed(self, decision: AssumedBind, budget: BindDeadline) -> _Posting:
        """The same decision, counted from now on: ``assumed_binds`` gives it its full time again.

        Raises:
            BindError: it would not be made any more (law L6). It stays as it is: the first may yet arrive.
        """
        decided_at = self._clock.monotonic()
        again = AssumedBind(pod=decision.pod, node=decision.node, assignment=decision.assignment)
        with self._state.locked() as ledger:
            ((view, agent),) = self._state.snapshot((decision.node,))
            reason = _outdated(decision, view, agent)
            if reason:
                raise BindError(f"The pod no longer fits on node {decision.node}: {reason}.")
            ledger.forget_assumed(again.pod.metadata.uid)
            ledger.assume(again.pod, again.node, again.assignment)
        return _Posting(again, binding(again), decided_at, budget, is_repeat=True)

    def _post(self, posting: _Posting) -> AssumedBind | None:
        """Post the Binding, if it may be posted at this moment; what was decided, where that has happened."""
        meta = posting.decision.pod.metadata
        try:
            left = self._time_left(posting)
        except Exception:
            self._not_posted(posting)
            raise
        try:
            self._kube.create_subresource(
                PODS,
                "binding",
                posting.body,
                name=meta.name,
                namespace=meta.namespace,
                within=left,
                answered=posting.budget.left,
            )
        except Conflict as error:
            return self._after_conflict(posting, error)
        except ClientError as error:
            self._not_posted(posting)
            begin = f"{names.NOT_NOW} " if isinstance(error, NOT_THE_NODES_FAULT) else ""
            raise BindError(
                f"{begin}The API server refused the Binding ({error.code} {error.reason})."
            ) from error
        except Unsent as error:
            self._not_posted(posting)
            raise BindError(
                f"{names.NOT_NOW} The API server could not be reached in time; the pod is decided anew."
            ) from error
        except ApiError as error:
            raise BindError(
                f"{names.NOT_NOW} The API server has not said whether the pod is bound;"
                " the same bind is tried again."
            ) from error
        return posting.decision

    def _time_left(self, posting: _Posting) -> float:
        """Seconds within which it may be posted; the last look before it is, so time is looked at last.

        Raises:
            BindError: it may not be posted.
        """
        if not self._leads():
            raise BindError(NOT_LEADING)
        left = DEADLINE - (self._clock.monotonic() - posting.decided_at)
        left = min(left, posting.budget.left)
        if left < CONNECTING:
            raise BindError(f"{names.NOT_NOW} The decision was too old to be written; it is made anew.")
        return left

    def _not_posted(self, posting: _Posting) -> None:
        """It has not happened this time, and so not at all unless it was posted before."""
        if not posting.is_repeat:
            self._take_back(posting.decision.pod.metadata.uid)

    def _after_conflict(self, posting: _Posting, conflict: Conflict) -> AssumedBind | None:
        decided, node = posting.decision.pod, posting.decision.node
        self._not_posted(posting)
        pod = self._read(posting.arguments, posting.budget)
        if self._has_bound(pod, node):
            return None
        if bind_outcome(pod, decided) == "never":
            self._take_back(decided.metadata.uid)
            if not posting.is_last and self._rests_on_the_same(decided, pod):
                decision, body = self._decided(pod, node)
                return self._post(_Posting(decision, body, posting.decided_at, posting.budget, is_last=True))
        raise BindError(
            f"{names.NOT_NOW} The pod has changed since it was filtered; it is decided anew."
        ) from conflict

    def _rests_on_the_same(self, decided: Pod, pod: Pod) -> bool:
        """Whether filter, ours and kube-scheduler's, would have been asked the same about the pod now."""
        before, now = decided.metadata, pod.metadata
        return (
            pod.spec == decided.spec
            and now.labels == before.labels
            and now.deletion_timestamp == before.deletion_timestamp
            and self._state.request(pod) == self._state.request(decided)
        )

    def _has_bound(self, pod: Pod, node: str) -> bool:
        """Whether a pod that was read now is bound to the node that is asked for.

        Raises:
            BindError: it is bound elsewhere.
        """
        if not pod.spec.node_name:
            return False
        self._state.apply_pod(pod)
        if pod.spec.node_name != node:
            raise BindError(f"The pod is bound to node {pod.spec.node_name} already.")
        return True

    def _read(self, arguments: ExtenderBindingArgs, budget: BindDeadline) -> Pod:
        name, namespace = arguments.pod_name, arguments.pod_namespace
        try:
            pod = self._kube.get(PODS, name, namespace=namespace, within=budget.left)
        except NotFound as error:
            self._take_back(arguments.pod_uid)
            raise BindError("The pod is gone.") from error
        except ApiError as error:
            raise BindError(f"{names.NOT_NOW} The pod cannot be read from the API server.") from error
        if pod.metadata.uid != arguments.pod_uid:
            self._take_back(arguments.pod_uid)
            raise BindError("The pod is gone; another one has its name.")
        return pod

    def _take_back(self, uid: str) -> None:
        with self._state.locked() as ledger:
            ledger.forget_assumed(uid)
            self._state.decide_anew(uid)


def _outdated(decision: AssumedBind, view: NodeView, agent: AgentState) -> str | None:
    """Why a decision that waits for its answer would not be made any more, None when it would."""
    chosen = devices_of(decision.assignment)
    if not chosen:
        return None
    if agent != "alive":
        return AGENT[agent]
    if not chosen <= {device.uuid for device in view.devices if device.is_healthy}:
        return "a GPU that was chosen is not healthy any more"
    uid = decision.pod.metadata.uid
    return KEPT if any(view.kept.get(uuid, uid) != uid for uuid in chosen) else None


def binding(decision: AssumedBind) -> dict[str, Any]:
    """The body of ``POST pods/<name>/binding``: node, devices and preconditions in one write."""
    meta = decision.pod.metadata
    metadata: dict[str, Any] = {
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }
    annotations = {key: "" for key in names.WAITING_STATE if meta.annotation(key)}
    if decision.assignment:
        annotations[names.ASSIGNED] = encode_assignment(decision.assignment)
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": decision.node},
    }
