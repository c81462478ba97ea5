"""What is done at each step of a comeback: which calls, in which order, and after each error (law L4).

Each test begins at a state that another process may have left, and plays one round from there.
"""

from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from booking.controller.reclaimer.evictions.comebacks import ADVANCED_FOR, NEED_NOT_GO, REPORTED_AFTER
from cluster import event_reasons, names
from cluster.kube.errors import ApiError, Malformed, Refusal, Request, StatusError, Unreachable, refused
from cluster.kube.resources import PODS, WHOLE_PODS
from tests.booking.controller.reclaimer.evictions.comeback_rounds import (
    CREATE,
    FORGET,
    GET_TEMPLATE,
    MARK_DUE,
    NAME_OF_TEMPLATE,
    PATCH_POD,
    READ_POD,
    READY,
    STATUS,
    STORE,
    Round,
    error,
)
from tests.booking.controller.reclaimer.evictions.comebacks import NAMESPACE, gpu_pod


@pytest.fixture
def round_() -> Round:
    return Round()


LEFT: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "it may stay: stored": (
        {"victim": {"finalizers": (), "label": False}, "template": {}},
        [READ_POD, FORGET],
    ),
    "it may stay: prepared": ({"victim": {}, "template": {}}, [PATCH_POD, FORGET]),
    "it may stay: prepared without a template": ({"victim": {}}, [PATCH_POD]),
    "it may stay: marked": (
        {"victim": {"marked": True}, "template": {}},
        [READ_POD, STATUS, PATCH_POD, FORGET],
    ),
    "it leaves: it has not ended": ({"victim": {"leaving": True, "marked": True}, "template": {}}, []),
    "it leaves: it has ended": (
        {"victim": {"leaving": True, "marked": True, "ended": True}, "template": {}},
        [MARK_DUE, PATCH_POD, CREATE, FORGET, PATCH_POD],
    ),
    "it leaves: due": (
        {"victim": {"leaving": True, "marked": True, "ended": True}, "template": {"due": True}},
        [PATCH_POD, GET_TEMPLATE, CREATE, FORGET, PATCH_POD],
    ),
    "it leaves: released, not due": (
        {
            "victim": {"leaving": True, "marked": True, "ended": True, "finalizers": ("example.com/stay",)},
            "template": {},
        },
        [MARK_DUE],
    ),
    "it leaves: released and due": (
        {
            "victim": {"leaving": True, "marked": True, "ended": True, "finalizers": ("example.com/stay",)},
            "template": {"due": True},
        },
        [],
    ),
    "it leaves: the template is missing": (
        {"victim": {"leaving": True, "marked": True}},
        [READ_POD, STORE],
    ),
    "it leaves by its user's hand": ({"victim": {"leaving": True}, "template": {}}, [FORGET, PATCH_POD]),
    "it is gone: due": ({"template": {"due": True}}, [GET_TEMPLATE, CREATE, FORGET, PATCH_POD]),
    "it is gone: not due": ({"template": {}}, [READ_POD, FORGET]),
    "it is back: the template is there": (
        {"template": {"due": True}, "returning": {}},
        [FORGET, PATCH_POD],
    ),
    "it is back: the template is gone": ({"returning": {}}, [PATCH_POD]),
    "it is back: released": ({"returning": {"finalizers": ()}}, []),
}
"""What was left -> the calls of the round after it."""


@pytest.mark.parametrize(("left", "calls"), LEFT.values(), ids=LEFT)
def test_law_l4_a_new_process_continues_from_each_state_with_these_calls(
    round_: Round, left: dict[str, dict[str, Any]], calls: list[str]
) -> None:
    for kind, more in left.items():
        getattr(round_, kind)(**more)
    round_.sync()
    first_calls = round_.reconcile()
    round_.sync()
    round_.clock.advance(60)
    assert first_calls + round_.reconcile() == calls
    round_.sync()
    round_.clock.advance(60)
    assert round_.reconcile() == [], "nothing is left to do"


@pytest.mark.parametrize(("left", "calls"), LEFT.values(), ids=LEFT)
def test_law_l4_a_round_repeated_before_the_watch_shows_it_writes_nothing_twice(
    round_: Round, left: dict[str, dict[str, Any]], calls: list[str]
) -> None:
    for kind, more in left.items():
        getattr(round_, kind)(**more)
    round_.sync()
    round_.reconcile()
    round_.clock.advance(60)
    again = [call for call in round_.reconcile() if not call.startswith("GET")]
    assert not set(again) & {CREATE, STORE, MARK_DUE, STATUS, FORGET}, calls


