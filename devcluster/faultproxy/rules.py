"""What becomes of which call: rules as values, their counting, and the record of everything. Pure.

A rule has a match and an action. It acts on the matching calls that it is meant for: ``after`` so many of
them, on every ``every``-th, ``times`` times; they are counted together, or each kind of call (``per``) by
itself. Of all rules that would act on a call the first does; the others have counted it all the same.
"""

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from devcluster.faultproxy.calls import Call

Meanwhile = Callable[[Call], object]
"""What is done while a call is in the proxy's hands: a part ended, an object changed."""


def nothing(_call: Call) -> None:
    """Do nothing meanwhile."""


def altogether(_call: Call) -> Hashable:
    """Count all calls together."""
    return None


@dataclass(frozen=True)
class Pass:
    """Forward the call, bring the answer back."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Answer in the API server's stead, with a ``Status``; a watch hears 410 in its stream, as there."""

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
    """Forward the call, and lose the answer: the connection ends without it, and so does a watch."""

    meanwhile: Meanwhile = nothing
    """Done when the API server has answered."""


@dataclass(frozen=True, kw_only=True)
class Slow:
    """Delay a call or its answer."""

    seconds: float
    forwarded_late: bool = False
    """The call itself reaches the API server late; otherwise only its answer is late."""


@dataclass(frozen=True, kw_only=True)
class Stall:
    """A watch whose events are kept back for a while, once, and come all together then."""

    seconds: float
    events: int = 0
    """Number of pieces of the stream that pass before."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A watch that ends in the middle: nothing more passes for a while, then the connection ends."""

    seconds: float = 0.0
    """Seconds for which nothing passes."""
    events: int = 0
    """Number of pieces of the stream that pass before."""


Action = Pass | Answer | Refuse | Lose | Slow | Stall | Cut


@dataclass(frozen=True, kw_only=True)
class Match:
    """Which calls: whatever is not said does not matter."""

    callers: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    resource: str | None = None
    subresource: str | None = None
    namespace: str | None = None
    name: str | None = None
    step: str | None = None
    """See ``Call.step``."""
    watch: bool = False
    """Watches, or everything else."""
    also: Callable[[Call], bool] = field(default=lambda _call: True)
    """Any further condition, for example on the body."""

    def __call__(self, call: Call) -> bool:
        """Whether it is one of these."""
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
    """Of the following calls, the first and then every n-th; with 2.6 no loop can keep step."""
    times: int | None = 1
    """How often it acts; None: without limit."""
    per: Callable[[Call], Hashable] = altogether
    """Calls for which this is the same are counted together, apart from all others."""

    def acts_on(self, number: int) -> bool:
        """Whether it acts on the matching call with this number; the first is 1."""
        turn, before = ((n - self.after - 1) // self.every for n in (number, number - 1))
        return turn > before and turn >= 0 and (self.times is None or turn < self.times)


@dataclass
class Record:
    """What was asked, and what became of it."""

    call: Call
    action: Action
    status: int | None = None
    """What the API server answered, or we in its stead; None while it is on its way, or without an answer."""


class Rules:
    """The rules of now, and the record. Safe for many threads."""

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
        """What shall become of a call; it is on record from now on."""
        with self._lock:
            acting = [rule for rule, counts in self._counts if _counted(rule, counts, call)]
            self._acted += acting[:1]
            record = Record(call, acting[0].action if acting else PASS)
            self._records.append(record)
            return record

    @property
    def rules(self) -> Sequence[Rule]:
        """The rules that hold now."""
        with self._lock:
            return tuple(rule for rule, _ in self._counts)

    def times(self, rule: Rule) -> int:
        """How often a rule has acted."""
        with self._lock:
            return sum(acted is rule for acted in self._acted)

    @property
    def records(self) -> Sequence[Record]:
        """Everything that was asked since the rules were set, in the order in which it came."""
        with self._lock:
            return tuple(self._records)


def _counted(rule: Rule, counts: Counter[Hashable], call: Call) -> bool:
    """Whether a rule would act on a call, which is counted where it matches."""
    if not rule.match(call):
        return False
    kind = rule.per(call)
    counts[kind] += 1
    return rule.acts_on(counts[kind])


PASS: Final = Pass()
