"""At which calls a part is killed, and how often."""

import json
from typing import Any

import pytest

from cluster import names
from devcluster.faultproxy import Call, Lose, Record, Refuse, Rules
from devcluster.faultproxy.rules import PASS
from tests.long.fire.points import SIDES, Point, created, point_of, points_of

PODS = "/api/v1/namespaces/team/pods"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{names.NAMESPACE}/leases/l"
HOLD = {"metadata": {"annotations": {names.HOLD: "{}"}}}
AT_HOLD = Point(names.CONTROLLER, "PATCH pods +hold")


def call(verb: str, target: str, caller: str = names.CONTROLLER, body: dict[str, Any] | None = None) -> Call:
    return Call(verb=verb, target=target, caller=caller, body=json.dumps(body or {}).encode())


@pytest.mark.parametrize(
    ("one", "point"),
    [
        (call("PATCH", f"{PODS}/hers-1", body=HOLD), AT_HOLD),
        (call("PATCH", LEASE, names.BOOKING_SERVER), Point(names.BOOKING_SERVER, "its Lease")),
        (
            call("POST", f"{PODS}/hers-1/binding", names.EXTENDER),
            Point(names.EXTENDER, "POST pods/binding"),
        ),
        (call("POST", f"{PODS}/his-1/binding", names.EXTENDER), None),
        (call("PATCH", LEASE), None),
        (call("GET", PODS), None),
        (call("POST", "/api/v1/namespaces/team/events"), None),
        (call("PATCH", f"{PODS}/hers-1", "kubectl", HOLD), None),
    ],
)
def test_points_are_the_writes_of_ours_that_the_story_needs(one: Call, point: Point | None) -> None:
    assert point_of(one) == point


def test_a_point_is_named_once_however_often_its_call_came() -> None:
    again = [Record(call("PATCH", f"{PODS}/hers-1", body=HOLD), PASS) for _ in range(3)]
    assert points_of(again) == [AT_HOLD]


def test_a_part_is_killed_before_its_first_call_and_after_the_next_one() -> None:
    killed: list[str] = []
    rules = Rules(AT_HOLD.rules(SIDES, killed.append))
    actions = [rules.decide(call("PATCH", f"{PODS}/hers-1", body=HOLD)).action for _ in range(3)]
    assert [type(action) for action in actions[:2]] == [Refuse, Lose]
    assert actions[2] is PASS
    for action in actions[:2]:
        assert isinstance(action, Refuse | Lose)
        action.meanwhile(call("GET", PODS))
    assert killed == ["controller", "controller"]


def test_only_pods_of_ours_that_were_really_created_count_as_created() -> None:
    calls = [
        (call("POST", PODS), 201),
        (call("POST", PODS), 409),
        (call("POST", f"{PODS}?dryRun=All"), 201),
        (call("POST", PODS, "kubectl"), 201),
    ]
    assert created(Record(one, PASS, status) for one, status in calls) == 1
