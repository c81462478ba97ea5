"""What happens to which call: rules as values, how they count calls, and the record of all calls. Pure.

A rule has a match and an action. Of the matching calls the first ``after`` pass; then it acts on every
``every``-th, ``times`` times. Calls are counted together, or separately for each kind of call (``per``). If
several rules would act on a call, the first of them does; the others have counted it, too.
"""

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from devcluster.faultproxy.calls import Call

Meanwhile = Callable[[Call], object]
"""What is done while the proxy holds a call: a part is ended, an object is changed."""


def nothing(_call: Call) -> None:
    """Do nothing meanwhile."""


def altogether(_call: Call) -> Hashable:
    """Count all calls together."""
    return None


@dataclass(frozen=True)
class Pass:
    """Forward the call, and return the answer."""


@dataclass(frozen=True, kw_only=True)
class FaultAnswer:
    """Answer with a ``Status`` in place of the API server; as from that, a watch gets 410 in its stream."""

    code: int
    reason: str
    message: str = "This answer is made up."
    retry_after: int | None = None
    """Seconds of the header ``Retry-After``, for 429; None: no header."""


@dataclass(frozen=True, kw_only=True)
class Refuse:
    """Do not forward the call: the connection ends without an answer."""

    meanwhile: Meanwhile = nothing


@dataclass(frozen=True, kw_only=True)
class Lose:
    """Forward the call, and lose the answer: the connection ends without it, also that of a watch."""

    meanwhile: Meanwhile = nothing
    """Done when the API server has answered."""


@dataclass(frozen=True, kw_only=True)
class Slow:
    """Delay a call or its answer."""

    seconds: float
    forwarded_late: bool = False
    """Whether the call itself reaches the API server late; otherwise only its answer is late."""


@dataclass(frozen=True, kw_only=True)
class Stall:
    """Hold back the events of a watch once, for a while; then all of them come together."""

    seconds: float
    events: int = 0
    """Number of pieces of the stream that pass before."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """End a watch in the middle: nothing more passes for a while, then the connection ends."""

    seconds: float = 0.0
    """Seconds for which nothing passes."""
    events: int = 0
    """Number of pieces of the stream that pass before."""


Action = Pass | FaultAnswer | Refuse | Lose | Slow | Stall | Cut


@dataclass(frozen=True, kw_only=True)
class Match:
    """Which calls a rule is for; apart from ``watch``, a field that is not set matches every call."""

    callers: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    resource: str | None = None
    subresource: str | None = None
    namespace: str | None = None
    name: str | None = None
    step: str | None = None
    """See ``Call.step``."""
    watch: bool = False
    """True for watches alone, False for everything else."""
    also: Callable[[Call], bool] = field(default=lambda _call: True)
    """Any further condition, for example on the body."""

    def __call__(self, call: Call) -> bool:
        """Whether a call matches."""
        place = call.place
        wanted = (self.resource, self.subresource, self.namespace, self.name, self.step)
        there = (place.resource, place.subresource, place.namespace, place.name, call.step)
        return (
            self.watch == call.is_watch
            and (not self.callers or call.caller in self.callers)
            and (not self.verbs or call.verb in self.verbs)
            and all(want in (None, is_) for want, is_ in zip(wanted, there, strict=True))
            and self.also(call)
        )


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A fault: which calls it is for, and what happens to them."""

    match: Match
    action: Action
    after: int = 0
    """Number of matching calls that pass first."""
    every: float = 1
    """Of the following calls, the first and then every n-th; with 2.6 no loop can stay in step."""
    times: int | None = 1
    """How often it acts; None: without limit."""
    per: Callable[[Call], Hashable] = altogether
    """Calls for which this returns the same are counted together, separately from all others."""

    def acts_on(self, number: int) -> bool:
        """Whether it acts on the matching call with this number; the first is 1."""
        turn, before = ((n - self.after - 1) // self.every for n in (number, number - 1))
        return turn > before and turn >= 0 and (self.times is None or turn < self.times)


@dataclass
class Record:
    """A call, and what happened to it."""

    call: Call
    action: Action
    status: int | None = None
    """Status of the API server's answer, or of ours; None while the call is under way, or if it got none."""


class Rules:
    """The current rules, and the record of calls. Thread-safe."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._lock = threading.Lock()
        self._counts: list[tuple[Rule, Counter[Hashable]]] = []
        self._acted: list[Rule] = []
        self._records: list[Record] = []
        self.set(*rules)

    def set(self, *rules: Rule) -> None:
        """Replace all rules, and count from the start; what was recorded is forgotten."""
        with self._lock:
            self._counts = [(rule, Counter()) for rule in rules]
            self._acted.clear()
            self._records.clear()

    def decide(self, call: Call) -> Record:
        """Decide what happens to a call, and record it."""
        with self._lock:
            acting = [rule for rule, counts in self._counts if _counted(rule, counts, call)]
            self._acted += acting[:1]
            record = Record(call, acting[0].action if acting else PASS)
            self._records.append(record)
            return record

    @property
    def rules(self) -> Sequence[Rule]:
        """The current rules."""
        with self._lock:
            return tuple(rule for rule, _ in self._counts)

    def times(self, rule: Rule) -> int:
        """How often a rule has acted."""
        with self._lock:
            return sum(acted is rule for acted in self._acted)

    @property
    def records(self) -> Sequence[Record]:
        """All calls since the rules were set, in the order in which they came."""
        with self._lock:
            return tuple(self._records)


def _counted(rule: Rule, counts: Counter[Hashable], call: Call) -> bool:
    """Count a call if it matches. Returns whether the rule would act on it."""
    if not rule.match(call):
        return False
    kind = rule.per(call)
    counts[kind] += 1
    return rule.acts_on(counts[kind])


PASS: Final = Pass()
