"""Alternatives to a refused request. Pure.

Every alternative has passed ``evaluate`` before it is offered: a user who takes it at once gets it.

Requests that differ in one respect come first, then the same request at other times, then smaller ones. Last
comes the whole neighbourhood: any model that the user may book, from 1 GPU up to the requested count, from
the shortest booking up to the requested length, at any start. Lengths and starts are on the policy's steps,
or on hours where it has none. Wherever three of these would be accepted, three are offered, as far as
a model's free capacity is known without a search, and as far as ``QUESTIONS`` suffice.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, Literal

import msgspec

from booking import durations
from booking.durations import Duration
from booking.server.evaluation import start_rules
from booking.server.evaluation.proposals import (
    CachedJudge,
    Judge,
    Lengths,
    Proposal,
    begun_at,
    changed,
    has_begun,
    largest,
    step_of,
)
from booking.server.rule_context import RuleContext
from booking.server.rules import REQUESTER_RULES
from cluster import names

MOST: Final = 3
Why = Literal["within-limits", "later", "several-nodes", "shorter", "fewer-gpus", "other-model", "earlier"]
"""The difference from the request: changed as little as the limits demand, a later start, several nodes
instead of one, ... Of several differences the most important counts: another model, fewer GPUs, shorter."""


class Alternative(Proposal, frozen=True, kw_only=True):
    """A request that would be accepted now."""

    why: Why


Candidates = Iterator[tuple[Why, Proposal]]
"""Proposals that could be offered, each with its difference from the request."""


def makes_sense(proposal: Proposal) -> bool:
    """Whether it is for at least one GPU and longer than zero."""
    return proposal.count > 0 and proposal.start < proposal.end


def find(judge: Judge, proposal: Proposal) -> tuple[Alternative, ...]:
    """Up to three requests that would be accepted, most similar first. None if the request makes no sense.

    Args:
        judge: evaluates proposals.
        proposal: the refused request.
    """
    return tuple(islice(_accepted(CachedJudge(judge), proposal), MOST)) if makes_sense(proposal) else ()


def _accepted(cache: CachedJudge, proposal: Proposal) -> Iterator[Alternative]:
    seen = {_shown(proposal)}
    offered: list[Proposal] = []
    for why, candidate in _candidates(cache, proposal, offered):
        is_new = _shown(candidate) not in seen and _is_worthwhile(cache.judge, candidate, proposal)
        if is_new and cache.fits(candidate) and cache.judge.is_accepted(candidate):
            offered.append(candidate)
            yield Alternative(**msgspec.structs.asdict(candidate), why=why)
        seen.add(_shown(candidate))


def _shown(proposal: Proposal) -> Proposal:
    """The proposal in the form that people can distinguish: one GPU is always on one node."""
    return changed(proposal, topology="any") if proposal.count == 1 else proposal


def _is_worthwhile(judge: Judge, candidate: Proposal, proposal: Proposal) -> bool:
    """Whether it is more than the user already has, where the user asks for more of it."""
    case = judge.case(candidate)
    return case.is_start_chosen or not case.gives_back or judge.case(proposal).gives_back


# --- the order in which they are offered -----------------------------------------------------------------


def _candidates(cache: CachedJudge, proposal: Proposal, offered: Sequence[Proposal]) -> Candidates:
    """Candidates in the order of their offer, searched for only when needed; ``offered`` grows meanwhile."""
    judge = cache.judge
    models = [
        model
        for model in judge.models
        if _is_like(model, proposal.model) and _may_ask(judge.case(changed(proposal, model=model)))
    ]
    bases = {model: _bases(judge, changed(proposal, model=model)) for model in models}
    mine = bases.pop(proposal.model, None)
    own = [mine] if mine is not None and _is_any_left(cache, mine) else []
    for like, *_ in own:
        yield from _with_one_change(cache, like)
    others = [each for each in bases.values() if _is_any_left(cache, each)]
    yield from (("other-model", like) for like, *_ in others)
    for each in own:
        yield from _at_other_times(cache, *each)
    for like, *_ in others:
        yield from (("other-model", each) for each in _apart(cache, like))
    every = [(each[0], base) for each in (*own, *others) for base in each]
    for like, base in every:
        for less in _less(cache, base):
            if not any(_is_part(less, each) for each in offered):
                yield _why(judge, less, like, proposal), less
    for variants in (_parts, _odd):
        for like, base in every:
            yield from ((_why(judge, less, like, proposal), less) for less in variants(cache, base))


def _is_like(model: str, wanted: str) -> bool:
    """Whether work for one model may run on the other: MIG devices are no alternative to whole GPUs."""
    return names.mig_profile(model) is None or names.mig_profile(wanted) is not None


def _with_one_change(cache: CachedJudge, like: Proposal) -> Candidates:
    yield "within-limits", like
    yield from (("later", each) for each in islice(_apart(cache, like), 1))
    if _may_span_nodes(cache.judge, like):
        yield "several-nodes", changed(like, topology="any")
    yield from (("shorter", each) for each in islice(_shorter(cache, like), 1))
    yield from (("fewer-gpus", each) for each in islice(_fewer(cache, like), 1))


def _at_other_times(cache: CachedJudge, like: Proposal, *from_now: Proposal) -> Candidates:
    """One earlier start, then all later ones, then all earlier ones; last on several nodes, or fewer GPUs."""

    def earlier(most: int) -> Candidates:
        starts = (each for base in from_now for each in islice(_apart(cache, base), most))
        return (("earlier", each) for each in starts if each.start < like.start)

    yield from earlier(1)
    yield from (("later", each) for each in _apart(cache, like))
    yield from earlier(MOST)
    if _may_span_nodes(cache.judge, like):
        yield from (("several-nodes", each) for each in _apart(cache, changed(like, topology="any")))
    yield from (("fewer-gpus", each) for each in _fewer_some_time(cache, like))


def _less(cache: CachedJudge, base: Proposal) -> Iterator[Proposal]:
    """Shorter, then fewer, then both, at the next starts: as much as is available at any of them."""
    yield from _shorter_some_time(cache, base)
    yield from _fewer_some_time(cache, base)
    most = largest(
        cache.fewer(base), lambda count: cache.first(_least(cache, base, count), base.start) is not None
    )
    if most:
        yield from _shorter_some_time(cache, changed(base, count=most))


def _parts(cache: CachedJudge, base: Proposal) -> Iterator[Proposal]:
    """More candidates, even parts of those already offered: shorter from the same start, or fewer GPUs."""
    for count in sorted({base.count, 1}, reverse=True):
        for found in _apart(cache, _least(cache, base, count)):
            yield from islice(_shorter(cache, _begun(cache, base, found)), MOST)
            yield from islice(_fewer(cache, changed(found, count=base.count)), MOST)


def _odd(cache: CachedJudge, base: Proposal) -> Iterator[Proposal]:
    """More candidates, including those that begin a step after one already offered, or last a step less."""
    step = step_of(cache.judge.case(base).limits)
    for count in sorted({base.count, 1}, reverse=True):
        starts = [*_a_step_apart(cache, _least(cache, base, count))]
        yield from starts
        for found in starts[: MOST - 1]:
            # On a day of 23 hours two of them are equal.
            yield from islice(_shorter(cache, _begun(cache, base, found), step), MOST + 1)


def _is_part(less: Proposal, more: Proposal) -> bool:
    """Whether it begins with the other one, and exceeds it neither in end nor in count."""
    is_like_it = (less.model, less.start) == (more.model, more.start)
    return is_like_it and less.end <= more.end and less.count <= more.count


def _why(judge: Judge, less: Proposal, like: Proposal, proposal: Proposal) -> Why:
    if less.model != proposal.model:
        return "other-model"
    if less.count < like.count:
        return "fewer-gpus"
    if judge.case(less).length.nominal < judge.case(like).length.nominal:
        return "shorter"
    return "earlier" if less.start < proposal.start else "later"


# --- where the search begins, and for which models -------------------------------------------------------


def _may_ask(case: RuleContext) -> bool:
    return not any(rule(case) for rule in REQUESTER_RULES)


def _may_span_nodes(judge: Judge, proposal: Proposal) -> bool:
    """Whether the GPUs may be on several nodes instead of one.

    The topology is fixed when GPUs are booked: a change cannot alter it.
    """
    return proposal.count > 1 and judge.case(changed(proposal, topology="any")).changing is None


def _bases(judge: Judge, proposal: Proposal) -> tuple[Proposal, ...]:
    """As much of the request as the limits allow; if that begins later, also as much of it from now on."""
    like, case = _within_limits(judge, proposal), judge.case(proposal)
    soon = _within_limits(
        judge, changed(proposal, start=judge.now, end=durations.after(judge.now, case.length, case.limits.tz))
    )
    return (like, soon) if soon.start < like.start else (like,)


def _within_limits(judge: Judge, proposal: Proposal) -> Proposal:
    """As much of the request as the limits on its shape allow: not in the past, not too long, not too large.

    A running booking keeps its start.
    """
    case = judge.case(proposal)
    had = case.changing
    if had is not None and has_begun(case):
        start = had.start
        case = judge.case(changed(proposal, start=start))
    else:
        start = (
            proposal.start
            if had is not None and had.start == proposal.start
            else max(proposal.start, judge.now)
        )
    limits, length = case.limits, case.length
    most = limits.max_gpus_per_booking
    count = proposal.count if most is None or case.is_spontaneous else max(1, min(proposal.count, most))
    start = start_rules.allowed_start(start, judge.now, limits) if case.is_start_chosen else start
    return changed(proposal, start=start, end=start_rules.end_of(start, length, limits), count=count)


def _is_any_left(cache: CachedJudge, bases: tuple[Proposal, ...]) -> bool:
    """Whether anything is available at all: if not, the search can be skipped. A change may give back."""
    soonest = bases[-1]
    is_change = cache.judge.case(soonest).changing is not None
    return is_change or cache.first(_least(cache, soonest, 1), soonest.start) is not None


# --- building blocks -------------------------------------------------------------------------------------


def _apart(cache: CachedJudge, proposal: Proposal) -> Iterator[Proposal]:
    """The next starts, a day or a booking's length apart."""
    limits = cache.judge.case(proposal).limits

    def following(found: Proposal) -> datetime:
        return min(durations.after(found.start, Duration(days=1), limits.tz), found.end)

    return _following(cache, proposal, following)


