"""What else somebody could have who cannot have what they asked for. Pure.

Every alternative is judged by ``booking.evaluate`` itself before it is offered: who takes it at once gets it.

The wish changed in one thing alone comes first, then the wish at other times, then less of it; at last all
that there is of its neighbourhood: any model that may be asked for, from 1 GPU up to as many as were wished
for, from the shortest booking up to one as long as the wish, from any start on. Lengths and starts are on the
policy's steps, or on hours where it has none. Wherever three of these would be accepted three are offered, as
far as a room sees at once what it has, and ``QUESTIONS`` are enough.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, Literal

import msgspec

from booking import search, spans
from booking.case import Case
from booking.rules import OF_THE_ASKER
from booking.spans import Span
from booking.wishes import Asked, Judge, Lasting, Wish, begun_at, changed, has_begun, largest, step_of

MOST: Final = 3
Why = Literal["within-limits", "later", "several-nodes", "shorter", "fewer-gpus", "other-model", "earlier"]
"""What is different: changed as little as the limits demand, begun later, on several nodes instead of one,
... Of several things the one that weighs most: another model, fewer GPUs, shorter."""


class Alternative(Wish, frozen=True, kw_only=True):
    """A wish that would be accepted now."""

    why: Why


Candidates = Iterator[tuple[Why, Wish]]
"""What could be offered, and what is different about it."""


def is_meant(wish: Wish) -> bool:
    """Whether it is for GPUs, and for a time."""
    return wish.count > 0 and wish.start < wish.end


def find(judge: Judge, wish: Wish) -> tuple[Alternative, ...]:
    """Up to three wishes that would be accepted, the most alike first. None for one that makes no sense.

    Args:
        judge: the decision.
        wish: what was refused.
    """
    return tuple(islice(_accepted(Asked(judge), wish), MOST)) if is_meant(wish) else ()


def _accepted(asked: Asked, wish: Wish) -> Iterator[Alternative]:
    seen = {_shown(wish)}
    offered: list[Wish] = []
    for why, candidate in _candidates(asked, wish, offered):
        is_new = _shown(candidate) not in seen and _is_something(asked.judge, candidate, wish)
        if is_new and asked.fits(candidate) and asked.judge.is_accepted(candidate):
            offered.append(candidate)
            yield Alternative(**msgspec.structs.asdict(candidate), why=why)
        seen.add(_shown(candidate))


def _shown(wish: Wish) -> Wish:
    """What people can tell apart: one GPU is always on one node."""
    return changed(wish, topology="any") if wish.count == 1 else wish


def _is_something(judge: Judge, candidate: Wish, wish: Wish) -> bool:
    """Whether it is more than what somebody has already who asks for more of it."""
    case = judge.case(candidate)
    return case.is_start_chosen or not case.gives_back or judge.case(wish).gives_back


# --- the order in which they are offered -----------------------------------------------------------------


def _candidates(asked: Asked, wish: Wish, offered: Sequence[Wish]) -> Candidates:
    """Most are looked for only when they are needed; ``offered`` grows meanwhile."""
    judge = asked.judge
    models = [model for model in judge.models if _may_ask(judge.case(changed(wish, model=model)))]
    bases = {model: _bases(judge, changed(wish, model=model)) for model in models}
    mine = bases.pop(wish.model, None)
    own = [mine] if mine is not None and _is_any_left(asked, mine) else []
    for like, *_ in own:
        yield from _changed_in_one_thing(asked, like)
    others = [each for each in bases.values() if _is_any_left(asked, each)]
    yield from (("other-model", like) for like, *_ in others)
    for each in own:
        yield from _at_other_times(asked, *each)
    for like, *_ in others:
        yield from (("other-model", each) for each in _apart(asked, like))
    every = [(each[0], base) for each in (*own, *others) for base in each]
    for like, base in every:
        for less in _less(asked, base):
            if not any(_is_part(less, each) for each in offered):
                yield _why(judge, less, like, wish), less
    for look in (_parts, _odd):
        for like, base in every:
            yield from ((_why(judge, less, like, wish), less) for less in look(asked, base))


def _changed_in_one_thing(asked: Asked, like: Wish) -> Candidates:
    yield "within-limits", like
    yield from (("later", each) for each in islice(_apart(asked, like), 1))
    if _may_lie_elsewhere(asked.judge, like):
        yield "several-nodes", changed(like, topology="any")
    yield from (("shorter", each) for each in islice(_shorter(asked, like), 1))
    yield from (("fewer-gpus", each) for each in islice(_fewer(asked, like), 1))


def _at_other_times(asked: Asked, like: Wish, *from_now: Wish) -> Candidates:
    """One that is earlier, then all that are later, then all that are earlier."""

    def earlier(most: int) -> Candidates:
        starts = (each for base in from_now for each in islice(_apart(asked, base), most))
        return (("earlier", each) for each in starts if each.start < like.start)

    yield from earlier(1)
    yield from (("later", each) for each in _apart(asked, like))
    yield from earlier(MOST)
    if _may_lie_elsewhere(asked.judge, like):
        yield from (("several-nodes", each) for each in _apart(asked, changed(like, topology="any")))
    yield from (("fewer-gpus", each) for each in _fewer_some_time(asked, like))


def _less(asked: Asked, base: Wish) -> Iterator[Wish]:
    """Shorter, then fewer, then both, at the next starts: as much as can be had at any of them."""
    yield from _shorter_some_time(asked, base)
    yield from _fewer_some_time(asked, base)
    most = largest(
        asked.fewer(base), lambda count: asked.first(_least(asked, base, count), base.start) is not None
    )
    if most:
        yield from _shorter_some_time(asked, changed(base, count=most))


def _parts(asked: Asked, base: Wish) -> Iterator[Wish]:
    """Also what is part of something that is offered already: from the same start shorter, or fewer."""
    for count in sorted({base.count, 1}, reverse=True):
        for found in _apart(asked, _least(asked, base, count)):
            yield from islice(_shorter(asked, _begun(asked, base, found)), MOST)
            yield from islice(_fewer(asked, changed(found, count=base.count)), MOST)


def _odd(asked: Asked, base: Wish) -> Iterator[Wish]:
    """Also what begins a step after something that is offered already, or lasts a step less."""
    step = step_of(asked.judge.case(base).limits)
    for count in sorted({base.count, 1}, reverse=True):
        starts = [*_a_step_apart(asked, _least(asked, base, count))]
        yield from starts
        for found in starts[: MOST - 1]:
            # On a day of 23 hours two of them are the same.
            yield from islice(_shorter(asked, _begun(asked, base, found), step), MOST + 1)


def _is_part(less: Wish, more: Wish) -> bool:
    """Whether it begins with another and is nowhere more."""
    is_like_it = (less.model, less.start) == (more.model, more.start)
    return is_like_it and less.end <= more.end and less.count <= more.count


def _why(judge: Judge, less: Wish, like: Wish, wish: Wish) -> Why:
    if less.model != wish.model:
        return "other-model"
    if less.count < like.count:
        return "fewer-gpus"
    if judge.case(less).length.nominal < judge.case(like).length.nominal:
        return "shorter"
    return "earlier" if less.start < wish.start else "later"


# --- from when on it is looked for, and of which models --------------------------------------------------


def _may_ask(case: Case) -> bool:
    return not any(rule(case) for rule in OF_THE_ASKER)


def _may_lie_elsewhere(judge: Judge, wish: Wish) -> bool:
    """Whether it may be on several nodes instead of one.

    How GPUs lie is chosen when they are booked: no change makes it another.
    """
    return wish.count > 1 and judge.case(changed(wish, topology="any")).changing is None


def _bases(judge: Judge, wish: Wish) -> tuple[Wish, ...]:
    """As much of a wish as the limits leave; and if that begins later than it must, the same from now on."""
    like, case = _within_limits(judge, wish), judge.case(wish)
    soon = _within_limits(
        judge, changed(wish, start=judge.now, end=spans.after(judge.now, case.length, case.limits.tz))
    )
    return (like, soon) if soon.start < like.start else (like,)


def _within_limits(judge: Judge, wish: Wish) -> Wish:
    """As much of the wish as limits on its shape leave: not in the past, not too long, not too large.

    What runs stays where it begins.
    """
    case = judge.case(wish)
    had = case.changing
    if had is not None and has_begun(case):
        start = had.start
        case = judge.case(changed(wish, start=start))
    else:
        start = wish.start if had is not None and had.start == wish.start else max(wish.start, judge.now)
    limits, length = case.limits, case.length
    most = limits.max_gpus_per_booking
    count = wish.count if most is None or case.is_spontaneous else max(1, min(wish.count, most))
    start = search.allowed_start(start, judge.now, limits) if case.is_start_chosen else start
    return changed(wish, start=start, end=search.end_of(start, length, limits), count=count)


def _is_any_left(asked: Asked, bases: tuple[Wish, ...]) -> bool:
    """Whether anything at all can be had: if not, nothing need be looked for. A change may give back."""
    soonest = bases[-1]
    is_change = asked.judge.case(soonest).changing is not None
    return is_change or asked.first(_least(asked, soonest, 1), soonest.start) is not None


# --- what it is made of ----------------------------------------------------------------------------------


def _apart(asked: Asked, wish: Wish) -> Iterator[Wish]:
    """The next starts, a day or a booking's length apart."""
    limits = asked.judge.case(wish).limits

    def following(found: Wish) -> datetime:
        return min(spans.after(found.start, Span(days=1), limits.tz), found.end)

    return _following(asked, wish, following)


