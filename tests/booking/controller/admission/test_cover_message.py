"""The creator's warning about bookings says what entitlement would do."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

import msgspec
import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from booking.controller.admission.cover_message import clause
from cluster import names
from cluster.decide.coverage import Coverage, coverage
from cluster.decide.entitlement import UserCoverage, candidate, entitlement
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod
from tests.fakes.objects import A100, A6000, EPOCH, PodBuilder, a_booking, a_pod

HOUR = timedelta(hours=1)
NOW = EPOCH + HOUR
NEW = "~"


def user_coverage(bookings: Iterable[Booking], pods: Iterable[Pod]) -> UserCoverage:
    """As the cache makes it, at ``NOW``."""
    found = {pod.metadata.uid: pod for pod in pods}
    candidates = [one for pod in found.values() if (one := candidate(pod, held=None, models={}))]
    mine = tuple(bookings)
    return UserCoverage(bookings=mine, pods=found, covered=entitlement(mine, candidates, NOW))


@dataclass(frozen=True)
class Case:
    """A new pod among others."""

    new: Pod
    others: tuple[Pod, ...] = ()
    bookings: tuple[Booking, ...] = ()

    def verdict(self) -> Coverage:
        return coverage(self.new, user_coverage(self.bookings, (self.new, *self.others)), NOW)


def a_new_pod(gpus: int = 1, *models: str, namespace: str = "default") -> Pod:
    builder = PodBuilder("new", uid=NEW).of("alice").created(NOW).asks(gpus)
    return in_namespace((builder.wants(*models) if models else builder).obj, namespace)


def in_namespace(pod: Pod, namespace: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, namespace=namespace))


def an_older_pod(name: str, gpus: int = 1) -> Pod:
    return in_namespace(a_pod(name).of("alice").created(EPOCH).asks(gpus).obj, "default")


def message(new: Pod, *others: Pod, bookings: Iterable[Booking]) -> str:
    return clause(Case(new, others, tuple(bookings)).verdict(), new.metadata.namespace)


class TestMessages:
    def test_a_covered_pod_gets_the_message_of_its_booking(self) -> None:
        booking = a_booking("b-1", count=2, end=EPOCH + timedelta(days=4, hours=8))
        assert message(a_new_pod(2), bookings=[booking]) == (
            f"Your booking of 2 x {A100} (b-1) covers this pod until Fri 2026-11-27 17:00 UTC"
        )

    def test_a_pod_without_a_running_booking_gets_the_message_that_there_is_none(self) -> None:
        over = a_booking("b-0", start=EPOCH - HOUR, end=NOW)
        assert message(a_new_pod(), bookings=[]) == "No running booking"
        assert message(a_new_pod(), bookings=[over]) == "No running booking"

    def test_a_pod_before_its_booking_gets_the_message_when_it_begins(self) -> None:
        upcoming = a_booking("b-2", start=NOW + HOUR)
        other = a_booking("b-1", model=A6000, start=NOW + timedelta(minutes=1))
        assert message(a_new_pod(1, A100), bookings=[upcoming, other]) == (
            f"Your booking of 1 x {A100} (b-2) starts Mon 2026-11-23 11:00 UTC"
        )

    def test_a_pod_of_another_model_gets_the_message_with_the_booked_model(self) -> None:
        assert message(a_new_pod(1, A6000, "X"), bookings=[a_booking()]) == (
            f"Your booking of 1 x {A100} (b-1) is not for this pod, which accepts {A6000} or X"
        )

    def test_a_pod_in_another_namespace_gets_the_message_with_the_booked_namespace(self) -> None:
        assert message(a_new_pod(), bookings=[a_booking(namespace="lab")]) == (
            f"Your booking of 1 x {A100} (b-1) is for pods of namespace lab"
        )

    def test_a_pod_with_too_many_gpus_gets_the_message_with_the_booked_number(self) -> None:
        assert message(a_new_pod(4), bookings=[a_booking(count=2)]) == (
            f"Your booking of 2 x {A100} (b-1) is too small for this pod, which asks for 4 GPUs"
        )

    @pytest.mark.parametrize(
        ("others", "end"),
        [
            (["a"], "pod a"),
            (["a", "b"], "pods a and b"),
            (["c", "b", "a"], "pods a, b and 1 more"),
        ],
    )
    def test_a_pod_for_which_the_booking_is_used_up_gets_the_message_with_its_pods(
        self, others: list[str], end: str
    ) -> None:
        booking = a_booking(count=len(others))
        assert message(a_new_pod(), *map(an_older_pod, others), bookings=[booking]) == (
            f"Your booking of {len(others)} x {A100} (b-1) is used up by {end}"
        )

    def test_a_pod_for_which_too_few_gpus_are_left_gets_the_message_with_the_number(self) -> None:
        assert message(a_new_pod(2), an_older_pod("a"), bookings=[a_booking(count=2)]) == (
            f"Your booking of 2 x {A100} (b-1) has 1 GPU left besides those of pod a, and this pod asks for 2"
        )

    def test_a_pod_of_another_namespace_is_named_with_its_namespace(self) -> None:
        other = in_namespace(an_older_pod("a"), "lab")
        assert message(a_new_pod(), other, bookings=[a_booking()]).endswith("used up by pod lab/a")

    def test_a_pod_of_a_mig_profile_gets_the_message_of_which_resource_its_booking_is(self) -> None:
        pod = PodBuilder("new", uid=NEW).of("alice").asks(1, resource="nvidia.com/mig-1g.10gb").obj
        assert message(pod, bookings=[a_booking()]).endswith(
            " is of nvidia.com/gpu, and this pod asks for nvidia.com/mig-1g.10gb"
        )

    def test_the_message_names_the_nearest_booking(self) -> None:
        elsewhere = a_booking("b-1", namespace="lab")
        small = a_booking("b-2", start=EPOCH + timedelta(minutes=1))
        assert "(b-2) is too small" in message(a_new_pod(2), bookings=[elsewhere, small])


# --- laws --------------------------------------------------------------------------------------------
MODELS = st.sampled_from([A100, A6000])
BOOKINGS = st.lists(
    st.builds(
        lambda name, model, count, start, namespace: a_booking(
            name, model=model, count=count, start=NOW + HOUR * start, end=NOW + HOUR * 9, namespace=namespace
        ),
        st.sampled_from(["b-1", "b-2", "b-3"]),
        MODELS,
        st.integers(1, 3),
        st.integers(-2, 2),
        st.sampled_from([None, None, "default", "lab"]),
    ),
    max_size=3,
    unique_by=lambda booking: booking.name,
)
NAMESPACES = st.sampled_from(["default", "lab"])
OTHERS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(1, 2), st.sets(MODELS), NAMESPACES),
    max_size=4,
    unique_by=lambda other: other[0],
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    others = [
        in_namespace(a_pod(name).of("alice").created(EPOCH).asks(gpus).wants(*sorted(models)).obj, where)
        for name, gpus, models, where in draw(OTHERS)
    ]
    new = a_new_pod(draw(st.integers(1, 4)), *sorted(draw(st.sets(MODELS))), namespace=draw(NAMESPACES))
    return Case(new, tuple(others), tuple(draw(BOOKINGS)))


@given(cases())
def test_the_message_says_covered_exactly_when_the_pod_is_covered(case: Case) -> None:
    found = case.verdict()
    event(found.kind)
    assert found.cover == user_coverage(case.bookings, (case.new, *case.others)).covered.get(NEW)


@given(cases())
def test_correcting_the_named_reason_brings_the_pod_nearer_to_its_cover(case: Case) -> None:
    """Otherwise the message would point users to the wrong thing."""
    order = ["namespace", "model", "count", "used-up", "covered"]
    found, booking = case.verdict(), case.verdict().booking
    if found.kind in {"covered", "none", "later"} or booking is None:
        return
    alone = Case(case.new, case.others, (booking,))
    after = _mended(alone, found.kind, booking).verdict()
    assert order.index(after.kind) > order.index(found.kind)


def _mended(case: Case, kind: str, booking: Booking) -> Case:
    """The case in which the named reason is corrected."""
    new = case.new
    if kind == "namespace":
        return Case(in_namespace(new, booking.spec.namespace or ""), case.others, case.bookings)
    if kind == "model":
        wanted = {**(new.metadata.annotations or {}), names.MODEL: booking.spec.model}
        meta = msgspec.structs.replace(new.metadata, annotations=wanted)
        return Case(msgspec.structs.replace(new, metadata=meta), case.others, case.bookings)
    if kind == "count":
        wanted = sorted(candidate_models(new))
        smaller = a_new_pod(booking.spec.count, *wanted, namespace=new.metadata.namespace)
        return Case(smaller, case.others, case.bookings)
    users = {pod.metadata.uid for pod in case.verdict().users}
    left = tuple(pod for pod in case.others if pod.metadata.uid not in users)
    # Pods without cover may take their place: in the end only the new pod is there.
    return _mended(Case(new, left, case.bookings), kind, booking) if users else Case(new, (), case.bookings)


def candidate_models(pod: Pod) -> frozenset[str]:
    found = candidate(pod, held=None, models={})
    return found.accepts if found else frozenset()


@given(cases())
def test_a_future_booking_in_the_message_would_cover_the_pod_if_it_were_alone(case: Case) -> None:
    found = case.verdict()
    if found.kind == "later" and found.booking and found.asks:
        alone = entitlement([found.booking], [found.asks], found.booking.spec.start)
        assert alone == {NEW: found.booking}


@given(cases())
def test_the_message_says_that_there_is_none_only_while_no_booking_runs(case: Case) -> None:
    if case.verdict().kind == "none":
        assert not any(booking.is_running(NOW) for booking in case.bookings)


@given(
    name=st.text(min_size=60, max_size=300),
    count=st.integers(1, 12),
    gpus=st.integers(1, 12),
    others=st.integers(0, 12),
)
@example(name="0" * 60, count=10, gpus=3, others=8)
@example(name="0" * 60, count=12, gpus=12, others=10)
def test_messages_are_short_for_names_of_any_length(name: str, count: int, gpus: int, others: int) -> None:
    pods = [an_older_pod(f"{number}{name}") for number in range(others)]
    where = in_namespace(a_new_pod(gpus, A6000, name), "x" * 63)
    for booking in (a_booking(name, model=name, count=count), a_booking(name, namespace=name)):
        assert len(message(where, *pods, bookings=[booking])) <= 240