def _a_step_apart(cache: CachedJudge, proposal: Proposal) -> Iterator[Proposal]:
    """The next starts on the policy's steps, or an hour apart."""
    has_steps = cache.judge.case(proposal).limits.granularity is not None
    after = timedelta(seconds=1) if has_steps else timedelta(hours=1)
    return _following(cache, proposal, lambda found: found.start + after)


def _following(
    cache: CachedJudge, proposal: Proposal, not_before: Callable[[Proposal], datetime]
) -> Iterator[Proposal]:
    found = cache.first(proposal, proposal.start)
    for _ in range(MOST):
        if found is None:
            return
        yield found
        found = cache.first(proposal, not_before(found))


def _shorter_some_time(cache: CachedJudge, proposal: Proposal) -> Iterator[Proposal]:
    """The longest booking that fits at any time, then the next starts, each as long as fits there."""
    lasting = Lengths.of(cache.judge, proposal)
    found = largest(lasting.most, lambda units: cache.first(lasting.made(units), proposal.start) is not None)
    if found:
        yield from _apart(cache, lasting.made(found))
    for each in _apart(cache, _least(cache, proposal, proposal.count)):
        yield from islice(_shorter(cache, _begun(cache, proposal, each)), 1)
        yield each


def _fewer_some_time(cache: CachedJudge, proposal: Proposal) -> Iterator[Proposal]:
    """The largest number of GPUs that is available for the whole length at some time, at its next starts."""
    found = largest(
        cache.fewer(proposal),
        lambda count: cache.first(changed(proposal, count=count), proposal.start) is not None,
    )
    if found:
        yield from _apart(cache, changed(proposal, count=found))


