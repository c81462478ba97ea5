"""Wrong, late, lost and missing answers of the API server to controller, extender and booking server.

The story of `give_and_take` ends the same each time, and the laws are watched. People and kubelets are
answered as usual.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from devcluster.demo.reporter import Reporter
from devcluster.faultproxy import Answer, Call, Cut, Lose, Match, Refuse, Rule, Slow, Stall
from devcluster.faultproxy.rules import PASS
from tests.e2e.persons import Person
from tests.e2e.playground import Playground
from tests.e2e.testbed import Testbed
from tests.laws.live import LiveWatch
from tests.long.fire.give_and_take import AS_IT_SHOULD, HERS, GiveAndTake, Moment
from tests.long.fire.points import CALLERS, created
from tests.long.fire.proxied import Proxied, proxied

pytestmark = pytest.mark.e2e

OURS = frozenset(CALLERS)
Fault = Answer | Lose | Refuse
CONFLICT = Answer(code=409, reason="Conflict")
GONE = Answer(code=410, reason="Expired")
OVERLOAD = Answer(code=429, reason="TooManyRequests", retry_after=1)
BROKEN = Answer(code=500, reason="InternalError")
IRREGULAR = 3 + 5**0.5
"""About every fifth call; no loop of ours keeps step with it, which would fail at the same call for ever."""
REFUSABLE = ("POST pods/eviction", "POST podtemplates")
"""Refused once each: when the eviction of a pod is refused for the third time, another one has to go."""
UNREFUSABLE = frozenset({*REFUSABLE, "PATCH pods +notice +comeback +finalizers"})


def often(fault: Fault, wanted: Callable[[Call], bool] = lambda _call: True) -> tuple[Rule, ...]:
    """About every fifth call of all three parts together, reads as well."""
    leaving = Match(callers=OURS, also=lambda call: call.step in UNREFUSABLE)
    return (
        *first_times(fault, 1, REFUSABLE),
        Rule(match=leaving, action=PASS, times=None),
        Rule(match=Match(callers=OURS, also=wanted), action=fault, every=IRREGULAR, times=None),
    )


def first_times(fault: Fault, times: int, steps: Sequence[str]) -> tuple[Rule, ...]:
    """Calls of each of these kinds fail so many times in a row, and then no more."""
    return tuple(Rule(match=Match(callers=OURS, step=step), action=fault, times=times) for step in steps)


ANSWERS: Mapping[str, tuple[Rule, ...]] = {
    "every fifth write is answered 409": often(CONFLICT, lambda call: call.is_write),
    "every fifth call is answered 429": often(OVERLOAD),
    "every fifth call is answered 500": often(BROKEN),
    "the answer to every fifth call is lost": often(Lose()),
    "every fifth call gets no connection": often(Refuse()),
    "what brings a pod back, and what a booking is written by, fails for a while": first_times(
        BROKEN, 4, ("POST pods", "POST bookings", "PATCH bookings/status +back +ending")
    ),
}
SLOW: Mapping[str, tuple[Rule, ...]] = {
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


def is_resumed(call: Call) -> bool:
    """A watch that goes on where another has ended, without a list before it."""
    return "sendInitialEvents" not in call.query


def watches(action: Answer | Cut | Stall, *, after: int = 0, every: int = 1) -> Rule:
    match = Match(callers=OURS, watch=True, also=is_resumed)
    return Rule(match=match, action=action, after=after, every=every, times=None)


WATCHES: Mapping[str, tuple[Rule, ...]] = {
    "watches end after a gap, again and again": (watches(Cut(events=3, seconds=0.5)),),
    "watches end after every event": (watches(Cut(events=1, seconds=0.7)),),
    "watches bring their events late": (watches(Stall(events=1, seconds=2.0)),),
    "watches cannot go on where they were, and end": (
        watches(GONE, every=2),
        watches(Cut(events=3), after=1, every=2),
    ),
}


class Disturbed:
    """A story with faulty answers in it."""

    def __init__(self, behind: Proxied, story: GiveAndTake, laws: LiveWatch) -> None:
        self._behind = behind
        self._story = story
        self._laws = laws
        self._reporter = Reporter(sys.stdout)

    def tell(self, name: str, rules: tuple[Rule, ...], reached: Callable[[Moment], object]) -> None:
        """Once, with these rules from its beginning to its end."""
        proxy = self._behind.proxy

        def on(moment: Moment) -> None:
            if moment == "begun":
                proxy.rules.set(*rules)
            reached(moment)

        self._say(name)
        try:
            assert self._story.tell(on) == AS_IT_SHOULD, name
            acted = [proxy.rules.times(rule) for rule in rules]
            assert all(acted), f"{name}: {acted}"
            assert created(proxy.rules.records) == 2, f"{name}: pods that were created"
            self._say(f"{len(proxy.rules.records)} calls, {acted} of them gone wrong")
        finally:
            proxy.rules.set()
        assert not self._behind.fallen()

    def _say(self, line: str) -> None:
        self._laws.fault(line)
        self._reporter.say("answers", line)


@pytest.fixture(scope="module")
def behind(testbed: Testbed) -> Iterator[Proxied]:
    with proxied(testbed.cluster, testbed.parts) as running, testbed.pinned():
        yield running


@pytest.fixture
def disturbed(
    behind: Proxied, alice: Person, bob: Person, playground: Playground, laws: LiveWatch
) -> Disturbed:
    return Disturbed(behind, GiveAndTake(alice, bob, playground, "node-a"), laws)


def undisturbed(_moment: Moment) -> None:
    """Nothing more happens."""


def test_answers_that_are_wrong_or_lost_do_not_change_the_end(disturbed: Disturbed) -> None:
    for name, rules in ANSWERS.items():
        disturbed.tell(name, rules, undisturbed)


def test_answers_that_are_late_do_not_change_the_end(disturbed: Disturbed) -> None:
    for name, rules in SLOW.items():
        disturbed.tell(name, rules, undisturbed)


def test_watches_with_gaps_do_not_change_the_end(behind: Proxied, disturbed: Disturbed) -> None:
    for name, rules in WATCHES.items():
        disturbed.tell(name, rules, lambda _moment: behind.proxy.cut_watches())
