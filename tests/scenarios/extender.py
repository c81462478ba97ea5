"""The extender: the real verbs and threads, wired as in ``extender.__main__``."""

from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from cluster import names
from cluster.kube.events import EventRecorder
from cluster.kube.skew import clock_obstacle
from cluster.objects.pods import Pod
from cluster.picture import UNSUCCESSFUL, Following
from extender.bind import Bind
from extender.explain import EVERY as EXPLAINS_EVERY
from extender.explain import Explain
from extender.filter import Filter
from extender.flights import Flights
from extender.leadership import SchedulerLeads
from extender.metrics import Metrics
from extender.preempt import Preempt, Terms
from extender.prioritize import Prioritize
from extender.refusals import EVERY as REFUSALS_EVERY
from extender.refusals import Refusals
from extender.server import Verbs
from extender.settle import EVERY as SETTLES_EVERY
from extender.settle import Settle
from extender.state import ClusterState
from extender.trust import first_obstacle
from extender.wake import EVERY as WAKES_EVERY
from extender.wake import Wake
from extender.wire import Arguments, BindingArguments, FilterResult
from tests.scenarios.part import NoAnswerError, Part

SCHEDULER = "gpu-scheduler_"
"""How the kube-scheduler beside it begins its name."""


class Extender(Part):
    """The container beside kube-scheduler."""

    latency = 0.03
    user = f"system:serviceaccount:{names.NAMESPACE}:{names.EXTENDER}"
    is_ours = True

    def build(self) -> None:
        """As ``extender.__main__.build`` does, with one thread for all."""
        events = EventRecorder(self.kube, self.clock, component=names.EXTENDER, registry=CollectorRegistry())
        state = ClusterState(self.clock)
        following = Following(self.kube, state, self.clock, namespace=names.NAMESPACE, pods=UNSUCCESSFUL)
        self._obstacle = first_obstacle(following.obstacle, clock_obstacle(self.kube.skew))
        flights = Flights(self.clock)
        leads = SchedulerLeads(
            self.kube,
            state,
            self.clock,
            namespace=names.NAMESPACE,
            lease=names.SCHEDULER_LEASE,
            prefix=SCHEDULER,
        )
        self._verbs = Verbs(
            filter=Filter(state),
            prioritize=Prioritize(state, self.clock),
            preempt=Preempt(state, self.clock, Terms(home=names.NAMESPACE)),
            bind=Bind(self.kube, state, self.clock, flights, leads=leads),
        )
        settle = Settle(self.kube, state, self.clock, flights)
        wake = Wake(self.kube, state, self.clock, namespace=names.NAMESPACE)
        explain = Explain(state, self.clock, events.warning, self._obstacle)
        refusals = Refusals(state, self.clock, events.warning, Metrics(CollectorRegistry()), leads=leads)
        self._awaits_answer = state.awaits_answer
        self.follow(*following._reflectors.values())
        self.every(SETTLES_EVERY, settle.look, first=SETTLES_EVERY)
        self.every(WAKES_EVERY, wake.look, first=WAKES_EVERY)
        self.every(EXPLAINS_EVERY, explain.look, first=EXPLAINS_EVERY)
        self.every(REFUSALS_EVERY, refusals.reconcile, first=REFUSALS_EVERY)
        self.every(1.0, events.flush, first=1.0)

    # --- the verbs, over the wire ----------------------------------------------------------------------
    def filter(self, pod: Pod, nodes: list[str]) -> FilterResult:
        """Which of the nodes suit.

        Raises:
            NoAnswerError: it is dead, paused, or answers 503.
        """
        return self.asked(lambda: self._verbs.filter(self._question(pod, nodes)))

    def prioritize(self, pod: Pod, nodes: list[str]) -> dict[str, int]:
        """Node -> score.

        Raises:
            NoAnswerError: as above.
        """
        scores = self.asked(lambda: self._verbs.prioritize(self._question(pod, nodes)))
        return {each.host: each.score for each in scores}

    def bind(self, pod: Pod, node: str) -> str:
        """The error, empty when it is bound.

        Raises:
            NoAnswerError: as above.
        """
        meta = pod.metadata
        wanted = BindingArguments(
            pod_name=meta.name, pod_namespace=meta.namespace, pod_uid=meta.uid, node=node
        )
        return self.asked(lambda: self._verbs.bind(self._over_the_wire(wanted))).error

    def awaits_answer(self, node: str) -> bool:
        """Whether a bind waits for what a node's kubelet says of another pod, as ``extender.patient`` does.

        Raises:
            NoAnswerError: as above.
        """
        return self.asked(lambda: self._awaits_answer(node))

    def _question(self, pod: Pod, nodes: list[str]) -> Arguments:
        arguments: Arguments = self._over_the_wire(Arguments(pod=pod, node_names=tuple(nodes)))
        return arguments

    def _over_the_wire(self, question: Any) -> Any:
        why = self._obstacle()
        if why:
            raise NoAnswerError(why)
        return msgspec.json.decode(msgspec.json.encode(question), type=type(question))
