"""The state of a pod in a few words, and the messages of its explanation."""

from dataclasses import replace

import msgspec
import pytest

from cluster import names
from cluster.decide.explain import Explanation, ExplanationSnapshot, explain_pod
from cluster.objects.bookings import Booking
from cluster.objects.evict_orders import EvictOrder, encode_order
from cluster.objects.hold import Hold
from cluster.objects.pods import ClaimName, ClaimReference, Gate, Pod
from tests.cluster.decide.explain.snapshots import NOW, alices, explained, holding_all, running, snapshot
from tests.fakes.objects import A100, PodBuilder, a_booking, a_pod

_MINE = "It belongs to alice."
_NOBODYS = "It belongs to nobody: it was created without passing admission."
_NONE_RUNS = "No booking of alice's is running."
_WOULD_COVER = "A running booking of alice's with enough GPUs of the right model would cover it."
_WHEN_FREE = "It is bound by itself when enough GPUs become free."


@pytest.mark.parametrize(
    ("pod", "bookings", "state"),
    [
        (running(), (a_booking(),), "running, booked"),
        (running(), (), "running, not booked"),
        (alices().asks(1), (a_booking(),), "waiting, booked"),
        (alices().asks(1), (), "waiting, not booked"),
        (running().with_annotation(names.NOTICE, "Go."), (), "to be evicted"),
        (running().with_annotation(names.NOTICE, "Go."), (a_booking(),), "running, booked"),
        (running().terminating(), (a_booking(),), "leaving"),
        (alices().asks(1).terminating(), (), "leaving"),
        (running().ended(), (a_booking(),), "finished"),
        (running().ended("Failed"), (), "finished"),
        (running().terminating().ended(), (), "finished"),
        (alices(), (a_booking(),), "without GPU"),
        (alices().with_annotation(names.STRIPPED, "All are booked."), (), "without its GPU"),
        (alices().terminating(), (), "without GPU"),
    ],
)
def test_the_state_of_each_kind_of_pod(pod: PodBuilder, bookings: tuple[Booking, ...], state: str) -> None:
    assert explained(pod, bookings=bookings).state == state


def test_a_pod_that_a_hold_names_must_go_unless_it_is_booked() -> None:
    hold = Hold(node="n0", devices=("GPU-n0-0",), victims=("uid-p",), at=NOW)
    waiting = a_pod("w").of("bob").asks(1)
    seen = snapshot(running(), waiting, holds={"uid-w": hold})
    assert explain_pod(running().obj, seen).state == "to be evicted"
    booked = snapshot(running(), waiting, bookings=(a_booking(),), holds={"uid-w": hold})
    assert explain_pod(running().obj, booked).state == "running, booked"


def test_a_pod_with_an_unreadable_request_waits_like_one_that_asks_for_gpus() -> None:
    resources = {"limits": {names.GPU_RESOURCE: "half"}}
    pod = replace(a_pod(), apps=({"name": "main", "resources": resources},))
    found = explain_pod(pod.obj, snapshot())
    assert found.state == "waiting, not booked"
    assert found.because == (
        _NOBODYS,
        "So no booking can cover it.",
        "What it asks for cannot be read.",
    )


def test_a_pod_that_has_ended_holds_nothing() -> None:
    assert explained(running().ended(), bookings=(a_booking(),)) == Explanation(
        "finished", (_MINE, "It has ended, and holds no GPU any more.")
    )


@pytest.mark.parametrize(
    ("pod", "origin"),
    [
        (a_pod(), ()),
        (alices(), (_MINE,)),
        (
            a_pod().with_annotation(names.NO_USER, "Robots own nothing."),
            ("It belongs to nobody: Robots own nothing.",),
        ),
        (
            alices().with_annotation(names.COMEBACK_MESSAGE, "Pod x needed its GPUs."),
            (_MINE, "It replaces a pod that had to go: Pod x needed its GPUs."),
        ),
        (
            a_pod().with_annotation(names.COMEBACK_MESSAGE, "Pod x needed its GPUs."),
            ("It replaces a pod that had to go: Pod x needed its GPUs.",),
        ),
    ],
)
def test_the_user_of_a_pod_without_gpus_is_reported_only_where_admission_named_one(
    pod: PodBuilder, origin: tuple[str, ...]
) -> None:
    assert explained(pod) == Explanation("without GPU", (*origin, "It asks for no GPU."))


def test_a_pod_without_annotations_is_explained() -> None:
    meta = msgspec.structs.replace(a_pod().obj.metadata, annotations=None)
    bare = msgspec.structs.replace(a_pod().obj, metadata=meta)
    assert explain_pod(bare, snapshot()) == Explanation("without GPU", ("It asks for no GPU.",))


def test_of_a_pod_whose_claim_has_not_been_made_it_is_not_known_what_it_asks_for() -> None:
    claims = (
        ClaimReference(name="made", resource_claim_template_name="one-gpu"),
        ClaimReference(name="missing", resource_claim_template_name="one-gpu"),
    )
    pod = alices().obj
    status = msgspec.structs.replace(pod.status, resource_claim_statuses=(ClaimName(name="made"),))
    spec = msgspec.structs.replace(pod.spec, resource_claims=claims)
    found = explain_pod(msgspec.structs.replace(pod, spec=spec, status=status), snapshot())
    assert found.state == "without GPU"
    assert "Its claim missing has not been made" in found.because[-1]


