"""What else somebody could have who cannot have what they asked for. Pure.

Every alternative is judged by ``booking.evaluate`` itself before it is offered: who takes it at once gets it.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any, Final, Literal, Protocol

import msgspec

from booking import search, spans
from booking.case import Case
from booking.policy.limits import Limits
from booking.room import Room
from booking.rules import OF_THE_ASKER
from booking.spans import Span
from cluster.objects.bookings import Topology

MOST: Final = 3
_HOUR: Final = 3600
_DAY: Final = 86400
Why = Literal["within-limits", "later", "several-nodes", "shorter", "fewer-gpus", "other-model", "earlier"]
"""What is different: changed as little as the limits demand, begun later, on several nodes instead of one,
..."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody could ask for."""

    start: datetime
    end: datetime
    count: int
    model: str
    topology: Topology


class Alternative(Wish, frozen=True, kw_only=True):
    """A wish that would be accepted now."""

    why: Why


class Judge(Protocol):
    """The decision, as the search for alternatives asks it; ``booking.evaluate`` is it."""

    @property
    def now(self) -> datetime:
        """The instant."""
        ...

    @property
    def models(self) -> tuple[str, ...]:
        """All models that could be meant."""
        ...

    def case(self, wish: Wish) -> Case:
        """The wish as the rules see it."""
        ...

    def room(self, model: str) -> Room:
        """What there is of a model."""
        ...

    def is_accepted(self, wish: Wish) -> bool:
        """Whether it would be accepted now."""
        ...


def is_conceivable(judge: Judge, wish: Wish) -> bool:
    """Whether it is for GPUs, and for a time, that anybody could have."""
    return wish.count > 0 and search.is_conceivable(wish.start, wish.end, judge.case(wish).limits)


def find(judge: Judge, wish: Wish) -> tuple[Alternative, ...]:
    """Up to three wishes that would be accepted, the most alike first. None for one that makes no sense.

    Args:
        judge: the decision.
        wish: what was refused.
    """
    if not is_conceivable(judge, wish):
        return ()
    return tuple(islice(_accepted(judge, wish), MOST))


def _accepted(judge: Judge, wish: Wish) -> Iterator[Alternative]:
    seen = {wish}
    for why, candidate in _candidates(judge, wish):
        if candidate not in seen and _is_something(judge, candidate, wish) and judge.is_accepted(candidate):
            yield Alternative(**msgspec.structs.asdict(candidate), why=why)
        seen.add(candidate)


def _is_something(judge: Judge, candidate: Wish, wish: Wish) -> bool:
    """Whether it is more than what somebody has already who asks for more of it."""
    case = judge.case(candidate)
    return case.is_start_chosen or not case.gives_back or judge.case(wish).gives_back


def _candidates(judge: Judge, wish: Wish) -> Iterator[tuple[Why, Wish]]:
    """In the order in which they are offered; most are looked for only when they are needed."""
    models = [model for model in judge.models if _may_ask(judge.case(_with(wish, model=model)))]
    others = [model for model in models if model != wish.model]
    if wish.model in models:
        like = _within_limits(judge, wish)
        yield "within-limits", like
        yield from _later(judge, like, 1)
        several = _with(like, topology="any")
        # How its GPUs lie is chosen when it is booked: no change makes it another.
        if judge.case(several).changing is None:
            yield "several-nodes", several
        yield from _shorter(judge, like)
        yield from _fewer(judge, like)
        yield from (("other-model", _of_model(judge, wish, model)) for model in others)
        yield from _earlier(judge, like)
        yield from _later(judge, like, MOST)
        yield from _different_and_later(judge, like)
    yield from (("other-model", _of_model(judge, wish, model)) for model in others)
    for model in others:
        for _, later in _later(judge, _of_model(judge, wish, model), MOST):
            yield "other-model", later


def _may_ask(case: Case) -> bool:
    return not any(rule(case) for rule in OF_THE_ASKER)


