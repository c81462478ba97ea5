"""Who owns a pod, which booking covers it, and what would let one cover it."""

from dataclasses import replace

import msgspec
import pytest

from cluster import names
from cluster.decide.claims.extended import INSTEAD
from cluster.decide.explain import ExplanationSnapshot
from cluster.decide.explain.cover import Covered, changes, covered, messages, whose
from cluster.objects.bookings import Booking
from cluster.objects.claims import PodClaims
from tests.cluster.decide.explain.snapshots import DAY, NOW, alices, running, snapshot
from tests.fakes.objects import A100, A6000, EPOCH, PodBuilder, a_booking, a_pod

_UNTIL = "2026-11-25 09:00 UTC"


def _known(pod: PodBuilder, *others: PodBuilder, bookings: tuple[Booking, ...] = ()) -> Covered:
    return covered(pod.obj, snapshot(pod, *others, bookings=bookings))


def _messages(pod: PodBuilder, *others: PodBuilder, bookings: tuple[Booking, ...] = ()) -> list[str]:
    return list(messages(pod.obj, _known(pod, *others, bookings=bookings)))


def _would(pod: PodBuilder, *others: PodBuilder, bookings: tuple[Booking, ...] = ()) -> list[str]:
    return list(changes(_known(pod, *others, bookings=bookings)))


def _barred(pod: PodBuilder) -> ExplanationSnapshot:
    """A snapshot in which the booking does not cover the pod on its node."""
    seen = snapshot(pod, bookings=(a_booking(),))
    return replace(seen, cover={}, barred=frozenset({(pod.obj.metadata.uid, "b-1")}))


def test_a_pod_belongs_to_its_user() -> None:
    assert whose(alices().obj) == "It belongs to alice."


@pytest.mark.parametrize("reason", ["ServiceAccounts are nobody", "ServiceAccounts are nobody."])
def test_the_reason_why_a_pod_has_no_owner_is_reported_with_one_full_stop(reason: str) -> None:
    pod = a_pod().with_annotation(names.NO_USER, reason)
    assert whose(pod.obj) == "It belongs to nobody: ServiceAccounts are nobody."


def test_a_pod_without_a_user_or_a_reason_is_reported_as_not_admitted() -> None:
    assert whose(a_pod().obj) == "It belongs to nobody: it was created without passing admission."


def test_a_user_takes_precedence_over_a_reason_why_there_is_none() -> None:
    assert whose(alices().with_annotation(names.NO_USER, "No.").obj) == "It belongs to alice."


def test_no_booking_covers_a_pod_without_an_owner_until_an_administrator_names_one() -> None:
    pod = a_pod().asks(1)
    assert _known(pod, bookings=(a_booking(),)).booking is None
    assert _messages(pod) == ["So no booking can cover it."]
    assert _would(pod) == [
        (
            "A pod belongs to the person who creates it. For pods of controllers an administrator writes the"
            f" owner on the namespace ({names.OWNER})."
        )
    ]


def test_the_end_of_cover_is_reported_together_with_the_way_to_extend_the_booking() -> None:
    bookings = (a_booking(count=2),)
    assert _messages(running(), bookings=bookings) == [
        f"The booking b-1 of 2 x {A100} covers it until {_UNTIL}."
    ]
    assert _would(running(), bookings=bookings) == [
        f"Extending the booking b-1 before {_UNTIL} keeps its cover."
    ]
    found = _known(running(), bookings=bookings).booking
    assert found is not None
    assert found.name == "b-1"


def test_a_booking_that_would_do_is_named_to_a_user_without_any() -> None:
    assert _messages(running()) == ["No booking of alice's is running."]
    assert _would(running()) == [
        "A running booking of alice's with enough GPUs of the right model would cover it."
    ]


def test_the_booking_that_ended_last_is_reported_the_last_by_name_if_two_ended_together() -> None:
    bookings = (
        a_booking("b-3", start=EPOCH - 2 * DAY, end=EPOCH - DAY),
        a_booking("b-2", start=EPOCH - 2 * DAY, end=EPOCH),
        a_booking("b-1", start=EPOCH - 3 * DAY, end=EPOCH),
        a_booking("b-9", user="bob", start=EPOCH - DAY, end=NOW),
    )
    assert _messages(running(), bookings=bookings) == [
        "No booking of alice's is running.",
        "The last one, b-2, was over at 2026-11-23 09:00 UTC.",
    ]