def test_a_pod_that_asks_for_gpus_is_reported_as_without_an_owner() -> None:
    assert explained(a_pod().asks(1)).because[:2] == (_NOBODYS, "So no booking can cover it.")


def test_the_reason_and_the_remedy_are_reported_where_admission_removed_the_request() -> None:
    assert explained(alices().with_annotation(names.STRIPPED, "All are booked.")) == Explanation(
        "without its GPU",
        (_MINE, "All are booked."),
        ("Create it again once the reason is gone: a pod's request for GPUs cannot be changed later.",),
    )


def test_of_a_leaving_pod_the_node_is_reported_and_no_remedy() -> None:
    assert explained(running().terminating()) == Explanation(
        "leaving",
        (
            _MINE,
            f"It is on n0 and holds GPU 0 ({A100}).",
            "GPU Booking chose it when the pod was bound: it takes any model.",
            "It has been terminating for too long: its node may hang. Its GPUs are not counted on.",
        ),
    )


def test_a_leaving_pod_with_cover_was_given_the_model_of_its_booking() -> None:
    pod = running().terminating()
    seen = replace(snapshot(pod), cover={"uid-p": a_booking()})
    chosen = f"GPU Booking chose it when the pod was bound: its booking is for {A100}."
    assert chosen in explain_pod(pod.obj, seen).because


def test_cover_place_and_takers_of_a_running_pod_are_reported_in_this_order() -> None:
    order = encode_order(EvictOrder(by="bob", reason="Repair", at=NOW))
    assert explained(running().with_annotation(names.EVICT, order)) == Explanation(
        "running, not booked",
        (
            _MINE,
            _NONE_RUNS,
            f"It is on n0 and holds GPU 0 ({A100}).",
            "GPU Booking chose it when the pod was bound: it takes any model.",
            "bob, an administrator, has ordered it to go: Repair.",
            "A booked pod that finds no free GPU may take its GPUs at any time.",
        ),
        (_WOULD_COVER,),
    )


def _waiting(*bookings: Booking) -> Explanation:
    """The explanation of a pod that waits for an A100 while others have all of them."""
    first = a_pod("q").of("bob").asks(1).on("n0", {"main": ("GPU-n0-0",)})
    return explained(alices().asks(1).wants(A100), first, *holding_all(), bookings=bookings)


def test_a_waiting_pod_without_cover_is_bound_when_gpus_become_free_or_a_booking_covers_it() -> None:
    assert _waiting().would_change == (_WHEN_FREE, _WOULD_COVER)
    assert _waiting().because[:2] == (_MINE, _NONE_RUNS)


def test_a_covered_waiting_pod_is_reported_to_get_room_without_another_booking() -> None:
    found = _waiting(a_booking())
    assert found.would_change == (
        (
            "Its booking makes room for it by itself: pods without a booking are evicted where that helps."
            " Deleting its pods that it does not need is quicker."
        ),
    )
    assert found.because[1] == f"The booking b-1 of 1 x {A100} covers it until 2026-11-25 09:00 UTC."


def test_a_waiting_pod_that_nothing_helps_is_not_advised_to_book() -> None:
    assert explained(alices().asks(9)).would_change == ("Fewer GPUs, or a larger node.",)


def test_a_waiting_pod_that_needs_no_other_to_leave_is_still_advised_to_book() -> None:
    assert explained(alices().asks(1)).would_change == (
        "It is bound by itself once the scheduler has tried it.",
        _WOULD_COVER,
    )


def _of(user: str | None) -> Pod:
    pod = a_pod("q").asks(1).on("n0", {"main": ("GPU-n0-0",)})
    return (pod if user is None else pod.with_annotation(names.USER, user)).obj


def _among(other: Pod, pod: PodBuilder) -> tuple[ExplanationSnapshot, Pod]:
    seen = snapshot(pod, a_pod("q").asks(1).on("n0", {"main": ("GPU-n0-0",)}))
    only = replace(seen, node_snapshots={"n0": seen.node_snapshots["n0"]})
    return replace(only, pods={**seen.pods, "uid-q": other}), pod.obj


@pytest.mark.parametrize(
    ("reader", "user", "is_named"),
    [("alice", "alice", True), ("alice", "bob", False), ("alice", None, False), ("", "", False)],
)
def test_only_pods_of_the_same_user_are_named_unless_the_reader_may_know_more(
    reader: str, user: str | None, *, is_named: bool
) -> None:
    pod = a_pod("p").with_annotation(names.USER, reader).asks(2).wants(A100)
    seen, waiting = _among(_of(user), pod)
    named = "They are used by default/q."
    assert (named in explain_pod(waiting, seen).because) == is_named
    assert named in explain_pod(waiting, seen, may_name=lambda _pod: True).because
    assert named not in explain_pod(waiting, seen, may_name=lambda _pod: False).because


def test_the_gate_and_bookings_are_reported_for_a_pod_behind_a_foreign_gate() -> None:
    gated = msgspec.structs.replace(alices().asks(1).obj.spec, scheduling_gates=(Gate(name="a.io/b"),))
    found = explain_pod(msgspec.structs.replace(alices().asks(1).obj, spec=gated), snapshot())
    assert found.would_change == ("It is offered once the owner of a.io/b removes that gate.", _WOULD_COVER)


def test_equal_objects_give_equal_explanations() -> None:
    assert _waiting() == _waiting()
    assert explained(running(), bookings=(a_booking(),)) == explained(running(), bookings=(a_booking(),))
