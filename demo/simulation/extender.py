"""The extender: the real verbs and threads, wired as in ``extender.__main__``."""

from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from cluster import names
from cluster.cache import UNSUCCESSFUL, ClaimOptions, Informers
from cluster.kube.clock_skew import clock_skew_reason
from cluster.kube.events import EventRecorder
from cluster.objects.pods import Pod
from demo.simulation.part import NoAnswerError, Part
from extender.__main__ import FOLLOWED_FOR_CLAIMS, first_unready_reason
from extender.binding.assumed_binds import EVERY as RESOLVES_EVERY
from extender.binding.assumed_binds import AssumedBinds
from extender.binding.bind import Bind
from extender.binding.keyed_lock import KeyedLock
from extender.kubelet_rejections import EVERY as REJECTIONS_EVERY
from extender.kubelet_rejections import KubeletRejections
from extender.leadership import SchedulerLeads
from extender.metrics import Metrics
from extender.pending.pending_reasons import EVERY as EXPLAINS_EVERY
from extender.pending.pending_reasons import PendingReasons
from extender.pending.requeue import EVERY as REQUEUES_EVERY
from extender.pending.requeue import Requeue
from extender.state.cluster_state import ClusterState
from extender.verbs.contenders import WEIGHT, Contenders
from extender.verbs.filter import Filter
from extender.verbs.prioritize import Prioritize
from extender.verdict_lease import EVERY as RENEWS_VERDICTS_EVERY
from extender.verdict_lease import VerdictLease
from extender.wire import ExtenderArgs, ExtenderBindingArgs, ExtenderFilterResult

SCHEDULER = "gpu-scheduler_"
"""How the kube-scheduler next to it begins its name."""


class Extender(Part):
    """The container next to kube-scheduler."""

    latency = 0.03
    user = f"system:serviceaccount:{names.NAMESPACE}:{names.EXTENDER}"
    is_ours = True
    books_claims = False
    """Whether claims can be booked."""

    def build(self) -> None:
        """As ``extender.__main__.build`` does, with one thread for all."""
        events = EventRecorder(self.kube, self.clock, component=names.EXTENDER, registry=CollectorRegistry())
        claims = ClaimOptions() if self.books_claims else None
        state = ClusterState(self.clock, claims=claims)
        kinds = FOLLOWED_FOR_CLAIMS if claims else ()
        following = Informers(
            self.kube, state, self.clock, namespace=names.NAMESPACE, pods=UNSUCCESSFUL, kinds=kinds
        )
        self.unready_reason = first_unready_reason(
            following.unready_reason, clock_skew_reason(self.kube.skew)
        )
        keyed_lock = KeyedLock(self.clock)
        leads = SchedulerLeads(
            self.kube,
            state,
            self.clock,
            namespace=names.NAMESPACE,
            lease=names.SCHEDULER_LEASE,
            prefix=SCHEDULER,
        )
        self._prioritize = Prioritize(state, self.clock)
        scores, placement = self._prioritize.scores, names.PLACEMENTS[0]
        self._filter = Filter(state, Contenders(state, scores, placement=placement, weight=WEIGHT))
        self._bind = Bind(self.kube, state, self.clock, keyed_lock, leads=leads, patience=0)
        assumed_binds = AssumedBinds(self.kube, state, self.clock, keyed_lock)
        requeue = Requeue(self.kube, state, self.clock, namespace=names.NAMESPACE)
        explain = PendingReasons(state, self.clock, events.warning, self.unready_reason)
        kubelet_rejections = KubeletRejections(
            state, self.clock, events.warning, Metrics(CollectorRegistry()), leads=leads
        )
        verdict_lease = VerdictLease(
            self.kube,
            state,
            self.clock,
            namespace=names.NAMESPACE,
            holder=f"{self.name}-{self.lives}",
            leads=leads,
            unready_reason=self.unready_reason,
        )
        self._awaits_answer = state.awaits_answer
        self.follow(*following.reflectors)
        self.every(RESOLVES_EVERY, assumed_binds.reconcile, first=RESOLVES_EVERY)
        self.every(REQUEUES_EVERY, requeue.reconcile, first=REQUEUES_EVERY)
        self.every(EXPLAINS_EVERY, explain.reconcile, first=EXPLAINS_EVERY)
        self.every(REJECTIONS_EVERY, kubelet_rejections.reconcile, first=REJECTIONS_EVERY)
        self.every(RENEWS_VERDICTS_EVERY, verdict_lease.reconcile, first=1.0, is_sign_of_life=True)
        self.every(1.0, events.flush, first=1.0)

    # --- the verbs, over the wire ----------------------------------------------------------------------
    def filter(self, pod: Pod, nodes: list[str]) -> ExtenderFilterResult:
        """Which of the nodes suit.

        Raises:
            NoAnswerError: it is dead, paused, or answers 503.
        """
        return self.respond(lambda: self._filter(self._question(pod, nodes)))

    def prioritize(self, pod: Pod, nodes: list[str]) -> dict[str, int]:
        """Node -> score.

        Raises:
            NoAnswerError: as above.
        """
        scores = self.respond(lambda: self._prioritize(self._question(pod, nodes)))
        return {each.host: each.score for each in scores}

    def bind(self, pod: Pod, node: str) -> str:
        """The error, empty when it is bound.

        Raises:
            NoAnswerError: as above.
        """
        meta = pod.metadata
        wanted = ExtenderBindingArgs(
            pod_name=meta.name, pod_namespace=meta.namespace, pod_uid=meta.uid, node=node
        )
        return self.respond(lambda: self._bind(self._over_the_wire(wanted))).error

    def awaits_answer(self, node: str) -> bool:
        """Whether a bind waits for what a kubelet says of another pod, as ``extender.binding.bind`` does.

        Raises:
            NoAnswerError: as above.
        """
        return self.respond(lambda: self._awaits_answer(node))

    def _question(self, pod: Pod, nodes: list[str]) -> ExtenderArgs:
        arguments: ExtenderArgs = self._over_the_wire(ExtenderArgs(pod=pod, node_names=tuple(nodes)))
        return arguments

    def _over_the_wire(self, question: Any) -> Any:
        why = self.unready_reason()
        if why:
            raise NoAnswerError(why)
        return msgspec.json.decode(msgspec.json.encode(question), type=type(question))