def test_a_booking_that_ends_at_this_instant_is_over() -> None:
    assert _messages(running(), bookings=(a_booking(end=NOW),))[1:] == [
        "The last one, b-1, was over at 2026-11-23 10:00 UTC."
    ]


def test_a_booking_that_was_released_before_it_began_is_ignored() -> None:
    never = a_booking(start=EPOCH, end=EPOCH)
    assert _messages(running(), bookings=(never,)) == ["No booking of alice's is running."]


def test_a_future_booking_that_would_not_cover_the_pod_is_not_mentioned() -> None:
    later = a_booking(count=1, start=NOW + DAY)
    assert _messages(alices().asks(2), bookings=(later,)) == ["No booking of alice's is running."]


def test_an_empty_user_counts_as_no_owner() -> None:
    pod = a_pod().asks(1).with_annotation(names.USER, "")
    assert _known(pod).user is None
    assert _messages(pod) == ["So no booking can cover it."]


def test_a_pod_that_asks_for_devices_of_two_kinds_can_never_be_covered() -> None:
    pod = alices().asks(1).asks(1, container="part", resource="nvidia.com/mig-1g.5gb")
    assert _messages(pod, bookings=(a_booking(),)) == [
        "Bookings cover devices of one kind, and it asks for several."
    ]
    assert _would(pod, bookings=(a_booking(),)) == []


def test_a_pod_that_is_larger_than_a_booking_of_shares_learns_how_large_they_are() -> None:
    quarter = a_booking(memory=20_000)
    (message,) = _messages(alices().shares(memory=30_000), bookings=(quarter,))
    assert "it is for shares of 20000 MiB, and the pod asks for 30000 MiB of a GPU" in message
    (message,) = _messages(alices().asks(1), bookings=(quarter,))
    assert "it is for shares of 20000 MiB, and the pod asks for 1 GPU" in message


def test_a_pod_that_asks_for_another_resource_than_its_booking_learns_which_one_is_covered() -> None:
    pod = a_pod("p").of("alice").asks(1, resource="nvidia.com/mig-1g.5gb")
    (message,) = _messages(pod, bookings=(a_booking(),))
    assert "it asks for nvidia.com/mig-1g.5gb, and that model is nvidia.com/gpu" in message
    assert _would(pod, bookings=(a_booking(),)) == [
        "Asking for nvidia.com/gpu in place of nvidia.com/mig-1g.5gb would let the booking cover it."
    ]


@pytest.mark.parametrize(
    ("booking", "reason", "would"),
    [
        (
            a_booking(count=2, start=NOW + DAY),
            "does not cover it yet: it begins at 2026-11-24 10:00 UTC",
            "From 2026-11-24 10:00 UTC on the booking b-1 covers it.",
        ),
        (
            a_booking(count=2, namespace="research"),
            "does not cover it: it is for pods of the namespace research alone",
            "In the namespace research the booking would cover it; or change the booking.",
        ),
        (
            a_booking(count=2, model=A6000),
            f"does not cover it: it accepts {A100} or NVIDIA-B300 only",
            f"A booking of what it has or accepts would cover it. This one is for {A6000}.",
        ),
        (
            a_booking(count=1),
            "does not cover it: it asks for 2 GPUs",
            "A booking of at least 2 GPUs would cover it.",
        ),
    ],
)
def test_the_reason_why_a_booking_does_not_cover_a_waiting_pod_comes_with_its_remedy(
    booking: Booking, reason: str, would: str
) -> None:
    pod = alices().asks(2).wants("NVIDIA-B300", A100)
    assert _messages(pod, bookings=(booking,)) == [
        f"The booking b-1 of {booking.spec.count} x {booking.spec.model} {reason}."
    ]
    assert _would(pod, bookings=(booking,)) == [would]


def test_a_pod_that_refuses_the_booked_model_is_not_covered() -> None:
    pod = alices().asks(1).with_annotation(names.NOT_MODEL, A100)
    assert _messages(pod, bookings=(a_booking(),)) == [
        f"The booking b-1 of 1 x {A100} does not cover it: it refuses that model."
    ]


def test_a_running_pod_is_judged_by_the_devices_that_it_holds_whatever_it_accepts() -> None:
    pod = alices().asks(2).wants(A100, A6000).on("n0", {"main": ("GPU-n0-2", "GPU-n0-0")})
    assert _messages(pod, bookings=(a_booking(count=2),)) == [
        f"The booking b-1 of 2 x {A100} does not cover it: its GPUs are {A100} and {A6000}."
    ]


