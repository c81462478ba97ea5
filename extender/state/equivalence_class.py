"""The verdicts of all nodes on one request, and the text of the answer to kube-scheduler.

The text about a node is encoded when its verdict changes, not when it is needed. The scheduler's usual
request is about all nodes, for which the whole text is cached: the request may list the names in any order,
and the order of the answer does not matter to kube-scheduler.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import Final

import msgspec

from cluster.decide.reasons import Reason
from cluster.decide.request import GpuRequest
from extender.state.ranks import Ranks

NAMES: Final = 20_000
"""Names of nodes that are cached as text."""
MESSAGES: Final = 1_000

Verdicts = Mapping[str, Reason | None]
"""Node -> why the pod does not fit there; None if it does."""
NOTHING: Final[Verdicts] = {}
NOWHERE: Final = frozenset[str]()


@dataclass(frozen=True, slots=True)
class ClassAnswer:
    """An answer of filter."""

    text: bytes
    """ExtenderFilterResult, encoded."""
    fitting: int = 0
    """Number of nodes that fit."""
    rejected: frozenset[str] = frozenset()
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Code -> number of nodes that are rejected for it."""
    only: str = ""
    """The node that fits, if it is the only one that is named; else empty."""
    left_out: int = 0
    """Number of nodes that fit and are not named."""

    def naming(self, names: Sequence[str]) -> "ClassAnswer":
        """The same answer, in which only these of the nodes that fit are named, and none that does not."""
        only, left_out = names[0] if len(names) == 1 else "", self.fitting - len(names)
        return replace(self, text=_text(map(_name, names), ()), only=only, left_out=left_out)


