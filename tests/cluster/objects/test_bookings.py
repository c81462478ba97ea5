"""Booking objects as the mirror writes them, and when they cover anything."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.kube.resources import BOOKINGS
from cluster.objects.bookings import Booking, BookingSpec, BookingStatus, Place
from tests.fakes.objects import A100, EPOCH, a_booking

SPEC: dict[str, Any] = {
    "user": "alice",
    "model": A100,
    "count": 3,
    "start": "2026-11-23T09:00:00Z",
    "end": "2026-11-23T10:00:00Z",
}


def read(**more: object) -> Booking:
    return msgspec.convert({"metadata": {"name": "b-1"}, "spec": {**SPEC, **more}}, Booking)


def test_a_booking_runs_from_its_start_up_to_but_not_at_its_end() -> None:
    booking = a_booking(start=EPOCH, end=EPOCH + timedelta(hours=1))
    before, start, last, end = -1, 0, 3599, 3600

    assert [booking.is_running(EPOCH + timedelta(seconds=s)) for s in (before, start, last, end)] == [
        False,
        True,
        True,
        False,
    ]


def test_a_booking_that_was_released_as_it_began_never_runs() -> None:
    booking = a_booking(start=EPOCH, end=EPOCH)
    assert not any(booking.is_running(EPOCH + timedelta(microseconds=by)) for by in (-1, 0, 1))


@given(*(st.integers(0, 6) for _ in range(4)))
def test_exactly_one_of_two_successive_bookings_runs_at_their_boundary(
    start: int, first: int, second: int, now: int
) -> None:
    """The interval is half-open: without a gap, and without an instant that is covered twice."""
    hours = [EPOCH + timedelta(hours=hour) for hour in (start, start + first, start + first + second, now)]
    one, other = a_booking(start=hours[0], end=hours[1]), a_booking(start=hours[1], end=hours[2])
    both = a_booking(start=hours[0], end=hours[2])
    assert one.is_running(hours[3]) + other.is_running(hours[3]) == both.is_running(hours[3])


def test_a_booking_is_read_as_the_mirror_writes_it() -> None:
    booking = read(
        namespace="team",
        topology="single-node",
        node="n0",
        places=[{"node": "n0", "count": 2}, {"node": "n1", "count": 1}],
        storeId="s-1",
    )
    assert booking.name == "b-1"
    assert booking.spec == BookingSpec(
        user="alice",
        model=A100,
        count=3,
        start=EPOCH,
        end=EPOCH + timedelta(hours=1),
        namespace="team",
        topology="single-node",
        node="n0",
        places=(Place(node="n0", count=2), Place(node="n1", count=1)),
        store_id="s-1",
    )


def test_an_earlier_mirrors_booking_is_of_a_model_in_label_form() -> None:
    found = read(model="NVIDIA-RTX-A6000-[Ada]").spec
    assert found.model == "NVIDIA-RTX-A6000-Ada"


def test_a_minimal_booking_has_defaults_for_its_optional_fields() -> None:
    spec = read().spec
    assert (spec.namespace, spec.topology, spec.node, spec.places, spec.store_id) == (
        None,
        "any",
        None,
        (),
        "",
    )


@pytest.mark.parametrize("missing", sorted(SPEC))
def test_a_booking_without_a_required_field_is_an_error(missing: str) -> None:
    spec = {key: value for key, value in SPEC.items() if key != missing}
    with pytest.raises(msgspec.ValidationError, match=missing):
        msgspec.convert({"metadata": {"name": "b-1"}, "spec": spec}, Booking)


@pytest.mark.parametrize(
    "wrong",
    [{"topology": "rack"}, {"count": "3"}, {"places": [{"node": "n0"}]}, {"end": "soon"}],
    ids=["topology", "count", "places", "end"],
)
def test_a_booking_with_a_field_of_another_type_is_an_error(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError, match=next(iter(wrong))):
        read(**wrong)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({}, BookingStatus(), id="nothing decided"),
        pytest.param({"ending": []}, BookingStatus(ending=()), id="decided: no pod"),
        pytest.param(
            {"ending": ["a", "b"], "back": "never"},
            BookingStatus(ending=("a", "b"), back="never"),
            id="decided: these",
        ),
    ],
)
def test_the_pods_that_end_with_a_booking_are_undecided_until_its_status_names_them(
    status: dict[str, object], expected: BookingStatus
) -> None:
    booking = msgspec.convert({"metadata": {"name": "b-1"}, "spec": SPEC, "status": status}, Booking)
    assert booking.status == expected
    assert (booking.status.ending is None) == (not status)


def test_a_bookmark_of_a_watch_is_read_as_an_empty_booking() -> None:
    head = {"kind": BOOKINGS.kind, "apiVersion": BOOKINGS.api_version}
    bookmark = msgspec.json.encode({**head, "metadata": {"resourceVersion": "7"}})

    booking = msgspec.json.decode(bookmark, type=Booking)

    assert booking.metadata.resource_version == "7"
    assert (booking.spec.user, booking.spec.count) == ("", 0)
    assert not booking.is_running(EPOCH)
    assert not booking.is_running(booking.spec.start)
