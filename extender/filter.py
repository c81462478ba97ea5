"""The verb ``filter``: which of the offered nodes can give the pod its devices."""

from collections.abc import Container, Iterable
from typing import Final

import msgspec

from cluster.decide.predicates import PROMISED, RESERVED, elsewhere
from cluster.decide.reasons import Reason
from cluster.decide.wish import Wish
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod
from cluster.objects.quantity import QuantityError
from extender.sheet import Answer, Verdicts, without_sheet
from extender.state import ClusterState, Promises, Rejection
from extender.wire import WHOLE_NODES, Arguments, FilterResult, Told

ANSWERED: Final = "filter answered"


class Filter:
    """Answers kube-scheduler's question; the decision is ``predicates.obstacle``, kept in the index."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def __call__(self, arguments: Arguments) -> FilterResult:
        """The answer for who asks in this process."""
        return msgspec.json.decode(self.told(arguments).text, type=FilterResult)

    def told(self, arguments: Arguments) -> Told:
        """Sort the nodes into those that fit and those that do not, with the reason: what is sent.

        Every rejection is "unresolvable" to the scheduler: ``cluster.decide.reasons`` says why.
        """
        if arguments.has_whole_nodes:
            return _error(arguments.pod, WHOLE_NODES)
        pod, names = arguments.pod, arguments.node_names or ()
        try:
            wish = self._state.wish(pod)
        except QuantityError as error:
            return _error(pod, str(error))
        self._state.remember(pod)
        seen = self._state.index.number
        spared: frozenset[str] = frozenset()
        if wish.pin:
            answer = self._kept(pod, wish, wish.pin, names)
        else:
            answer, spared = self._sorted(pod, wish, names)
        is_promised = PROMISED.code in answer.reasons
        # A node that is spared for a moment has not rejected the pod.
        rejected = answer.rejected - spared if spared else answer.rejected
        self._state.note(Rejection(pod, wish, rejected, seen, is_promised=is_promised))
        if answer.only:
            self._state.reserve_softly(wish, answer.only)  # prioritize is not asked then
        line = {
            "pod": pod.key,
            "uid": pod.metadata.uid,
            "asked": len(names),
            "fitting": answer.fitting,
            "reasons": answer.reasons,
        }
        return Told(answer.text, ANSWERED, line, answer.reasons)

    def _kept(self, pod: Pod, wish: Wish, pin: Hold, names: Iterable[str]) -> Answer:
        """For a pod that has a hold: there is one node for it, if any."""
        there = pin.node
        verdicts: dict[str, Reason | None] = dict.fromkeys(names, elsewhere(pin) if wish.demand else None)
        if there in verdicts:
            verdicts[there] = self._state.afresh(wish, there) or self._state.promises(pod, wish)(there)
        return without_sheet(verdicts)

    def _sorted(self, pod: Pod, wish: Wish, names: tuple[str, ...]) -> tuple[Answer, frozenset[str]]:
        """The answer, and the nodes that are left out of it for the sake of soft reservations."""
        with self._state.index.sheet(wish) as (sheet, everything):
            asked = frozenset(names)
            is_whole = asked == everything and len(asked) == len(names)
            other = {} if is_whole else {name: self._state.afresh(wish, name) for name in asked - everything}
            other |= {name: self._state.afresh(wish, name) for name in self._state.apart(wish.uid) & asked}
            if promised := self._state.promised(pod, wish):
                other |= _denied(promised, names, sheet.fitting, other)
            spared = self._spared(wish, names, sheet.fitting, other)
            other |= dict.fromkeys(spared, RESERVED)
            answer = sheet.whole() if is_whole and not other else sheet.about(names, other)
            return answer, frozenset(spared)

    def _spared(
        self, wish: Wish, names: Iterable[str], fitting: Container[str], other: Verdicts
    ) -> list[str]:
        """Nodes whose last devices other pods are about to get; none where the pod would fit nowhere else."""
        reserved = self._state.soft.of_others(wish.uid)
        if not reserved or not wish.demand:
            return []
        fits = _fits(names, fitting, other)
        spared = [
            name
            for name in fits
            if name in reserved and not self._state.fits_beside(wish, name, reserved[name])
        ]
        return spared if len(spared) < len(fits) else []


def _denied(
    promised: Promises, names: Iterable[str], fitting: Container[str], other: Verdicts
) -> dict[str, Reason | None]:
    """Nodes on which the pod would fit, but for what others are promised."""
    fits = _fits(names, fitting, other)
    found = ((name, promised(name)) for name in fits)
    return {name: reason for name, reason in found if reason}


def _fits(names: Iterable[str], fitting: Container[str], other: Verdicts) -> list[str]:
    """The nodes on which the pod fits, in their order."""
    return [name for name in names if (other[name] is None if name in other else name in fitting)]


def _error(pod: Pod, sentence: str) -> Told:
    line = {"pod": pod.key, "uid": pod.metadata.uid, "error": sentence}
    return Told(msgspec.json.encode(FilterResult(error=sentence)), ANSWERED, line)