def _a_step_apart(asked: Asked, wish: Wish) -> Iterator[Wish]:
    """The next starts on the policy's steps, or an hour apart."""
    has_steps = asked.judge.case(wish).limits.granularity is not None
    after = timedelta(seconds=1) if has_steps else timedelta(hours=1)
    return _following(asked, wish, lambda found: found.start + after)


def _following(asked: Asked, wish: Wish, not_before: Callable[[Wish], datetime]) -> Iterator[Wish]:
    found = asked.first(wish, wish.start)
    for _ in range(MOST):
        if found is None:
            return
        yield found
        found = asked.first(wish, not_before(found))


def _shorter_some_time(asked: Asked, wish: Wish) -> Iterator[Wish]:
    """As long as can be had at any time; then the next starts of all, for as long as can be had there."""
    lasting = Lasting.of(asked.judge, wish)
    found = largest(lasting.most, lambda units: asked.first(lasting.made(units), wish.start) is not None)
    if found:
        yield from _apart(asked, lasting.made(found))
    for each in _apart(asked, _least(asked, wish, wish.count)):
        yield from islice(_shorter(asked, _begun(asked, wish, each)), 1)
        yield each


def _fewer_some_time(asked: Asked, wish: Wish) -> Iterator[Wish]:
    """As many as can be had at any time."""
    found = largest(
        asked.fewer(wish), lambda count: asked.first(changed(wish, count=count), wish.start) is not None
    )
    if found:
        yield from _apart(asked, changed(wish, count=found))