PREPARED: Final = {
    "store": {"victim": {"finalizers": ()}},
    "add finalizer": {"victim": {"finalizers": ()}, "template": {}},
    "take": {"victim": {}, "template": {}},
    "take again": {"victim": {"marked": True}, "template": {}},
}


@pytest.mark.parametrize("left", PREPARED.values(), ids=PREPARED)
def test_the_steps_of_the_eviction_itself_are_left_to_the_evictor(
    round_: Round, left: dict[str, dict[str, Any]]
) -> None:
    for kind, more in left.items():
        getattr(round_, kind)(**more)
    round_.sync()
    assert round_.reconcile("v") == []


def test_a_withdrawal_clears_our_condition_and_keeps_the_conditions_of_others(round_: Round) -> None:
    round_.victim(marked=True, annotations={names.COMEBACK_HOW: "as-it-was", "mine": "x"})
    round_.template()
    round_.sync()
    with capture_logs() as lines:
        round_.comebacks.withdraw("v")
    conditions = round_.kube.get(WHOLE_PODS, "p", namespace=NAMESPACE).status["conditions"]
    assert conditions[0] == READY
    assert conditions[1] == {
        "type": names.DISRUPTION_TARGET,
        "status": "False",
        "reason": event_reasons.BOOKING_ENDED,
        "message": NEED_NOT_GO,
        "lastTransitionTime": "2026-03-02T09:00:00Z",
    }
    assert NEED_NOT_GO == "This pod need not go after all."
    pod = round_.pod()
    assert pod is not None
    assert (pod.metadata.finalizers, pod.metadata.labels) == (None, None)
    assert pod.metadata.annotations == {"mine": "x"}
    assert round_.templates == 0
    assert [line["step"] for line in lines if "step" in line] == [
        "clear condition",
        "remove finalizer",
        "forget",
    ]


@pytest.mark.parametrize(
    ("left", "is_marked"),
    [({"leaving": True}, True), ({"leaving": False, "finalizers": ()}, False)],
    ids=["it leaves already", "its controller replaces it"],
)
def test_the_condition_is_cleared_only_on_a_pod_that_stays(
    round_: Round, left: dict[str, Any], *, is_marked: bool
) -> None:
    round_.comebacks.clear_disruption(round_.victim(marked=True, **left))
    condition = round_.kube.get(WHOLE_PODS, "p", namespace=NAMESPACE).status["conditions"][1]
    assert (condition["status"] == "True") is is_marked


def test_a_condition_that_another_has_cleared_is_not_written_again(round_: Round) -> None:
    before = round_.victim(marked=True)
    round_.sync()
    round_.kube.patch(
        PODS, "p", {"status": {"conditions": [READY]}}, namespace=NAMESPACE, subresource="status"
    )
    round_.comebacks.clear_disruption(before)
    assert round_.reconcile() == [PATCH_POD], "it is cached as it is now: the finalizer goes"


