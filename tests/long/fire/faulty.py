"""What is done to answers of the API server, case by case: rules of the proxy. Pure.

Controller, extender and booking server have cases of their own, and node agents and kube-scheduler, their
neighbours, have others: these ask so rarely that what they have to do belongs to the case.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

from cluster import names
from devcluster.faultproxy import Call, Cut, FaultAnswer, Lose, Match, Refuse, Rule, Slow, Stall
from devcluster.faultproxy.rules import PASS
from tests.long.fire.give_and_take import HERS
from tests.long.fire.points import CALLERS

OURS: Final = frozenset(CALLERS)
AGENTS: Final = frozenset({names.NODE_AGENT})
SCHEDULER: Final = frozenset({"kube-scheduler"})
"""As kube-scheduler calls itself. The cluster's own one is not behind the proxy."""

Fault = FaultAnswer | Lose | Refuse | Slow
CONFLICT: Final = FaultAnswer(code=409, reason="Conflict")
GONE: Final = FaultAnswer(code=410, reason="Expired")
OVERLOAD: Final = FaultAnswer(code=429, reason="TooManyRequests", retry_after=1)
BROKEN: Final = FaultAnswer(code=500, reason="InternalError")
LATE: Final = Slow(seconds=0.7)
IRREGULAR: Final = 3 + 5**0.5
"""About every fifth call; no loop of ours keeps step with it, which would always fail at the same call."""
OFTEN: Final = (3 + 5**0.5) / 2
"""About two of five, which no loop keeps step with either."""
REFUSABLE: Final = ("POST pods/eviction", "POST podtemplates")
"""Refused once each: when the eviction of a pod is refused for the third time, another one has to go."""
UNREFUSABLE: Final = frozenset({*REFUSABLE, "PATCH pods +notice +comeback +finalizers"})
BIND: Final = "POST pods/binding"


def often(fault: Fault, wanted: Callable[[Call], bool] = lambda _call: True) -> tuple[Rule, ...]:
    """About every fifth call of all three parts together, reads as well; the first bind is one of them."""
    leaving = Match(callers=OURS, also=lambda call: call.step in UNREFUSABLE)
    return (
        *first_times(fault, 1, (*REFUSABLE, BIND)),
        Rule(match=leaving, action=PASS, times=None),
        Rule(match=Match(callers=OURS, also=wanted), action=fault, every=IRREGULAR, times=None),
    )


def first_times(fault: Fault, times: int, steps: Sequence[str]) -> tuple[Rule, ...]:
    """Calls of each of these kinds fail so many times in a row, and then no more."""
    return tuple(Rule(match=Match(callers=OURS, step=step), action=fault, times=times) for step in steps)


ANSWERS: Final[Mapping[str, tuple[Rule, ...]]] = {
    "every fifth write is answered 409": often(CONFLICT, lambda call: call.is_write),
    "every fifth call is answered 429": often(OVERLOAD),
    "every fifth call is answered 500": often(BROKEN),
    "the answer to every fifth call is lost": often(Lose()),
    "every fifth call gets no connection": often(Refuse()),
    "what brings a pod back, and what a booking is written by, fails for a while": first_times(
        BROKEN, 4, ("POST pods", "POST bookings", "PATCH bookings/status +back +ending")
    ),
}
SLOW: Final[Mapping[str, tuple[Rule, ...]]] = {
    "every fourth call is late, and the answer to every fourth": (
        Rule(match=Match(callers=OURS), action=Slow(seconds=0.5), every=4, times=None),
        Rule(
            match=Match(callers=OURS),
            action=Slow(seconds=0.5, forwarded_late=True),
            after=2,
            every=4,
            times=None,
        ),
    ),
    "callers have given up when the answer comes, or when the call gets there": (
        Rule(
            match=Match(subresource="binding", also=lambda call: call.place.name.startswith(HERS)),
            action=Slow(seconds=4.0, forwarded_late=True),
        ),
        Rule(match=Match(callers=OURS, step="POST podtemplates"), action=Slow(seconds=16.0)),
    ),
}


# --- watches -------------------------------------------------------------------------------------------
def is_resumed(call: Call) -> bool:
    """A watch that goes on where another has ended, without a list before it."""
    return "sendInitialEvents" not in call.query


def begins_again(call: Call) -> bool:
    """A watch that is a list as well."""
    return not is_resumed(call)


def watches(
    action: Fault | Cut | Stall, *, callers: frozenset[str] = OURS, after: int = 0, every: float = 1
) -> Rule:
    """Watches of theirs that go on."""
    match = Match(callers=callers, watch=True, also=is_resumed)
    return Rule(match=match, action=action, after=after, every=every, times=None)