def _shorter(asked: Asked, wish: Wish, unit: int = 0) -> Iterator[Wish]:
    """From the same start in whole units (days, hours or steps), the longest that can be had first."""
    lasting = Lasting.of(asked.judge, wish, unit)
    found = largest(lasting.most, lambda units: asked.fits(lasting.made(units)))
    yield from (lasting.made(units) for units in range(found, 0, -1))


def _fewer(asked: Asked, wish: Wish) -> Iterator[Wish]:
    """At the same time, the most that can be had first."""
    found = largest(asked.fewer(wish), lambda count: asked.fits(changed(wish, count=count)))
    yield from (changed(wish, count=count) for count in range(found, 0, -1))


def _least(asked: Asked, wish: Wish, count: int) -> Wish:
    """The shortest booking of so many GPUs."""
    case = asked.judge.case(wish)
    if has_begun(case):
        return Lasting.of(asked.judge, changed(wish, count=count), step_of(case.limits)).made(1)
    return changed(wish, end=search.end_of(wish.start, Span(), case.limits), count=count)


def _begun(asked: Asked, wish: Wish, found: Wish) -> Wish:
    """The whole wish, begun when another can be, and for as many GPUs."""
    return begun_at(changed(wish, count=found.count), found.start, asked.judge.case(wish))