def test_a_pod_found_gone_while_its_condition_is_cleared_is_dropped_from_the_cache(
    round_: Round,
) -> None:
    before = round_.victim(marked=True)
    round_.sync()
    round_.kube.finish(PODS, "p", namespace=NAMESPACE)
    round_.kube.patch(PODS, "p", {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
    round_.kube.delete(PODS, "p", namespace=NAMESPACE, grace_seconds=0)
    assert round_.pod() is None
    round_.comebacks.clear_disruption(before)
    assert not round_.seen.knows("v")


class Step:
    """States whose first write is of one verb."""

    DUE: Final[dict[str, Any]] = {"template": {"due": True}}
    ENDED: Final[dict[str, Any]] = {
        "victim": {"leaving": True, "marked": True, "ended": True},
        "template": {},
    }
    MISSING: Final[dict[str, Any]] = {"victim": {"leaving": True, "marked": True}}
    STAYS: Final[dict[str, Any]] = {"victim": {}, "template": {}}


OVERLOADED: Final = refused(Request("POST", "pods"), Refusal(429, message="not today", is_status=False))
REPORTED: Final = [
    (event_reasons.COMEBACK_REFUSED, "The pod cannot come back yet, and is tried again: not today")
]


@pytest.mark.parametrize(
    ("failure", "events"),
    [
        (error(403), REPORTED),
        (error(422), REPORTED),
        (error(500), REPORTED),
        (error(429), REPORTED),
        (OVERLOADED, []),
        (Malformed(Request("POST", "pods"), "no JSON"), []),
    ],
    ids=[
        "forbidden",
        "invalid",
        "server error",
        "a webhook's 429",
        "overloaded",
        "an answer that cannot be read",
    ],
)
def test_a_refused_creation_is_retried_after_a_pause_and_its_owner_reads_why(
    round_: Round, failure: ApiError, events: list[tuple[str, str]]
) -> None:
    round_.template(due=True)
    round_.sync()
    round_.kube.fail("POST", failure)
    looked_up = [READ_POD] if isinstance(failure, StatusError) else []
    assert round_.reconcile() == [GET_TEMPLATE, CREATE, *looked_up]
    assert [(reason, message) for _, reason, message in round_.recorder.events] == events
    round_.clock.advance(0.49)
    assert round_.reconcile() == [], "within the pause"
    round_.clock.advance(0.02)
    assert round_.reconcile() == [GET_TEMPLATE, CREATE, FORGET, PATCH_POD]
    assert round_.recorder.events[-1] == (
        "p",
        event_reasons.CAME_BACK,
        "This pod came back without a GPU. A booked pod needs the GPU.",
    )


@pytest.mark.parametrize("failure", [error(409), OVERLOADED], ids=["conflict", "overloaded"])
def test_a_refusal_that_may_pass_is_reported_when_it_does_not(round_: Round, failure: ApiError) -> None:
    round_.template(due=True)
    round_.sync()
    for _ in range(REPORTED_AFTER):
        assert round_.recorder.events == []
        round_.kube.fail("POST", failure)
        round_.reconcile()
        round_.clock.advance(30)
    assert [(reason, message) for _, reason, message in round_.recorder.events] == REPORTED


def test_pauses_double_up_to_half_a_minute_and_start_over_after_progress(round_: Round) -> None:
    round_.template(due=True)
    round_.sync()
    for pause in (0.5, 1, 2, 4, 8, 16, 30, 30):
        round_.kube.fail("POST", error(403))
        assert round_.reconcile() == [GET_TEMPLATE, CREATE, READ_POD]
        round_.clock.advance(pause - 0.01)
        assert round_.reconcile() == []
        round_.clock.advance(0.02)
    assert round_.reconcile() == [GET_TEMPLATE, CREATE, FORGET, PATCH_POD]
    round_.template(due=True)
    round_.kube.delete(PODS, "p", namespace=NAMESPACE, grace_seconds=0)
    round_.sync()
    round_.kube.fail("POST", error(403))
    round_.reconcile()
    round_.clock.advance(0.51)
    assert CREATE in round_.reconcile(), "the first pause again"


@pytest.mark.parametrize(
    "left", [Step.DUE, Step.ENDED, Step.MISSING, Step.STAYS], ids=["create", "mark due", "restore", "undo"]
)
def test_an_api_server_that_does_not_answer_ends_the_round_and_the_next_one_goes_on(
    round_: Round, left: dict[str, dict[str, Any]]
) -> None:
    for kind, more in left.items():
        getattr(round_, kind)(**more)
    round_.sync()
    round_.kube.down = True
    with pytest.raises(Unreachable):
        round_.comebacks.reconcile(frozenset())
    round_.kube.down = False
    assert round_.reconcile(), "without a pause: it is not this comeback's fault"


def test_a_refused_comeback_blocks_no_other(round_: Round) -> None:
    for name in ("p", "q", "s"):
        round_.template(due=True, name=name, uid=f"uid-{name}")
    round_.sync()
    round_.kube.fail("POST", error(403))
    round_.reconcile()
    assert [round_.pod(name) is None for name in ("p", "q", "s")] == [True, False, False]


# --- conflicts -----------------------------------------------------------------------------------------


def test_a_pod_that_another_has_changed_is_read_again_and_the_step_repeated(round_: Round) -> None:
    round_.victim(finalizers=("example.com/stay", names.COMEBACK))
    round_.template()
    round_.sync()
    change = {"metadata": {"annotations": {"theirs": "x"}}}
    round_.kube.patch(PODS, "p", change, namespace=NAMESPACE)
    assert round_.reconcile() == [PATCH_POD, READ_POD, PATCH_POD, FORGET]
    pod = round_.pod()
    assert pod is not None
    assert pod.metadata.finalizers == ("example.com/stay",)
    assert pod.metadata.annotation("theirs") == "x"


@pytest.mark.parametrize("again", [False, True], ids=["gone", "another of its name"])
def test_a_pod_found_gone_by_a_write_is_dropped_from_the_cache(round_: Round, *, again: bool) -> None:
    round_.victim()
    round_.sync()
    round_.kube.patch(PODS, "p", {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
    round_.kube.delete(PODS, "p", namespace=NAMESPACE, grace_seconds=0)
    theirs = round_.kube.put(PODS, gpu_pod(uid="theirs")) if again else None
    assert round_.reconcile() == [PATCH_POD, READ_POD]
    assert not round_.seen.knows("v")
    assert round_.pod() == theirs
    assert round_.reconcile() == []


def test_a_pod_is_not_taken_for_gone_because_a_write_was_answered_so(round_: Round) -> None:
    round_.victim()
    round_.sync()
    round_.kube.fail("PATCH", error(404))
    assert round_.reconcile() == [PATCH_POD, READ_POD]
    round_.clock.advance(1)
    assert round_.reconcile() == [PATCH_POD]


# --- watches that lag behind ---------------------------------------------------------------------------


def test_a_template_whose_victim_no_watch_has_reported_yet_is_kept(round_: Round) -> None:
    round_.victim(leaving=True, marked=True)
    round_.template()
    round_.sync(pods=False)
    assert round_.reconcile() == [READ_POD]
    assert round_.seen.knows("v"), "it has our finalizer: it is cached, and read once"
    assert round_.reconcile() == []


def test_a_template_whose_pod_is_back_already_is_deleted_and_the_pod_released(round_: Round) -> None:
    round_.template()
    round_.returning()
    round_.sync(pods=False)
    assert round_.reconcile() == [READ_POD, FORGET, PATCH_POD]


def test_an_unwatched_victim_that_must_still_leave_is_read_again_after_a_pause(round_: Round) -> None:
    round_.victim(finalizers=(), label=False)
    round_.template()
    round_.sync()
    assert round_.reconcile("v") == [READ_POD]
    assert round_.reconcile("v") == [], "no watch reports it: after a pause"
    round_.clock.advance(0.51)
    assert round_.reconcile("v") == [READ_POD]


def test_a_deleted_victim_is_left_alone_until_the_watch_shows_that_it_terminates(round_: Round) -> None:
    round_.victim()
    round_.template()
    round_.sync()
    round_.comebacks.taken.add("v")
    assert round_.reconcile() == []
    round_.victim(leaving=True, marked=True, ended=True)
    round_.sync()
    assert round_.reconcile() == [MARK_DUE, PATCH_POD]


def test_the_record_of_a_deletion_is_forgotten_with_its_comeback(round_: Round) -> None:
    round_.comebacks.taken |= {"wanted", "gone"}
    round_.reconcile("wanted")
    assert round_.comebacks.taken == {"wanted"}


# --- many ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("takes", "had_a_turn"), [(0.1, [6]), (0.25, [4, 2]), (0.5, [2, 2, 2]), (2.0, [1] * 6)]
)
def test_a_round_lasts_a_second_and_the_next_begins_with_the_comebacks_left_out(
    round_: Round, takes: float, had_a_turn: list[int]
) -> None:
    for number in range(6):
        round_.victim(name=f"p{number}", uid=f"v{number}")
    round_.sync()

    def slowly() -> None:
        round_.clock.advance(takes)
        round_.kube.before("PATCH", slowly)

    round_.kube.before("PATCH", slowly)
    rounds = [round_.reconcile() for _ in had_a_turn]
    assert [len(calls) for calls in rounds] == had_a_turn
    assert sorted(call for calls in rounds for call in calls) == [
        f"PATCH pods/p{number}" for number in range(6)
    ]
    assert ADVANCED_FOR == 1.0


def test_after_a_complete_round_all_comebacks_have_their_turn_again_and_new_ones_too(round_: Round) -> None:
    round_.victim(leaving=True, marked=True)
    round_.template()
    round_.sync()
    assert round_.reconcile() == []
    round_.template(name="q", uid="new", due=True)
    round_.victim(leaving=True, marked=True, ended=True)
    round_.sync()
    calls = round_.reconcile()
    assert f"PATCH podtemplates/{NAME_OF_TEMPLATE}" in calls
    assert round_.pod("q") is not None