def gaps(*, callers: frozenset[str] = OURS, seconds: float = 0.0) -> tuple[Rule, ...]:
    """Watches cannot go on where they were, and those that can end after three events."""
    return (
        watches(GONE, callers=callers, every=2),
        watches(Cut(events=3, seconds=seconds), callers=callers, after=1, every=2),
    )


def openings(fault: Fault, first: Fault | None = None, *, callers: frozenset[str] = OURS) -> tuple[Rule, ...]:
    """No watch opens at once.

    One that would go on does not open, then must begin again, then does not open once more, because of
    another fault where one is named. So it goes with each of them: by chance one would fail many times in a
    row, and wait half a minute for its next attempt.
    """
    resumed = Match(callers=callers, watch=True, also=is_resumed)
    begun = Match(callers=callers, watch=True, also=begins_again)
    return (
        Rule(match=resumed, action=fault, every=2, times=None, per=one_watch),
        Rule(match=resumed, action=GONE, times=None),
        Rule(match=begun, action=first or fault, every=2, times=None, per=one_watch),
    )


def one_watch(call: Call) -> Hashable:
    """Whose watch of what it is, wherever it begins."""
    selectors = (call.query.get("fieldSelector"), call.query.get("labelSelector"))
    return (call.caller, call.place, *selectors)


WATCHES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "watches end after a gap, again and again": (watches(Cut(events=3, seconds=0.5)),),
    "watches end after every event": (watches(Cut(events=1, seconds=0.7)),),
    "watches bring their events late": (watches(Stall(events=1, seconds=2.0)),),
    "watches cannot go on where they were, and end": gaps(),
}
OPENINGS: Final[Mapping[str, tuple[Rule, ...]]] = {
    "watches are answered 429": openings(OVERLOAD),
    "watches are answered 500": openings(BROKEN),
    "the answers to watches are lost": openings(Lose()),
    "watches get no connection": openings(Refuse()),
    "watches open late": openings(LATE, Slow(seconds=0.7, forwarded_late=True)),
}


# --- node agents and kube-scheduler --------------------------------------------------------------------
def _of_neighbours(
    fault: Fault, agents: tuple[Rule, ...], scheduler: tuple[Rule, ...], *, writes: Fault | None = None
) -> tuple[Rule, ...]:
    """Of node agents two of five calls of each kind, of kube-scheduler about every fifth, and watches.

    Args:
        fault: of their calls.
        agents: what becomes of the agents' watches.
        scheduler: the same of kube-scheduler's.
        writes: of the agents' writes, where it is another one.
    """
    kinds = (
        Match(callers=AGENTS, resource="leases", also=lambda call: call.is_write),
        Match(callers=AGENTS, resource="nodes", also=lambda call: call.is_write),
    )
    return (
        *agents,
        *(Rule(match=kind, action=writes or fault, every=OFTEN, times=None) for kind in kinds),
        Rule(match=Match(callers=AGENTS, verbs=frozenset({"GET"})), action=fault, every=OFTEN, times=None),
        *scheduler,
        Rule(match=Match(callers=SCHEDULER, resource="pods", subresource="status"), action=fault),
        Rule(match=Match(callers=SCHEDULER), action=fault, every=IRREGULAR, times=None),
    )


def _unopened(fault: Fault) -> tuple[Rule, ...]:
    agents, scheduler = (openings(fault, callers=callers) for callers in (AGENTS, SCHEDULER))
    return _of_neighbours(fault, agents, scheduler)


def _interrupted(fault: Fault, *, writes: Fault) -> tuple[Rule, ...]:
    agents, scheduler = (gaps(callers=callers, seconds=0.5) for callers in (AGENTS, SCHEDULER))
    return _of_neighbours(fault, agents, scheduler, writes=writes)


NEIGHBOURS: Final[Mapping[str, tuple[Rule, ...]]] = {
    "node agents and kube-scheduler are answered 429": _unopened(OVERLOAD),
    "node agents and kube-scheduler are answered 500": _unopened(BROKEN),
    "answers to node agents and kube-scheduler are lost": _unopened(Lose()),
    "node agents and kube-scheduler get no connection": _unopened(Refuse()),
    "answers to node agents and kube-scheduler are late": _unopened(LATE),
    "watches of theirs end, or cannot go on, and writes of node agents are answered 409": _interrupted(
        LATE, writes=CONFLICT
    ),
}