def _shorter(cache: CachedJudge, proposal: Proposal, unit: int = 0) -> Iterator[Proposal]:
    """From the same start in whole units (days, hours or steps), the longest available length first."""
    lasting = Lengths.of(cache.judge, proposal, unit)
    found = largest(lasting.most, lambda units: cache.fits(lasting.made(units)))
    yield from (lasting.made(units) for units in range(found, 0, -1))


def _fewer(cache: CachedJudge, proposal: Proposal) -> Iterator[Proposal]:
    """At the same time, the largest available number first."""
    found = largest(cache.fewer(proposal), lambda count: cache.fits(changed(proposal, count=count)))
    yield from (changed(proposal, count=count) for count in range(found, 0, -1))


def _least(cache: CachedJudge, proposal: Proposal, count: int) -> Proposal:
    """The shortest booking of ``count`` GPUs."""
    case = cache.judge.case(proposal)
    if has_begun(case):
        return Lengths.of(cache.judge, changed(proposal, count=count), step_of(case.limits)).made(1)
    return changed(proposal, end=start_rules.end_of(proposal.start, Duration(), case.limits), count=count)


def _begun(cache: CachedJudge, proposal: Proposal, found: Proposal) -> Proposal:
    """The whole request, with the start and the GPU count of another proposal."""
    return begun_at(changed(proposal, count=found.count), found.start, cache.judge.case(proposal))
