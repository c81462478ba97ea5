"""What a pod's annotations say of its cover."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from cluster import names
from cluster.objects.bookings import Booking, BookingSpec
from cluster.objects.cover_annotations import cover_annotations_of, instant_in, text_of
from cluster.objects.meta import Meta
from tests.fakes.objects import A100, EPOCH


def test_a_covered_pod_says_by_what_and_until_when() -> None:
    spec = BookingSpec(user="alice", model=A100, count=1, start=EPOCH, end=EPOCH + timedelta(days=1))
    booking = Booking(metadata=Meta(name="b-1"), spec=spec)
    assert cover_annotations_of(booking) == {names.BOOKING: "b-1", names.TERMINATE_AT: "2026-11-24T09:00:00Z"}


def test_a_pod_without_cover_says_nothing() -> None:
    assert cover_annotations_of(None) == {}


def test_instants_are_written_in_utc_to_the_second() -> None:
    stockholm = timezone(timedelta(hours=1))
    assert text_of(datetime(2026, 11, 24, 9, 0, 0, 999_999, tzinfo=stockholm)) == "2026-11-24T08:00:00Z"


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("1900-01-01T08:00:00Z", 8),
        ("1900-01-01T08:00:00", 8),
        ("1900-01-01 08:00:00", 8),
        ("1900-01-01T09:00:00+01:00", 8),
    ],
)
def test_what_maia_writes_is_read_in_every_spelling(text: str, hour: int) -> None:
    assert instant_in(text) == datetime(1900, 1, 1, hour, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", [None, "", "soon", "nan", "1e400", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
)
def test_a_text_that_is_no_instant_says_nothing(text: str | None) -> None:
    assert instant_in(text) is None
