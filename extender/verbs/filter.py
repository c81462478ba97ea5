"""The verb ``filter``: which of the offered nodes can give the pod its devices."""

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from cluster.decide.ledger import NodeView
from cluster.decide.predicates import BOOKED_BY_OTHERS, HELD_NOT_FREE, RESERVED, WAITS_ITS_TURN, elsewhere
from cluster.decide.reasons import Reason
from cluster.decide.request import GpuRequest
from cluster.objects.hold import Hold
from cluster.objects.hold_verdicts import ACCEPTED, NOT_FREE, REFUSED, HoldVerdict
from cluster.objects.pods import Pod
from cluster.objects.quantity import QuantityError
from extender.state.cluster_state import ClusterState, NodeRejection, Rejection
from extender.state.equivalence_class import NOWHERE, ClassAnswer, Verdicts, uncached_answer
from extender.state.ranks import Ranks
from extender.wire import WHOLE_NODES, ExtenderArgs, ExtenderFilterResult, LoggedAnswer

ANSWERED: Final = "filter answered"


class Narrowing(Protocol):
    """Which nodes that fit kube-scheduler may still choose: ``contenders.Contenders``."""

    def narrows(self, pod: Pod, request: GpuRequest) -> bool:
        """Whether our scores may decide for the pod."""
        ...

    def score(self, request: GpuRequest, view: NodeView, /) -> int:
        """What a node is ranked by."""
        ...

    def among(self, ranks: Ranks, request: GpuRequest, without: Collection[str]) -> Sequence[str] | None:
        """Those of all nodes that fit but some; None for all of them."""
        ...

    def __call__(self, pod: Pod, request: GpuRequest, fitting: Sequence[str], /) -> Sequence[str]:
        """Those of these nodes."""
        ...