class EquivalenceClass:
    """The verdict of each node. Its owner must ensure that no thread reads it while another writes."""

    def __init__(self, request: GpuRequest) -> None:
        """Args: request: the request that the nodes were judged by."""
        self.request: Final = request
        self.fitting: dict[str, bytes] = {}
        """Node that fits -> its name as text."""
        self._rejected: dict[str, bytes] = {}
        """Node -> its name and the reason as text."""
        self._codes: dict[str, str] = {}
        self._reasons: Counter[str] = Counter()
        """Code -> number of nodes."""
        self.ranks: Ranks | None = None
        """Nodes that fit by their scores, once somebody has asked for that."""
        self._whole: ClassAnswer | None = None
        self._names: bytes | None = None
        """The text that names all nodes that fit, and no other."""
        self._everything_rejected: frozenset[str] | None = None

    def names(self) -> set[str]:
        """All nodes with a verdict."""
        return {*self.fitting, *self._rejected}

    def write(self, name: str, reason: Reason | None) -> None:
        """Set the verdict of a node; None if the pod fits."""
        if reason is None:
            if name not in self.fitting:
                self.forget(name)
                self.fitting[name] = _name(name)
            return
        text = _rejection(name, reason)
        if self._rejected.get(name) != text:
            self.forget(name)
            self._everything_rejected = None
            self._rejected[name] = text
            self._codes[name] = reason.code
            self._reasons[reason.code] += 1

    def forget(self, name: str) -> None:
        """Remove a node that is gone."""
        self._whole = self._names = None
        if self.fitting.pop(name, None) is not None and self.ranks:
            self.ranks.forget(name)
        if self._rejected.pop(name, None) is not None:
            self._everything_rejected = None
            code = self._codes.pop(name)
            self._reasons[code] -= 1
            if not self._reasons[code]:
                del self._reasons[code]

    def whole(self) -> ClassAnswer:
        """The answer about all nodes."""
        if self._whole is None:
            self._whole = ClassAnswer(
                _text(self.fitting.values(), self._rejected.values()),
                len(self.fitting),
                self._all_rejected(),
                Counter(self._reasons),
                next(iter(self.fitting)) if len(self.fitting) == 1 else "",
            )
        return self._whole

    def naming(
        self,
        chosen: Sequence[str] | None,
        refused: Verdicts = NOTHING,
        *,
        briefly: Container[str] = (),
        asked: frozenset[str] | None = None,
        unasked: Collection[str] = NOWHERE,
    ) -> ClassAnswer:
        """The answer about all nodes or some, in which only these of the nodes that fit are named.

        Args:
            chosen: the nodes; None for all that fit.
            refused: nodes that fit -> why the pod does not fit there this time; not all of them.
            briefly: those of them that have not rejected the pod: they are in use for a moment.
            asked: the nodes that the answer is about, all of which have verdicts; None for all nodes.
            unasked: those that fit and are not among them.
        """
        left_out = {*refused, *unasked} if unasked else refused
        names = self._fits(left_out) if chosen is None else b",".join(map(_name, chosen))
        fitting, rejected = len(self.fitting) - len(left_out), self._all_rejected()
        if asked is not None and not rejected <= asked:
            rejected &= asked
            reasons = Counter(map(self._codes.__getitem__, rejected))
        else:
            reasons = Counter(self._reasons)
        for name, reason in refused.items():
            reasons[reason.code if reason else ""] += 1
            if name not in briefly:
                rejected |= {name}
        named = fitting if chosen is None else len(chosen)
        only = ""
        if named == 1:
            only = chosen[0] if chosen else next(name for name in self.fitting if name not in left_out)
        return ClassAnswer(_joined(names), fitting, rejected, reasons, only, fitting - named)

    def _fits(self, left_out: Collection[str]) -> bytes:
        if left_out:
            return b",".join(text for name, text in self.fitting.items() if name not in left_out)
        if self._names is None:
            self._names = b",".join(self.fitting.values())
        return self._names

    def _all_rejected(self) -> frozenset[str]:
        if self._everything_rejected is None:
            self._everything_rejected = frozenset(self._rejected)
        return self._everything_rejected

    def about(self, names: Sequence[str], other: Verdicts = NOTHING) -> ClassAnswer:
        """The answer about some nodes, in their order.

        Args:
            names: the nodes.
            other: verdicts, for this answer, of those of them that differ from the class or are not in it.
        """
        rest = [name for name in names if name not in other] if other else names
        fits = list(filter(None, map(self.fitting.get, rest)))
        rejected = [name for name in rest if name in self._rejected]
        lines = list(map(self._rejected.__getitem__, rejected))
        reasons = Counter(map(self._codes.__getitem__, rejected))
        for name, reason in other.items():
            if reason is None:
                fits.append(_name(name))
            else:
                rejected.append(name)
                lines.append(_rejection(name, reason))
                reasons[reason.code] += 1
        only = ""
        if len(fits) == 1:
            only = next(
                chain(
                    (name for name in rest if name in self.fitting),
                    (name for name, reason in other.items() if reason is None),
                )
            )
        return ClassAnswer(_text(fits, lines), len(fits), frozenset(rejected), reasons, only)


def uncached_answer(verdicts: Verdicts) -> ClassAnswer:
    """The answer from verdicts that were computed one by one."""
    return EquivalenceClass(_NO_REQUEST).about((), verdicts)


_NO_REQUEST: Final = GpuRequest(needs=(), demand={})


def _text(fits: Iterable[bytes], rejections: Iterable[bytes]) -> bytes:
    """ExtenderFilterResult; ``reasons`` says why no node is merely "failed"."""
    return _joined(b",".join(fits), b",".join(rejections))


def _joined(fits: bytes, rejections: bytes = b"") -> bytes:
    return b'{"NodeNames":[%b],"FailedNodes":{},"FailedAndUnresolvableNodes":{%b},"Error":""}' % (
        fits,
        rejections,
    )


def _rejection(name: str, reason: Reason) -> bytes:
    return b"%b:%b" % (_name(name), _message(reason.with_code))


@lru_cache(NAMES)
def _name(name: str) -> bytes:
    return msgspec.json.encode(name)


@lru_cache(MESSAGES)
def _message(text: str) -> bytes:
    return msgspec.json.encode(text)
