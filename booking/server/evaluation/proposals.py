"""What a user could ask for, and whether they would get it, with few evaluations. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from booking import durations
from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.capacity.free_capacity import FreeCapacity
from booking.server.evaluation import start_rules
from booking.server.rule_context import RuleContext
from cluster.objects.bookings import Topology

QUESTIONS: Final = 80
"""How often the free capacity may be queried for one refusal: with 50,000 bookings one answer may take
milliseconds."""
_HOUR: Final = 3600
_DAY: Final = 86400


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What a user could ask for."""

    start: datetime
    end: datetime
    count: int
    model: str
    topology: Topology
    memory: int | None = None
    """MiB of each GPU; None: whole GPUs."""


class Judge(Protocol):
    """The decision, for the search for alternatives; ``booking.server.evaluation.evaluate`` implements it."""

    @property
    def now(self) -> datetime:
        """The instant of the decision, aware UTC."""
        ...

    @property
    def deadline(self) -> datetime | None:
        """An alternative must end by then; None: at any time."""
        ...

    @property
    def models(self) -> tuple[str, ...]:
        """All models that a proposal may name."""
        ...

    def there(self, model: str, topology: Topology) -> int:
        """The existing number of GPUs of a model; on one node for ``single-node``."""
        ...

    def case(self, proposal: Proposal) -> RuleContext:
        """The request as the rules see it."""
        ...

    def free_capacity(self, model: str) -> FreeCapacity:
        """The free capacity of a model."""
        ...

    def is_accepted(self, proposal: Proposal, *, thoroughly: bool = True) -> bool:
        """Whether it would be accepted now.

        Args:
            proposal: the possible request.
            thoroughly: if others would have to move for it, search long; otherwise some acceptable ones are
                missed.
        """
        ...


@dataclass(slots=True)
class CachedJudge:
    """A judge with a cache and a budget: when no questions are left, nothing more is found."""

    judge: Judge
    left: int = QUESTIONS
    _fits: dict[Proposal, bool] = field(default_factory=dict)
    _first: dict[tuple[Proposal, datetime], Proposal | None] = field(default_factory=dict)

    def fits(self, proposal: Proposal) -> bool:
        """Whether it would be accepted now, by a quick check that misses some."""
        if proposal not in self._fits:
            self._fits[proposal] = (
                self._can_be(proposal)
                and self._is_in_time(proposal)
                and self._may_ask()
                and self.judge.is_accepted(proposal, thoroughly=False)
            )
        return self._fits[proposal]

    def first(self, proposal: Proposal, not_before: datetime) -> Proposal | None:
        """The proposal at its first start, not before an instant, at which it would be accepted now."""
        key = proposal, not_before
        if key not in self._first:
            self._first[key] = self._found(proposal, not_before)
        return self._first[key]

    def fewer(self, proposal: Proposal) -> int:
        """The highest existing number of GPUs below that of the proposal."""
        return min(proposal.count - 1, self.judge.there(proposal.model, proposal.topology))

    def _found(self, proposal: Proposal, not_before: datetime) -> Proposal | None:
        case = self.judge.case(proposal)
        if has_begun(case):
            return proposal if not_before <= proposal.start and self.fits(proposal) else None
        if not (self._can_be(proposal) and self._may_ask()):
            return None
        free_capacity, want = (
            self.judge.free_capacity(proposal.model),
            start_rules.wanted(case, proposal.topology),
        )
        start = start_rules.next_start(case, free_capacity, want, not_before)
        if start is None or not self._is_in_time(found := begun_at(proposal, start, case)):
            return None
        self._fits[found] = True
        return found

    def _can_be(self, proposal: Proposal) -> bool:
        return 0 < proposal.count <= self.judge.there(proposal.model, proposal.topology)

    def _is_in_time(self, proposal: Proposal) -> bool:
        return self.judge.deadline is None or proposal.end <= self.judge.deadline

    def _may_ask(self) -> bool:
        self.left -= 1
        return self.left >= 0


@dataclass(frozen=True, slots=True)
class Lengths:
    """Bookings from one start that last whole units, from the shortest up to the requested length."""

    proposal: Proposal
    limits: Limits
    unit: int
    """Length of a unit in seconds."""
    least: int
    """Length of the shortest booking in units."""
    most: int
    """The number of different lengths."""

    @classmethod
    def of(cls, judge: Judge, proposal: Proposal, unit: int = 0) -> "Lengths":
        """The lengths of a proposal. By default units are days where bookings last days, else steps."""
        case = judge.case(proposal)
        limits, unit = case.limits, unit or _unit_of(case.limits)
        passed = durations.between(case.since, judge.now, limits.tz)
        least = max(-(-_seconds(limits.shortest) // unit), _seconds(passed) // unit + 1)
        return cls(proposal, limits, unit, least, _seconds(case.length) // unit - least + 1)

    def made(self, number: int) -> Proposal:
        """The proposal with its ``number``-th length; 1 is the shortest."""
        length = Duration(*divmod((self.least + number - 1) * self.unit, _DAY))
        return changed(self.proposal, end=start_rules.end_of(self.proposal.start, length, self.limits))


def largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest amount up to ``most`` that fits, if every smaller one does; 0 for none."""
    if most < 1 or not fits(1):
        return 0
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _unit_of(limits: Limits) -> int:
    """Seconds by which a booking is shortened: days where bookings last days, else hours or steps."""
    return _DAY if limits.shortest.days else step_of(limits)


def step_of(limits: Limits) -> int:
    """The policy's step in seconds; an hour where it has none."""
    return _seconds(limits.granularity or Duration(seconds=_HOUR))


def _seconds(span: Duration) -> int:
    return span.days * _DAY + span.seconds


def has_begun(case: RuleContext) -> bool:
    """Whether it changes a booking that has begun: its start is then fixed."""
    return case.changing is not None and case.changing.state(case.now) != "planned"


def begun_at(proposal: Proposal, start: datetime, case: RuleContext) -> Proposal:
    """The proposal with another start; it keeps its length as far as the limits allow."""
    return changed(proposal, start=start, end=start_rules.end_of(start, case.length, case.limits))


def changed(proposal: Proposal, **fields: Any) -> Proposal:
    """The proposal with other values for some fields."""
    return msgspec.structs.replace(proposal, **fields)