class Filter:
    """Answers ``filter``; the decision is ``predicates.rejection``, cached per equivalence class."""

    def __init__(self, state: ClusterState, narrowed: Narrowing | None = None) -> None:
        """Args: narrowed: which nodes that fit are named; by default all, with the reasons of the others."""
        self._state = state
        self._narrowed = narrowed

    def __call__(self, arguments: ExtenderArgs) -> ExtenderFilterResult:
        """The answer for a caller in this process."""
        return msgspec.json.decode(self.answer_logged(arguments).text, type=ExtenderFilterResult)

    def answer_logged(self, arguments: ExtenderArgs) -> LoggedAnswer:
        """Sort the nodes into fitting and rejected ones, with reasons; returns the text and its log line.

        Every rejection is reported as "unresolvable": ``cluster.decide.reasons`` explains why.
        """
        if arguments.has_whole_nodes:
            return _error(arguments.pod, WHOLE_NODES)
        pod, names = self._state.with_claims(arguments.pod), arguments.node_names or ()
        try:
            request = self._state.request(pod)
        except QuantityError as error:
            return _error(pod, str(error))
        self._state.remember(pod)
        seen = self._state.index.number
        soft_reserved = frozenset[str]()
        if request.hold and not request.allocated_on:
            answer = self._with_hold(pod, request, request.hold, names)
        elif self._state.waits_its_turn(pod, request):
            self._state.hold_verdicts.drop(request.uid)
            answer = uncached_answer(dict.fromkeys(names, WAITS_ITS_TURN))
        else:
            self._state.hold_verdicts.drop(request.uid)
            answer, soft_reserved = self._sorted(pod, request, names)
        is_booked_by_others = BOOKED_BY_OTHERS.code in answer.reasons
        # A node that is left out for a moment has not rejected the pod.
        rejected = answer.rejected
        if not soft_reserved.isdisjoint(rejected):
            rejected -= soft_reserved
        self._state.note(Rejection(pod, request, rejected, seen, is_booked_by_others=is_booked_by_others))
        if answer.only:
            self._state.reserve_softly(request, answer.only)  # prioritize is not asked then
        line: dict[str, object] = {
            "pod": pod.key,
            "uid": pod.metadata.uid,
            "nodes": len(names),
            "fitting": answer.fitting,
            "reasons": answer.reasons,
        }
        if answer.left_out:
            line["left_out"] = answer.left_out
        return LoggedAnswer(answer.text, ANSWERED, line, answer.reasons)

    def _with_hold(self, pod: Pod, request: GpuRequest, hold: Hold, names: Iterable[str]) -> ClassAnswer:
        """For a pod with a hold: at most one node fits it."""
        there = hold.node
        verdicts: dict[str, Reason | None] = dict.fromkeys(names, elsewhere(hold) if request.demand else None)
        if there in verdicts:
            reason = self._state.evaluate(request, there)
            verdicts[there] = reason or self._state.plan_rejection(pod, request)(there)
            self._state.hold_verdicts.note(request.uid, _hold_verdict(verdicts[there]))
        return uncached_answer(verdicts)

    def _sorted(
        self, pod: Pod, request: GpuRequest, names: tuple[str, ...]
    ) -> tuple[ClassAnswer, frozenset[str]]:
        """The answer, and the nodes that are left out of it because of soft reservations."""
        narrowed = self._narrowed
        narrows = narrowed is not None and narrowed.narrows(pod, request)
        ranked = narrows and self._state.planned(pod, request) is None  # by nothing but the policy
        score = narrowed.score if narrowed and ranked else None
        with self._state.index.class_of(request, score) as (equivalence, everything):
            # kube-scheduler names no node twice.
            is_whole = len(names) == len(everything) and everything.issuperset(names)
            asked = everything if is_whole else frozenset(names)
            apart = self._state.apart(request.uid) & asked
            alone = apart if is_whole else apart | (asked - everything)
            other = {name: self._state.evaluate(request, name) for name in alone}
            if plan_rejection := self._state.plan_rejection_or_none(pod, request):
                other |= _denied(plan_rejection, names, equivalence.fitting, other)
            soft_reserved = self._soft_reserved(request, asked, equivalence.fitting, other)
            other |= dict.fromkeys(soft_reserved, RESERVED)
            unasked = NOWHERE if is_whole else equivalence.fitting.keys() - asked
            if narrowed and narrows == ranked and _refuses(other, equivalence.fitting, unasked):
                ranks = equivalence.ranks if ranked else None
                chosen = narrowed.among(ranks, request, unasked.union(other)) if ranks else None
                found = equivalence.naming(
                    chosen,
                    other,
                    briefly=soft_reserved,
                    asked=None if is_whole else asked,
                    unasked=unasked,
                )
                return found, soft_reserved
            answer = equivalence.whole() if is_whole and not other else equivalence.about(names, other)
            fits = _fits(names, equivalence.fitting, other) if narrowed and answer.fitting else []
        if narrowed and fits:  # kube-scheduler reads why nodes do not fit only if none does
            answer = answer.naming(narrowed(pod, request, fits) if len(fits) > 1 else fits)
        return answer, soft_reserved

    def _soft_reserved(
        self, request: GpuRequest, names: Collection[str], fitting: Collection[str], other: Verdicts
    ) -> frozenset[str]:
        """Nodes whose last devices other pods are about to get; none if the pod would fit nowhere else."""
        reserved = self._state.soft.of_others(request.uid)
        if not reserved or not request.demand:
            return frozenset()
        there = {name: reserved[name] for name in _fit(filter(names.__contains__, reserved), fitting, other)}
        soft_reserved = self._state.full_beside(request, there)
        fits_elsewhere = any(name not in soft_reserved for name in _fit(names, fitting, other))
        return soft_reserved if fits_elsewhere else frozenset()


def _refuses(other: Verdicts, fitting: Collection[str], unasked: Collection[str]) -> bool:
    """Whether only nodes that fit otherwise are refused this time, and some that are asked for still fit."""
    some_fit = len(other) + len(unasked) < len(fitting)
    return some_fit and all(reason and name in fitting for name, reason in other.items())


def _hold_verdict(reason: Reason | None) -> HoldVerdict:
    if reason is None:
        return ACCEPTED
    return NOT_FREE if reason.code == HELD_NOT_FREE.code else REFUSED


def _denied(
    plan_rejection: NodeRejection, names: Iterable[str], fitting: Container[str], other: Verdicts
) -> dict[str, Reason | None]:
    """Nodes on which the pod would fit if the GPUs were not guaranteed to others -> the reason."""
    fits = _fits(names, fitting, other)
    found = ((name, plan_rejection(name)) for name in fits)
    return {name: reason for name, reason in found if reason}


def _fits(names: Iterable[str], fitting: Container[str], other: Verdicts) -> list[str]:
    """The nodes on which the pod fits, in the given order."""
    return list(_fit(names, fitting, other))


def _fit(names: Iterable[str], fitting: Container[str], other: Verdicts) -> Iterator[str]:
    return (name for name in names if (other[name] is None if name in other else name in fitting))


def _error(pod: Pod, message: str) -> LoggedAnswer:
    line = {"pod": pod.key, "uid": pod.metadata.uid, "error": message}
    return LoggedAnswer(msgspec.json.encode(ExtenderFilterResult(error=message)), ANSWERED, line)
