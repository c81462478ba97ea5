"""Which rule acts on which call."""

import pytest

from devcluster.faultproxy.calls import Call
from devcluster.faultproxy.rules import PASS, FaultAnswer, Lose, Match, Refuse, Rule, Rules

PODS = "/api/v1/namespaces/team/pods"
CONFLICT = FaultAnswer(code=409, reason="Conflict")


def call(verb: str = "PATCH", target: str = f"{PODS}/p", caller: str = "controller") -> Call:
    return Call(verb=verb, target=target, caller=caller)


def acted(rules: Rules, times: int = 12) -> list[int]:
    """Numbers, from 1, of the calls that did not simply pass."""
    return [n for n in range(1, times + 1) if rules.decide(call()).action is not PASS]


@pytest.mark.parametrize(
    ("match", "yes"),
    [
        (Match(), True),
        (Match(callers=frozenset({"controller", "extender"})), True),
        (Match(callers=frozenset({"extender"})), False),
        (Match(verbs=frozenset({"PATCH"})), True),
        (Match(verbs=frozenset({"POST"})), False),
        (Match(resource="pods"), True),
        (Match(resource="nodes"), False),
        (Match(subresource=""), True),
        (Match(subresource="binding"), False),
        (Match(namespace="team", name="p"), True),
        (Match(namespace="other"), False),
        (Match(name="q"), False),
        (Match(step="PATCH pods"), True),
        (Match(step="PATCH pods +hold"), False),
        (Match(also=lambda c: c.caller.startswith("con")), True),
        (Match(also=lambda c: bool(c.body)), False),
        (Match(watch=True), False),
    ],
)
def test_a_match_compares_only_the_fields_that_it_names(match: Match, *, yes: bool) -> None:
    assert match(call()) is yes


def test_a_watch_is_matched_by_rules_for_watches_alone() -> None:
    watch = call("GET", f"{PODS}?watch=1")
    assert Match(watch=True)(watch)
    assert not Match()(watch)


@pytest.mark.parametrize(
    ("after", "every", "times", "expected"),
    [
        (0, 1, 1, [1]),
        (3, 1, 1, [4]),
        (0, 1, None, [*range(1, 13)]),
        (0, 5, None, [1, 6, 11]),
        (2, 4, None, [3, 7, 11]),
        (2, 4, 2, [3, 7]),
        (20, 1, None, []),
        (0, 2.6, None, [1, 4, 7, 9, 12]),
        (1, 2.6, 3, [2, 5, 8]),
    ],
)
def test_a_rule_acts_on_the_calls_that_it_is_meant_for(
    after: int, every: float, times: int | None, expected: list[int]
) -> None:
    rule = Rule(match=Match(), action=CONFLICT, after=after, every=every, times=times)
    rules = Rules([rule])
    assert acted(rules) == expected
    assert rules.times(rule) == len(expected)


def test_calls_that_do_not_match_are_not_counted() -> None:
    rules = Rules([Rule(match=Match(resource="nodes"), action=CONFLICT, after=1)])
    assert acted(rules) == []
    nodes = [rules.decide(call(target="/api/v1/nodes/n0")).action for _ in range(3)]
    assert nodes == [PASS, CONFLICT, PASS]


def test_calls_of_each_kind_are_counted_separately_where_a_rule_asks_for_it() -> None:
    rule = Rule(match=Match(), action=CONFLICT, every=2, times=2, per=lambda call: call.place.name)
    rules = Rules([rule])
    order = ["a", "b", "b", "a", "a", "a", "a", "c"]
    names = [name for name in order if rules.decide(call(target=f"{PODS}/{name}")).action is CONFLICT]
    assert names == ["a", "b", "a", "c"]
    assert rules.times(rule) == 4


def test_the_first_of_two_matching_rules_acts_and_both_count_the_call() -> None:
    refuse, lose = Refuse(), Lose()
    first = Rule(match=Match(), action=refuse)
    second = Rule(match=Match(), action=lose, after=1)
    rules = Rules([first, second])
    assert [rules.decide(call()).action for _ in range(3)] == [refuse, lose, PASS]
    assert (rules.times(first), rules.times(second)) == (1, 1)


def test_calls_are_recorded_in_order_until_the_rules_are_set_again() -> None:
    rules = Rules([Rule(match=Match(verbs=frozenset({"POST"})), action=CONFLICT)])
    rules.decide(call()).status = 200
    rules.decide(call("POST", PODS)).status = 409
    rules.decide(call("GET", PODS))
    assert [(r.call.step, r.action, r.status) for r in rules.records] == [
        ("PATCH pods", PASS, 200),
        ("POST pods", CONFLICT, 409),
        ("GET pods", PASS, None),
    ]
    rules.set()
    assert not rules.records
    assert rules.decide(call("POST", PODS)).action is PASS