def test_a_device_that_its_node_does_not_know_is_of_unknown_model() -> None:
    pod = alices().asks(1).on("n0", {"main": ("GPU-gone",)})
    seen = replace(snapshot(pod, bookings=(a_booking(),)), cover={})
    assert list(messages(pod.obj, covered(pod.obj, seen))) == [
        f"The booking b-1 of 1 x {A100} does not cover it: its GPUs are of unknown model."
    ]


def test_a_booking_does_not_cover_a_pod_on_a_node_whose_gpus_are_planned_for_others() -> None:
    pod = running()
    known = covered(pod.obj, _barred(pod))
    assert list(messages(pod.obj, known)) == [
        f"The booking b-1 of 1 x {A100} does not cover it where it runs: others are guaranteed GPUs of n0."
    ]
    assert list(changes(known)) == [
        (
            "Created again, it gets its GPUs on another node for certain. As it is, it stays until a booked"
            " pod needs its GPUs, and comes back with GPUs then unless it asks for something else."
        )
    ]


def _late(gpus: int = 1) -> PodBuilder:
    """A pod that comes after the others."""
    return alices("late").created(EPOCH + DAY).asks(gpus)


def test_the_pods_that_use_up_a_booking_are_named() -> None:
    bookings = (a_booking(count=2),)
    assert _messages(_late(), running("a", 0), running("b", 1), bookings=bookings) == [
        f"The booking b-1 of 2 x {A100} does not cover it: all of it is used by a and b."
    ]
    assert _would(_late(), running("a", 0), running("b", 1), bookings=bookings) == [
        "When pods that use the booking end and leave 1 GPU of it, it covers this one."
    ]


@pytest.mark.parametrize(
    ("count", "left"), [(2, "1 of it is left besides those of a"), (3, "2 of it are left besides those of a")]
)
def test_the_rest_of_a_booking_is_reported_where_it_is_too_small(count: int, left: str) -> None:
    assert _messages(_late(count), running("a"), bookings=(a_booking(count=count),)) == [
        f"The booking b-1 of {count} x {A100} does not cover it: it asks for {count} GPUs, and {left}."
    ]


def test_of_an_unused_booking_only_what_is_left_is_reported() -> None:
    pod = alices().asks(1)
    seen = replace(snapshot(pod, bookings=(a_booking(),)), cover={})
    assert list(messages(pod.obj, covered(pod.obj, seen))) == [
        f"The booking b-1 of 1 x {A100} does not cover it: it asks for 1 GPU, and 1 of it is left."
    ]


@pytest.mark.parametrize(("number", "expected"), [(3, "a, b and c"), (4, "a, b, c and 1 more")])
def test_three_pods_that_use_a_booking_are_named_and_the_others_counted(number: int, expected: str) -> None:
    users = [alices(name).asks(1) for name in "abcd"[:number]]
    found = _messages(_late(), *users, bookings=(a_booking(count=number),))
    assert found == [
        f"The booking b-1 of {number} x {A100} does not cover it: all of it is used by {expected}."
    ]


def test_a_pod_of_another_namespace_is_named_with_it() -> None:
    pod, user = _late(), running("a")
    there = msgspec.structs.replace(
        user.obj, metadata=msgspec.structs.replace(user.obj.metadata, namespace="lab")
    )
    seen = snapshot(pod, user, bookings=(a_booking(),))
    seen = replace(seen, pods={**seen.pods, "uid-a": there})
    assert next(iter(messages(pod.obj, covered(pod.obj, seen)))).endswith("all of it is used by lab/a.")


def test_no_running_booking_is_reported_for_a_leaving_pod() -> None:
    pod = running().terminating()
    known = _known(pod, bookings=(a_booking(),))
    assert (known.user, known.booking, known.found.kind) == ("alice", None, "unbookable")


def test_a_pod_that_asks_by_an_extended_resource_learns_what_to_write_instead() -> None:
    claims = PodClaims(count=1, resources=("example.com/gpu",))
    pod = msgspec.structs.replace(alices().obj, claims=claims)
    known = covered(pod, snapshot(alices(), bookings=(a_booking(),)))
    assert "example.com/gpu" in "".join(messages(pod, known))
    assert list(changes(known)) == [INSTEAD]