def _within_limits(judge: Judge, wish: Wish) -> Wish:
    """As much of the wish as limits on its shape leave: not in the past, not too long, not too large.

    What runs stays where it begins.
    """
    case = judge.case(wish)
    had = case.changing
    if had is not None and had.state(judge.now) != "planned":
        start = had.start
        case = judge.case(_with(wish, start=start))
    else:
        start = wish.start if had is not None and had.start == wish.start else max(wish.start, judge.now)
    limits, length = case.limits, case.length
    most = limits.max_gpus_per_booking
    count = wish.count if most is None or case.is_spontaneous else min(wish.count, most)
    start = search.allowed_start(start, judge.now, limits) if case.is_start_chosen else start
    return _with(wish, start=start, end=search.end_of(start, length, limits), count=count)


def _of_model(judge: Judge, wish: Wish, model: str) -> Wish:
    return _within_limits(judge, _with(wish, model=model))


def _later(judge: Judge, wish: Wish, most: int) -> Iterator[tuple[Why, Wish]]:
    """The next starts, a day or a booking's length apart."""
    case, not_before = judge.case(wish), wish.start
    for _ in range(most):
        start = _next_start(judge, wish, not_before)
        if start is None:
            return
        yield "later", _at(wish, start, case)
        not_before = min(
            spans.after(start, Span(days=1), case.limits.tz), search.end_of(start, case.length, case.limits)
        )


def _different_and_later(judge: Judge, wish: Wish) -> Iterator[tuple[Why, Wish]]:
    """The next starts on several nodes, or of fewer GPUs: as many as can be had at any time."""
    if judge.case(wish).changing is None:
        yield from (("several-nodes", each) for _, each in _later(judge, _with(wish, topology="any"), MOST))

    def is_had(count: int) -> bool:
        return any(judge.is_accepted(each) for _, each in _later(judge, _with(wish, count=count), 1))

    if found := _most(wish.count - 1, is_had):
        yield from (("fewer-gpus", each) for _, each in _later(judge, _with(wish, count=found), MOST))


def _earlier(judge: Judge, wish: Wish) -> Iterator[tuple[Why, Wish]]:
    start = _next_start(judge, wish, judge.now)
    if start is not None and start < wish.start:
        yield "earlier", _at(wish, start, judge.case(wish))


def _next_start(judge: Judge, wish: Wish, not_before: datetime) -> datetime | None:
    case = judge.case(wish)
    wanted = search.wanted(case, wish.topology)
    return search.next_start(case, judge.room(wish.model), wanted, not_before)


def _at(wish: Wish, start: datetime, case: Case) -> Wish:
    return _with(wish, start=start, end=search.end_of(start, case.length, case.limits))


def _shorter(judge: Judge, wish: Wish) -> Iterator[tuple[Why, Wish]]:
    """As long as can be had from the same start, in whole days, hours or steps."""
    case = judge.case(wish)
    unit = _unit(case.limits)
    passed = spans.between(case.since, judge.now, case.limits.tz)
    least = max(-(-_seconds(case.limits.shortest) // unit), _seconds(passed) // unit + 1)
    most = _seconds(case.length) // unit - least + 1

    def lasting(units: int) -> Wish:
        length = Span(*divmod((least + units - 1) * unit, _DAY))
        return _with(wish, end=spans.after(wish.start, length, case.limits.tz))

    found = _most(most, lambda units: judge.is_accepted(lasting(units)))
    if found:
        yield "shorter", lasting(found)


def _fewer(judge: Judge, wish: Wish) -> Iterator[tuple[Why, Wish]]:
    """As many as can be had at the same time."""
    found = _most(wish.count - 1, lambda count: judge.is_accepted(_with(wish, count=count)))
    if found:
        yield "fewer-gpus", _with(wish, count=found)


def _most(most: int, fits: Callable[[int], bool]) -> int:
    """The largest amount up to ``most`` that fits, if every smaller one does; 0 for none."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _unit(limits: Limits) -> int:
    """Seconds by which a booking is made shorter: days where bookings last days, else hours or steps."""
    step = limits.granularity or Span(seconds=_HOUR)
    return _DAY if limits.shortest.days else step.days * _DAY + step.seconds


def _seconds(span: Span) -> int:
    return span.days * _DAY + span.seconds


def _with(wish: Wish, **changed: Any) -> Wish:
    return msgspec.structs.replace(wish, **changed)
