"""The creation of a pod that comes back, and a template that is missing while its victim leaves (law L4)."""

from typing import Any

import pytest

from cluster import event_reasons, names
from cluster.kube.resources import LIMIT_RANGES, POD_TEMPLATES, PODS
from cluster.objects.pods import Pod, asks_for_gpus
from tests.booking.controller.reclaimer.evictions.comeback_rounds import (
    CREATE,
    DUE_AT,
    FORGET,
    GET_TEMPLATE,
    MARK_DUE,
    MARKED,
    NAME_OF_TEMPLATE,
    PATCH_POD,
    READ_POD,
    STORE,
    Round,
    error,
)
from tests.booking.controller.reclaimer.evictions.comebacks import NAMESPACE, gpu_pod


@pytest.fixture
def round_() -> Round:
    return Round()


def test_a_pod_comes_back_with_our_finalizer_and_label_until_the_template_is_gone(round_: Round) -> None:
    round_.template(due=True)
    round_.sync()
    round_.kube.before("DELETE", lambda: found.append(round_.pod()))
    found: list[Pod | None] = []
    round_.reconcile()
    (back,) = found
    assert back is not None
    assert back.metadata.finalizers == (names.COMEBACK,)
    assert back.metadata.labels == {"app": "x", names.COMEBACK: "true"}
    after = round_.pod()
    assert after is not None
    assert (after.metadata.finalizers, after.metadata.labels) == (None, {"app": "x"})
    assert not asks_for_gpus(after)


@pytest.mark.parametrize("released", [False, True], ids=["with our finalizer", "released by another process"])
def test_a_pod_that_another_process_has_brought_back_is_not_created_again(
    round_: Round, *, released: bool
) -> None:
    round_.template(due=True)
    round_.sync()
    round_.returning(finalizers=() if released else (names.COMEBACK,), label=not released)
    rest = [FORGET] if released else [FORGET, PATCH_POD]
    assert round_.reconcile() == [GET_TEMPLATE, CREATE, READ_POD, *rest]
    assert round_.recorder.events == []
    pod = round_.pod()
    assert pod is not None
    assert (pod.metadata.uid, pod.metadata.finalizers) == ("r", None)


def test_another_pod_that_has_taken_the_name_stays_and_is_reported(round_: Round) -> None:
    round_.template(due=True)
    round_.sync()
    theirs = round_.kube.put(PODS, gpu_pod(uid="theirs"))
    assert round_.reconcile() == [GET_TEMPLATE, CREATE, READ_POD, FORGET]
    assert round_.pod() == theirs
    assert round_.recorder.events == [
        (
            "p",
            event_reasons.COMEBACK_DROPPED,
            "A pod that was taken away does not come back: team/p has taken its name.",
        )
    ]
    round_.sync()
    assert round_.reconcile() == []


