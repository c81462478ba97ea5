"""What a pod's annotations say of its cover."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.objects.bookings import Booking, BookingSpec
from cluster.objects.cover_annotations import cover_annotations_of, instant_in, terminate_at, text_of
from cluster.objects.meta import Meta
from cluster.objects.pods import Pod
from tests.fakes.objects import A100, EPOCH, a_booking


def test_a_covered_pod_names_its_booking_and_its_end() -> None:
    spec = BookingSpec(user="alice", model=A100, count=1, start=EPOCH, end=EPOCH + timedelta(days=1))
    booking = Booking(metadata=Meta(name="b-1"), spec=spec)
    assert cover_annotations_of(booking) == {names.BOOKING: "b-1", names.TERMINATE_AT: "2026-11-24T09:00:00Z"}


def test_a_pod_without_cover_has_no_annotations() -> None:
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
def test_instants_of_maia_are_read_in_every_spelling(text: str, hour: int) -> None:
    assert instant_in(text) == datetime(1900, 1, 1, hour, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", [None, "", "soon", "nan", "1e400", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
)
def test_a_text_that_is_no_instant_is_ignored(text: str | None) -> None:
    assert instant_in(text) is None


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        pytest.param("0", datetime(1970, 1, 1, tzinfo=UTC), id="nothing"),
        pytest.param("-1", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), id="a negative number"),
        pytest.param("1795424400", EPOCH, id="whole seconds"),
        pytest.param("1795424400.5", EPOCH + timedelta(milliseconds=500), id="a fraction"),
    ],
)
def test_seconds_since_1970_are_an_instant(text: str, instant: datetime) -> None:
    assert instant_in(text) == instant


YEAR_1000, YEAR_9999 = -30_610_224_000, 253_402_300_799
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.integers(YEAR_1000 + 10**5, YEAR_9999 - 10**5), st.integers(0, 999_999), ZONES)
def test_a_written_instant_is_read_back_to_the_second(second: int, micros: int, zone: timezone) -> None:
    whole = datetime.fromtimestamp(second, zone)
    assert instant_in(text_of(whole.replace(microsecond=micros))) == whole


@given(st.text(max_size=30))
def test_any_text_is_read_as_an_instant_in_utc_or_as_none(text: str) -> None:
    found = instant_in(text)
    assert found is None or found.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("annotations", "instant"),
    [
        pytest.param({}, None, id="missing"),
        pytest.param({names.TERMINATE_AT: "soon"}, None, id="unreadable"),
        pytest.param({names.TERMINATE_AT: "2026-11-23T09:00:00Z"}, EPOCH, id="as we write it"),
        pytest.param({names.TERMINATE_AT: "2026-11-23 09:00:00"}, EPOCH, id="as MAIA writes it"),
        pytest.param({names.STATE_DOMAIN + "/terminate-at": "2026-11-23T09:00:00Z"}, None, id="another key"),
    ],
)
def test_the_end_of_a_pod_is_written_in_the_annotation_that_maia_reads(
    annotations: dict[str, str], instant: datetime | None
) -> None:
    assert terminate_at(Pod(metadata=Meta(annotations=annotations))) == instant


def test_the_annotations_of_a_covered_pod_contain_its_end() -> None:
    """Admission and reclaimer write them, and what reads the pod finds the end of the booking."""
    booking = a_booking(end=EPOCH + timedelta(hours=7))
    pod = Pod(metadata=Meta(annotations=cover_annotations_of(booking)))
    assert terminate_at(pod) == booking.spec.end
