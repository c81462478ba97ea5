"""A pod that other webhooks have changed after our first review: what it requests in the end decides."""

from copy import deepcopy
from typing import Any

import pytest

from booking.controller.admission.review import REMOVED, Outcome
from cluster import names
from cluster.objects.replaced_fields import replaced_in
from tests.booking.controller.admission.fake_cluster_view import (
    HUB,
    OURSELVES,
    FakeClusterView,
    Json,
    a_pod,
    annotations,
    reviewed,
)

UNTIL = "2026-11-27T09:00:00Z"
OF_ALICE = {names.HUB_USER: "alice"}
OF_BOB = {names.HUB_USER: "bob"}
GIVEN = {"schedulerName": "mine", "priorityClassName": "batch"}


def first(pod: Json, creator: str = HUB, **settings: Any) -> Json:
    """As the API server passes it on to other webhooks: the class counts, what was computed is dropped."""
    after, _ = reviewed(pod, creator, **settings)
    return after


def last(
    pod: Json, creator: str = HUB, view: FakeClusterView | None = None, **settings: Any
) -> tuple[Json, Outcome]:
    return reviewed(pod, creator, view, is_last=True, **settings)


def requesting(pod: Json, amounts: Json) -> Json:
    """As another webhook leaves it."""
    changed = deepcopy(pod)
    changed["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}
    return changed


@pytest.mark.parametrize("amounts", [{}, {names.GPU_RESOURCE: "0"}, {"example.org/gpu-slice": "1"}])
@pytest.mark.parametrize("whose", [OF_ALICE, OF_BOB], ids=["booked", "not booked"])
def test_without_its_gpu_a_pod_loses_our_class_scheduler_and_cover_and_says_why(
    whose: Json, amounts: Json
) -> None:
    seen = first(a_pod(annotations=dict(whose), spec=dict(GIVEN)))
    pod, outcome = last(requesting(seen, amounts))
    assert (outcome.kind, outcome.warnings) == ("gpu-removed", (REMOVED,))
    assert annotations(pod) == {**whose, names.STRIPPED: REMOVED}
    assert {key: pod["spec"].get(key) for key in GIVEN} == GIVEN
    assert pod["spec"]["containers"] == requesting(seen, amounts)["spec"]["containers"]


def test_a_pod_that_named_no_class_and_no_scheduler_has_the_default_ones_again() -> None:
    seen = first(a_pod(annotations=dict(OF_BOB)))
    pod, _ = last(requesting(seen, {}))
    assert (seen["spec"]["schedulerName"], pod["spec"]["schedulerName"]) == (
        names.SCHEDULER_NAME,
        "default-scheduler",
    )
    assert not {"priorityClassName", "priority", "preemptionPolicy"} & pod["spec"].keys()


def test_a_pod_that_waited_in_line_loses_our_gate_with_its_gpu() -> None:
    settings: Json = {"queue_gate": True, "unbooked_notebooks": "queue"}
    seen = first(a_pod(annotations=dict(OF_BOB)), view=FakeClusterView(has="full"), **settings)
    assert seen["spec"]["schedulingGates"] == [{"name": names.QUEUE}]
    assert "schedulingGates" not in last(requesting(seen, {}), **settings)[0]["spec"]


def test_gpus_that_another_webhook_has_added_make_it_a_pod_with_gpus() -> None:
    given = a_pod(gpus=0, annotations=dict(OF_ALICE))
    pod, outcome = last(requesting(given, {names.GPU_RESOURCE: "1"}))
    assert outcome.kind == "booked"
    assert (annotations(pod)[names.USER], annotations(pod)[names.BOOKING]) == ("alice", "b-1")
    assert pod["spec"]["priorityClassName"] == names.BOOKED_CLASS


@pytest.mark.parametrize("gpu", [names.GPU_RESOURCE, f"{names.MIG_RESOURCE_PREFIX}1g.10gb"])
def test_a_limit_range_gives_no_gpu_for_one_that_another_webhook_has_removed(gpu: str) -> None:
    """It is applied again after the webhooks, to a pod that names no GPU any more."""
    seen = first(a_pod(annotations=dict(OF_BOB)))
    zeroed, _ = last(requesting(seen, {"memory": "1Gi"}), zero=frozenset({gpu}))
    assert zeroed["spec"]["containers"][0]["resources"]["limits"] == {"memory": "1Gi", gpu: "0"}

    unread, _ = last(requesting(seen, {"memory": "1Gi"}))
    filled = requesting(unread, {"memory": "1Gi", gpu: "2"})
    recorded = f"LimitRanger plugin set: {gpu} request for container main; {gpu} limit for container main"
    filled["metadata"]["annotations"][names.LIMIT_RANGER] = recorded
    pod, outcome = last(filled)
    assert outcome.kind == "cleaned"
    assert pod["spec"]["containers"] == zeroed["spec"]["containers"]
    assert annotations(pod)[names.STRIPPED] == REMOVED


@pytest.mark.parametrize("field", ["schedulerName", "priorityClassName"])
def test_what_another_webhook_has_undone_is_done_again_and_the_users_own_value_is_kept(field: str) -> None:
    seen = first(a_pod(annotations=dict(OF_ALICE), spec=dict(GIVEN)))
    undone = deepcopy(seen)
    undone["spec"][field] = "theirs"
    again, outcome = last(undone)
    assert outcome.kind == "booked"
    assert again == seen
    kept = replaced_in(annotations(again))
    assert (kept.scheduler_name, kept.priority_class_name) == ("mine", "batch")


def test_a_stripped_pod_to_which_a_gpu_was_added_back_is_judged_again() -> None:
    stripped = first(a_pod(annotations=dict(OF_BOB)), view=FakeClusterView(has="full"))
    asking = requesting(stripped, {names.GPU_RESOURCE: "1"})
    assert last(asking, view=FakeClusterView(has="full"))[1].kind == "stripped"
    pod, outcome = last(asking)
    assert outcome.kind == "opportunistic"
    assert names.STRIPPED not in annotations(pod)


def test_maias_terminate_at_that_came_after_ours_stays() -> None:
    seen = first(a_pod(annotations=dict(OF_BOB)), maia=True)
    seen["metadata"]["annotations"][names.TERMINATE_AT] = UNTIL
    pod, _ = last(requesting(seen, {}), maia=True)
    assert annotations(pod) == {**OF_BOB, names.TERMINATE_AT: UNTIL, names.STRIPPED: REMOVED}
    assert names.TERMINATE_AT not in annotations(last(requesting(seen, {}))[0])


def test_l4_a_comeback_whose_gpu_was_removed_keeps_what_we_know_it_by() -> None:
    ours = {names.USER: "bob", names.RECREATED_FROM: "uid-1", names.FIRST_CREATED: UNTIL}
    back = a_pod(annotations=dict(ours), labels={names.COMEBACK: "true"}, finalizers=[names.COMEBACK])
    pod, _ = last(requesting(first(back, OURSELVES), {}), OURSELVES)
    assert annotations(pod) == {**ours, names.STRIPPED: REMOVED}
    assert (pod["metadata"]["labels"], pod["metadata"]["finalizers"]) == (
        {names.COMEBACK: "true"},
        [names.COMEBACK],
    )
    assert "priorityClassName" not in pod["spec"]


def test_l7_forged_keys_are_believed_in_the_last_review_neither() -> None:
    forged = {names.USER: "alice", names.BOOKING: "b-1", names.TERMINATE_AT: UNTIL, names.ASSIGNED: "{}"}
    pod, _ = last(a_pod(annotations=dict(forged)), "bob")
    assert annotations(pod) == {
        names.USER: "bob",
        names.ADMITTED: "true",
        names.REPLACED: '{"schedulerName":"default-scheduler"}',
    }


def test_a_pod_that_never_had_a_gpu_is_left_alone() -> None:
    assert last(a_pod(gpus=0))[1] == Outcome(kind="untouched")