@pytest.mark.parametrize("exists", [True, False], ids=["it still exists", "gone when it was looked up"])
def test_creation_waits_without_an_event_while_the_old_pod_still_has_the_name(
    round_: Round, *, exists: bool
) -> None:
    round_.template(due=True)
    round_.sync()
    if exists:
        round_.victim(leaving=True, marked=True, label=False)
    else:
        round_.kube.fail("POST", error(409))
    assert round_.reconcile() == [GET_TEMPLATE, CREATE, READ_POD]
    assert (round_.recorder.events, round_.templates) == ([], 1)
    if exists:
        round_.kube.patch(PODS, "p", {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
        round_.kube.finish(PODS, "p", namespace=NAMESPACE)
    round_.clock.advance(1)
    assert round_.reconcile() == [GET_TEMPLATE, CREATE, FORGET, PATCH_POD]


@pytest.mark.parametrize("code", [400, 403, 404, 409, 410, 422, 429, 500])
def test_law_l4_a_user_who_makes_another_pod_while_ours_is_refused_has_the_last_word(
    round_: Round, code: int
) -> None:
    round_.template(due=True)
    round_.sync()
    round_.kube.fail("POST", error(code))
    assert round_.reconcile() == [GET_TEMPLATE, CREATE, READ_POD]
    round_.kube.put(PODS, gpu_pod(uid="theirs"))
    round_.clock.advance(1)
    round_.kube.fail("POST", error(code))
    assert round_.reconcile() == [GET_TEMPLATE, CREATE, READ_POD, FORGET]
    assert round_.recorder.reasons[-1] == event_reasons.COMEBACK_DROPPED
    round_.kube.calm()
    round_.kube.delete(PODS, "p", namespace=NAMESPACE, grace_seconds=0)
    round_.clock.advance(60)
    assert round_.reconcile() == []
    assert round_.pod() is None


def test_law_l4_a_template_is_not_taken_for_gone_because_its_deletion_was_answered_so(round_: Round) -> None:
    round_.template(due=True)
    round_.sync()
    round_.kube.fail("DELETE", error(404))
    assert round_.reconcile() == [GET_TEMPLATE, CREATE, FORGET, GET_TEMPLATE]
    round_.clock.advance(1)
    assert round_.reconcile() == [FORGET, PATCH_POD]
    round_.restart()
    round_.sync()
    round_.kube.delete(PODS, "p", namespace=NAMESPACE, grace_seconds=0)
    round_.sync()
    assert round_.reconcile() == []
    assert round_.pod() is None


@pytest.mark.parametrize("stored_again", [False, True], ids=["gone", "another one"])
def test_law_l4_no_pod_is_created_when_the_template_is_no_longer_the_cached_one(
    round_: Round, *, stored_again: bool
) -> None:
    round_.template(due=True)
    round_.sync()
    round_.kube.finish(POD_TEMPLATES, NAME_OF_TEMPLATE, namespace=NAMESPACE)
    if stored_again:
        round_.template(due=True)
    assert round_.reconcile() == [GET_TEMPLATE]
    assert round_.pod() is None
    assert round_.seen.template("v") is None


def test_law_l4_a_template_marked_long_ago_is_still_read_before_its_pod_is_created(round_: Round) -> None:
    round_.victim(leaving=True, marked=True, ended=True, finalizers=(names.COMEBACK, "example.com/stay"))
    round_.template()
    round_.sync()
    assert round_.reconcile() == [MARK_DUE, PATCH_POD]
    due = round_.kube.get(POD_TEMPLATES, NAME_OF_TEMPLATE, namespace=NAMESPACE)
    # Meanwhile another process led and brought the pod back, and its user deleted it.
    round_.kube.patch(PODS, "p", {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
    round_.kube.finish(POD_TEMPLATES, NAME_OF_TEMPLATE, namespace=NAMESPACE)
    round_.sync()
    assert round_.reconcile() == []
    round_.seen.templates.upsert(due)  # a watch that begins again with an older list
    assert round_.reconcile() == [GET_TEMPLATE]
    assert round_.pod() is None


@pytest.mark.parametrize(
    ("annotations", "event"),
    [
        ({}, (event_reasons.CAME_BACK, "This pod came back without a GPU. A booked pod needs the GPU.")),
        ({names.COMEBACK_MESSAGE: ""}, (event_reasons.CAME_BACK, "This pod came back without a GPU.")),
        (
            {names.COMEBACK_HOW: "as-it-was"},
            (event_reasons.REQUEUED, "This pod came back and waits for a GPU. A booked pod needs the GPU."),
        ),
        (
            {names.COMEBACK_HOW: "as-it-was", names.COMEBACK_MESSAGE: ""},
            (event_reasons.REQUEUED, "This pod came back and waits for a GPU."),
        ),
        (
            {
                names.COMEBACK_HOW: "as-it-was",
                names.COMEBACK_REASON: "refused",
                names.COMEBACK_MESSAGE: "No GPU.",
            },
            (event_reasons.REJECTED_BY_KUBELET, "This pod came back and waits for a node. Before: No GPU."),
        ),
        (
            {names.COMEBACK_REASON: "refused", names.COMEBACK_MESSAGE: "No GPU."},
            (event_reasons.CAME_BACK, "This pod came back without a GPU. No GPU."),
        ),
    ],
    ids=[
        "without a GPU",
        "without a message",
        "as it was",
        "as it was, without a message",
        "rejected",
        "rejected, without a GPU",
    ],
)
def test_an_event_tells_the_owner_how_and_why_a_pod_came_back(
    round_: Round, annotations: dict[str, str], event: tuple[str, str]
) -> None:
    round_.template(due=True, **annotations)
    round_.sync()
    round_.reconcile()
    assert round_.recorder.events == [("p", *event)]


def test_the_event_tells_what_the_pod_asks_for_that_came_back_and_not_what_was_sent(round_: Round) -> None:
    limit = {"type": "Container", "max": {names.GPU_RESOURCE: "2"}}
    limits = {"metadata": {"name": "l"}, "spec": {"limits": [limit]}}
    round_.kube.create(LIMIT_RANGES, limits, namespace=NAMESPACE)
    round_.template(due=True)
    round_.sync()
    round_.reconcile()
    ((_, reason, message),) = round_.recorder.events
    assert reason == event_reasons.REQUEUED
    assert message.startswith("This pod came back and waits for 2 nvidia.com/gpu: it was created without")


# --- a missing template --------------------------------------------------------------------------------


def test_a_template_that_is_stored_again_has_the_reason_that_is_written_on_the_pod(round_: Round) -> None:
    pod = gpu_pod(uid="v", finalizers=[names.COMEBACK], deletionTimestamp=DUE_AT)
    pod["metadata"]["labels"] = {names.COMEBACK: "true"}
    pod["metadata"]["annotations"][names.COMEBACK_HOW] = "as-it-was"
    pod["status"]["conditions"] = [{**MARKED, "message": "The booking is over."}]
    round_.kube.put(PODS, pod)
    round_.sync()
    assert round_.reconcile() == [READ_POD, STORE]
    (template,) = round_.kube.list(POD_TEMPLATES).items
    assert template.metadata.name == NAME_OF_TEMPLATE
    assert template.metadata.annotations == {
        names.COMEBACK_REASON: "ended",
        names.COMEBACK_MESSAGE: "The booking is over.",
        names.COMEBACK_HOW: "as-it-was",
    }


def test_without_a_message_on_the_pod_the_reason_is_the_message(round_: Round) -> None:
    round_.victim(leaving=True, marked=True)
    round_.sync()
    round_.reconcile()
    (template,) = round_.kube.list(POD_TEMPLATES).items
    assert template.metadata.annotation(names.COMEBACK_MESSAGE) == "ended"


def test_no_template_is_stored_for_a_victim_that_is_gone_already(round_: Round) -> None:
    round_.victim(leaving=True, marked=True)
    round_.sync()
    round_.kube.patch(PODS, "p", {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
    round_.kube.finish(PODS, "p", namespace=NAMESPACE)
    assert round_.reconcile() == [READ_POD]
    assert (round_.templates, round_.seen.victims()) == (0, [])


@pytest.mark.parametrize(
    ("details", "calls"),
    [
        ({"causes": [{"reason": "NamespaceTerminating"}]}, [READ_POD, STORE, PATCH_POD]),
        ({"causes": [{"reason": "Other"}]}, [READ_POD, STORE]),
        ({"causes": None}, [READ_POD, STORE]),
        ({}, [READ_POD, STORE]),
    ],
    ids=["the namespace ends", "another cause", "no causes", "no details"],
)
def test_a_victim_is_released_without_a_template_only_where_its_namespace_is_terminating(
    round_: Round, details: dict[str, Any], calls: list[str]
) -> None:
    round_.victim(leaving=True, marked=True, finalizers=(names.COMEBACK, "example.com/stay"))
    round_.sync()
    round_.kube.fail("POST", error(403, **details))
    assert round_.reconcile() == calls
    assert round_.recorder.events == []
    pod = round_.pod()
    assert pod is not None
    assert (names.COMEBACK in (pod.metadata.finalizers or ())) is (PATCH_POD not in calls)
