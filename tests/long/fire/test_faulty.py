"""Whose calls meet which fault."""

from collections.abc import Iterable

import pytest

from cluster import names
from devcluster.faultproxy import Answer, Call, Lose, Refuse, Rule, Rules, Slow
from devcluster.faultproxy.rules import PASS
from tests.long.fire.faulty import ANSWERS, BIND, GONE, NEIGHBOURS, OPENINGS, SCHEDULER, openings

PODS = "/api/v1/namespaces/team/pods"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{names.NAMESPACE}/leases/l"
RESUMED = "/api/v1/nodes?watch=true&resourceVersion=7"
BEGUN = "/api/v1/nodes?watch=true&sendInitialEvents=true"
(KUBE_SCHEDULER,) = SCHEDULER
OF_AGENTS = [("PATCH", LEASE), ("PATCH", "/api/v1/nodes/n0"), ("GET", "/api/v1/nodes/n0")]
OF_SCHEDULER = [("POST", "/apis/events.k8s.io/v1/namespaces/team/events"), ("PATCH", f"{PODS}/hers-1/status")]


def actions(rules: Iterable[Rule], calls: Iterable[tuple[str, str]], caller: str) -> list[object]:
    """What becomes of them, one after the other."""
    deciding = Rules(rules)
    requests = (Call(verb=verb, target=target, caller=caller) for verb, target in calls)
    return [deciding.decide(call).action for call in requests]


def kinds(rules: Iterable[Rule], calls: Iterable[tuple[str, str]], caller: str) -> set[type]:
    return {type(action) for action in actions(rules, calls, caller) if action not in (PASS, GONE)}


@pytest.mark.parametrize("target", [RESUMED, BEGUN])
@pytest.mark.parametrize("caller", [names.CONTROLLER, names.EXTENDER, names.BOOKING_SERVER])
def test_our_new_and_resumed_watches_meet_every_fault(caller: str, target: str) -> None:
    met = [
        action
        for rules in OPENINGS.values()
        for action in actions(rules, [("GET", target)] * 2, caller)
        if action not in (PASS, GONE)
    ]
    assert {type(action) for action in met} == {Answer, Lose, Refuse, Slow}
    assert {action.code for action in met if isinstance(action, Answer)} == {429, 500}


def test_no_watch_can_resume_and_each_opens_at_its_second_attempt_to_start_over() -> None:
    fault = Refuse()
    rules = openings(fault)
    other = RESUMED.replace("nodes", "pods")
    resumed = [("GET", target) for target in (RESUMED, other, RESUMED, other)]
    assert actions(rules, resumed, names.EXTENDER) == [fault, fault, GONE, GONE]
    begun = [("GET", target) for target in (BEGUN, BEGUN, f"{BEGUN}&fieldSelector=a", BEGUN)]
    assert actions(rules, begun, names.EXTENDER) == [fault, PASS, fault, fault]
    assert actions(rules, resumed, "kubectl") == [PASS] * 4


@pytest.mark.parametrize("rules", [rules for name, rules in ANSWERS.items() if name.startswith("every")])
def test_the_first_bind_meets_every_fault(rules: tuple[Rule, ...]) -> None:
    bind = Call(verb="POST", target=f"{PODS}/hers-1/binding", caller=names.EXTENDER)
    assert bind.step == BIND
    deciding = Rules(rules)
    assert deciding.decide(bind).action is not PASS


@pytest.mark.parametrize("rules", NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_every_kind_of_call_of_a_node_agent_and_of_kube_scheduler_meets_a_fault(
    rules: tuple[Rule, ...],
) -> None:
    watching = [("GET", RESUMED), ("GET", RESUMED), ("GET", BEGUN)]
    deciding = Rules(rules)
    for verb, target in (*OF_AGENTS, *watching):
        deciding.decide(Call(verb=verb, target=target, caller=names.NODE_AGENT))
    for verb, target in (*OF_SCHEDULER, *watching):
        deciding.decide(Call(verb=verb, target=target, caller=KUBE_SCHEDULER))
    assert all(deciding.times(rule) for rule in rules)
    assert actions(rules, [*OF_AGENTS, *OF_SCHEDULER, *watching], names.EXTENDER) == [PASS] * 8


def test_node_agents_and_kube_scheduler_meet_every_fault() -> None:
    for caller, calls in ((names.NODE_AGENT, OF_AGENTS), (KUBE_SCHEDULER, OF_SCHEDULER)):
        met = set().union(*(kinds(rules, calls, caller) for rules in NEIGHBOURS.values()))
        assert met == {Answer, Lose, Refuse, Slow}
