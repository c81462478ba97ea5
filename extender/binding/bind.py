"""The verb ``bind``: choose the devices and write node and devices in one Binding.

A pod's first decision is kept until its outcome is known: the scheduler repeats a bind that took too long,
maybe for another node, while the first may still be on its way. So the decision is counted in the ledger
(``bind_decision``) *before* it is posted (``binding_post``). It is taken back if, and only if, it is certain
that it did not happen.

A node takes as many unanswered pods as its window is wide (``cluster.decide.answer_windows``). Until its
kubelet has answered for one of them, the next one waits here for some hundredths of a second, because
kube-scheduler would retry it only after a backoff of a second or more. If a node's agent has died, its
kubelet rejects those few, and nothing more is bound there.
Everything that a bind waits for, reads and posts shares one time budget.

============================  ==========================================================================
answer of the API server      what follows
============================  ==========================================================================
201                           success; the ledger keeps assuming it until the pod's event arrives
409                           read the pod again: bound as we decided is success; if nothing has changed that
                              the decision depends on (since 1.35 kube-scheduler itself writes
                              ``nominatedNodeName`` on pods whose volumes are not bound yet), decide and post
                              once more, in the rest of its time; otherwise taken back
any other 4xx                 refused, nothing happened: taken back
no connection in time         nothing was sent: taken back
5xx, no answer, unreadable    unknown: kept; a repeat posts the same decision, ``assumed_binds`` reads again
============================  ==========================================================================

A refused repeat does not show the outcome of the earlier post: that is taken back only if the pod has been
written since, or is gone.
"""

from typing import Final

import structlog

from cluster import names
from cluster.decide.ledger import AssumedBind
from cluster.kube.errors import ApiError, Conflict, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import PODS
from cluster.objects.assignment import devices_of
from cluster.objects.pods import Pod, extended_needs
from cluster.process.clock import Clock
from extender.binding.bind_decision import (
    AwaitsKubeletError,
    BindDecisions,
    BindError,
    Decision,
    NotNowError,
)
from extender.binding.bind_outcome import bind_outcome
from extender.binding.binding_post import BindingPost
from extender.binding.claim_gate import ClaimGate
from extender.binding.keyed_lock import KeyedLock
from extender.leadership import Leads
from extender.state.cluster_state import ClusterState
from extender.wire import ExtenderBindingArgs, ExtenderBindingResult

log = structlog.get_logger(__name__)

BUDGET: Final = 4.0
"""Seconds from the request to the answer, including everything that is read, waited for and posted:
kube-scheduler waits for 5 s, then asks again."""
PATIENCE: Final = 2.0
"""Seconds of the budget for waiting for a node's kubelet; the rest is for deciding and posting."""

BOUND: Final = ExtenderBindingResult()
UNDER_WAY: Final = f"{names.NOT_NOW} An earlier bind of the pod has no answer yet."
TOO_MANY: Final = f"{names.NOT_NOW} As many binds are under way as this extender works on at one time."


class Bind:
    """The verb ``bind``. It returns when the pod is bound, or with an error."""

    def __init__(
        self,
        kube: Kube,
        state: ClusterState,
        clock: Clock,
        keyed_lock: KeyedLock,
        *,
        leads: Leads,
        patience: float = PATIENCE,
    ) -> None:
        """Args: leads: whether we may bind; patience: seconds to wait for a kubelet."""
        self._kube = kube
        self._state = state
        self._clock = clock
        self._keyed_lock = keyed_lock
        self._patience = patience
        self._decisions = BindDecisions(state, clock)
        self._claim_gate = ClaimGate(kube, state)
        self._post = BindingPost(kube, clock, self._decisions, leads=leads)

    def __call__(self, arguments: ExtenderBindingArgs) -> ExtenderBindingResult:
        """Bind the pod to the node, with devices that fit it; safe to repeat."""
        until = self._clock.monotonic() + BUDGET
        assumed, result = None, BOUND
        try:
            assumed = self._bind_locked(arguments, until)
        except BindError as error:
            result = self._refusal(arguments, error)
            self._state.soft.release(arguments.pod_uid)
            self._state.bind_queue.notify(arguments.node)
        log.info(
            "bind answered",
            pod=f"{arguments.pod_namespace}/{arguments.pod_name}",
            uid=arguments.pod_uid,
            node=arguments.node,
            devices=sorted(devices_of(assumed.assignment)) if assumed else None,
            error=result.error or None,
        )
        return result

    def refuse(self, arguments: ExtenderBindingArgs) -> ExtenderBindingResult:
        """The answer to a bind for which there is no thread left: nothing is read or decided."""
        return self._refusal(arguments, NotNowError(TOO_MANY))

    def _refusal(self, arguments: ExtenderBindingArgs, error: BindError) -> ExtenderBindingResult:
        pod = self._state.newest(arguments.pod_uid)
        if pod and pod.metadata.annotation(names.HOLD):
            self._state.hold_verdicts.note(arguments.pod_uid, error.verdict)
        return ExtenderBindingResult(error=str(error))

    def _bind_locked(self, arguments: ExtenderBindingArgs, until: float) -> AssumedBind | None:
        """As ``_bind``, while holding the pod's lock."""
        with self._keyed_lock.held(arguments.pod_uid, until - self._clock.monotonic()) as is_held:
            if not is_held:
                raise NotNowError(UNDER_WAY)
            return self._bind_in_turn(arguments, until)

    def _bind_in_turn(self, arguments: ExtenderBindingArgs, until: float) -> AssumedBind | None:
        """As ``_bind``, after waiting for the node's kubelet; devices are softly reserved meanwhile."""
        patient_until = self._clock.monotonic() + self._patience
        while True:
            try:
                return self._bind(arguments, until)
            except AwaitsKubeletError:
                left = max(0.0, patient_until - self._clock.monotonic())
                self._state.reserve_for_bind(arguments.pod_uid, arguments.node, left)
                queue = self._state.bind_queue
                if not queue.wait(arguments.node, self._state.awaits_answer, patient_until):
                    raise

    def _bind(self, arguments: ExtenderBindingArgs, until: float) -> AssumedBind | None:
        """Decide and post; returns the decision that was posted, None if the pod is bound there already."""
        decision = self._decided(arguments, until)
        for is_last in (False, True):
            if decision is None:
                return None
            try:
                self._post(decision, until=until)
            except Conflict as conflict:
                decision = self._decided_after(conflict, decision, arguments, until, is_last=is_last)
            else:
                return decision.assumed
        return None

    def _decided(self, arguments: ExtenderBindingArgs, until: float) -> Decision | None:
        """The decision for the pod, an earlier one or a new one; None if it is bound there already."""
        with self._state.locked() as ledger:
            earlier = ledger.assumption(arguments.pod_uid)
            holds = ledger.holding(arguments.pod_uid)
        if holds:
            if self._has_bound(self._read(arguments, until), arguments.node):
                return None
            if earlier is None or earlier.node != arguments.node:
                raise NotNowError(
                    f"{names.NOT_NOW} An earlier bind of the pod to node {holds.node} is not resolved yet."
                )
            return self._decisions.renew(earlier)
        pod = self._state.remembered(arguments.pod_uid)
        claims = self._state.with_claims(pod).claims if pod and extended_needs(pod) else None
        if pod is None or (claims and claims.resources):
            # A claim for extended resources is made, and named in the pod's status, just before the bind.
            pod = self._read(arguments, until)
        pod = self._claim_gate.passed(pod, arguments.node, within=until - self._clock.monotonic())
        return self._decisions.make(pod, arguments.node)

    def _decided_after(
        self,
        conflict: Conflict,
        decision: Decision,
        arguments: ExtenderBindingArgs,
        until: float,
        *,
        is_last: bool,
    ) -> Decision | None:
        """Decide once more, for the pod as it is now; None if the pod is bound there.

        Raises:
            BindError: the pod has changed since it was filtered, or this was the last try.
        """
        pod = self._read(arguments, until)
        if self._has_bound(pod, arguments.node):
            return None
        if bind_outcome(pod, decision.pod) == "never":
            self._decisions.take_back(arguments.pod_uid)
            pod = self._state.with_claims(pod)
            if not is_last and self._decisions.rests_on(decision.pod, pod):
                return self._decisions.make(pod, arguments.node, counts_from=decision.made_at)
        raise NotNowError(
            f"{names.NOT_NOW} The pod has changed since it was filtered; it is decided again."
        ) from conflict

    def _has_bound(self, pod: Pod, node: str) -> bool:
        """Whether a pod that was just read is bound to the requested node.

        Raises:
            BindError: it is bound to another one.
        """
        if not pod.spec.node_name:
            return False
        self._state.of(PODS).upsert(pod)
        if pod.spec.node_name != node:
            raise BindError(f"The pod is bound to node {pod.spec.node_name} already.")
        return True

    def _read(self, arguments: ExtenderBindingArgs, until: float) -> Pod:
        name, namespace = arguments.pod_name, arguments.pod_namespace
        try:
            pod = self._kube.get(PODS, name, namespace=namespace, within=until - self._clock.monotonic())
        except NotFound as error:
            self._decisions.take_back(arguments.pod_uid)
            raise BindError("The pod is gone.") from error
        except ApiError as error:
            raise NotNowError(f"{names.NOT_NOW} The pod cannot be read from the API server.") from error
        if pod.metadata.uid != arguments.pod_uid:
            self._decisions.take_back(arguments.pod_uid)
            raise BindError("The pod is gone; another one has its name.")
        return pod
