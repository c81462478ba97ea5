from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking import durations
from booking.durations import Duration, DurationError

STOCKHOLM = ZoneInfo("Europe/Stockholm")
DAY = Duration(days=1)
ZONES = st.sampled_from(
    [
        "UTC",
        "Europe/Stockholm",
        "America/New_York",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "America/Asuncion",
    ]
).map(ZoneInfo)
EARLY, LATE = (datetime(year, 1, 1, tzinfo=UTC).replace(tzinfo=None) for year in (2020, 2030))
INSTANTS = st.datetimes(min_value=EARLY, max_value=LATE, timezones=st.just(UTC)).map(
    lambda moment: moment.replace(microsecond=0)
)
SPANS = st.builds(Duration, st.integers(0, 60), st.integers(0, 10**6))


def stockholm(*parts: int, fold: int = 0) -> datetime:
    """An instant by the clocks of Stockholm."""
    return datetime(*parts, tzinfo=STOCKHOLM, fold=fold).astimezone(UTC)


# --- how they are written ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("P14D", Duration(14)),
        ("p14d", Duration(14)),
        ("P2W", Duration(14)),
        ("P1W2D", Duration(9)),
        ("PT36H", Duration(0, 36 * 3600)),
        ("P1DT12H", Duration(1, 12 * 3600)),
        ("PT1H30M5S", Duration(0, 5405)),
        ("PT0S", Duration()),
        ("P0D", Duration()),
        ("14d", Duration(14)),
        ("2w", Duration(14)),
        ("36h", Duration(0, 36 * 3600)),
        ("1d12h", Duration(1, 12 * 3600)),
        ("90m", Duration(0, 5400)),
        ("45s", Duration(0, 45)),
    ],
)
def test_a_length_is_written_in_iso_8601_or_short(text: str, span: Duration) -> None:
    assert durations.read(text) == span


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P1DT",
        "14",
        "P14",
        "-P1D",
        "P-1D",
        "1.5d",
        "P1Y",
        "P1M",
        "P1H",
        "PT1D",
        "d",
        "1d 2h",
        "12h1d",
    ],
)
def test_an_invalid_length_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(DurationError, match="write P14D"):
        durations.read(text)


@pytest.mark.parametrize(
    "text", ["P14D\n", "\u0661d", "x" * 10_000_000, "P" + "9" * 400 + "D", "\0", "<b>1d"]
)
def test_strange_texts_are_refused_with_a_short_message_on_one_line(text: str) -> None:
    with pytest.raises(DurationError) as refusal:
        durations.read(text)
    assert len(str(refusal.value)) < 400
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["P36526D", "P99999W", "PT9999999H"])
def test_a_length_of_more_than_a_hundred_years_is_refused(text: str) -> None:
    with pytest.raises(DurationError, match="a hundred years at most"):
        durations.read(text)
    assert durations.read("P36525D") == durations.LONGEST


def test_a_message_keeps_hours_as_hours_and_days_as_days() -> None:
    assert durations.words(Duration(14, 1)) == "14 days 1 second"
    assert durations.words(Duration(0, 36 * 3600)) == "36 hours"
    assert durations.words(Duration(1, 90)) == "1 day 1 minute 30 seconds"
    assert durations.words(Duration()) == "0 seconds"


def test_a_length_is_never_negative() -> None:
    with pytest.raises(ValueError, match="cannot be negative"):
        Duration(-1)


@given(SPANS)
def test_a_written_length_is_read_back(span: Duration) -> None:
    assert durations.read(durations.iso(span)) == span
    assert str(span) == durations.iso(span)


# --- days and clocks -----------------------------------------------------------------------------------


def test_fourteen_days_end_at_the_same_time_of_day_when_the_clocks_are_turned_back() -> None:
    midnight = stockholm(2026, 10, 18)
    assert durations.after(midnight, Duration(14), STOCKHOLM) == stockholm(2026, 11, 1)
    assert stockholm(2026, 11, 1) - midnight == timedelta(hours=337)
    assert durations.after(midnight, Duration(0, 336 * 3600), STOCKHOLM) == stockholm(2026, 10, 31, 23)


def test_fourteen_days_end_at_the_same_time_of_day_when_the_clocks_are_turned_forward() -> None:
    midnight = stockholm(2026, 3, 22)
    assert durations.after(midnight, Duration(14), STOCKHOLM) == stockholm(2026, 4, 5)
    assert stockholm(2026, 4, 5) - midnight == timedelta(hours=335)
    assert durations.after(midnight, Duration(0, 336 * 3600), STOCKHOLM) == stockholm(2026, 4, 5, 1)


def test_a_time_that_the_clocks_skip_becomes_the_end_of_the_gap() -> None:
    assert durations.after(stockholm(2026, 3, 28, 2, 30), DAY, STOCKHOLM) == datetime(
        2026, 3, 29, 1, tzinfo=UTC
    )
    assert durations.after(stockholm(2026, 3, 28, 3), DAY, STOCKHOLM) == datetime(2026, 3, 29, 1, tzinfo=UTC)


def test_a_time_that_the_clocks_show_twice_is_taken_as_the_first() -> None:
    assert durations.after(stockholm(2026, 10, 24, 2, 30), DAY, STOCKHOLM) == stockholm(2026, 10, 25, 2, 30)


def test_a_day_after_either_of_the_two_times_is_the_same() -> None:
    for fold in (0, 1):
        start = stockholm(2026, 10, 25, 2, 30, fold=fold)
        assert durations.after(start, DAY, STOCKHOLM) == stockholm(2026, 10, 26, 2, 30)


def test_a_length_without_days_keeps_the_second_of_two_equal_times() -> None:
    second = stockholm(2026, 10, 25, 2, 30, fold=1)
    assert durations.after(second, Duration(0, 60), STOCKHOLM) == second + timedelta(seconds=60)


def test_a_day_earlier_is_the_same_time_of_the_previous_day() -> None:
    assert durations.before(stockholm(2026, 3, 29, 12), DAY, STOCKHOLM) == stockholm(2026, 3, 28, 12)
    assert durations.before(stockholm(2026, 3, 29, 12), Duration(0, 300), STOCKHOLM) == stockholm(
        2026, 3, 29, 11, 55
    )


@pytest.mark.parametrize("name", ["America/New_York", "Asia/Tokyo", "Europe/Stockholm", "UTC"])
def test_beyond_the_calendar_the_result_is_its_first_or_last_instant(name: str) -> None:
    zone = ZoneInfo(name)
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert durations.after(last - timedelta(days=1), Duration(14, 5), zone) == last
    assert durations.after(last - timedelta(seconds=1), Duration(0, 10**6), zone) == last
    first = datetime(1, 1, 1, tzinfo=UTC)
    assert (
        durations.before(first, Duration(1), zone) == durations.before(first, Duration(0, 1), zone) == first
    )
    assert durations.between(first, last, zone).days > 3_652_000


@given(INSTANTS, SPANS, ZONES)
def test_the_time_of_day_stays_unless_the_clocks_skip_it(
    start: datetime, span: Duration, zone: ZoneInfo
) -> None:
    later = durations.after(start, Duration(span.days), zone)
    before, after = start.astimezone(zone), later.astimezone(zone)
    wanted = before.replace(tzinfo=None) + timedelta(days=span.days)
    if after.replace(tzinfo=None) != wanted:
        # The instant before the gap is earlier than the one wanted, the one after it later.
        assert (
            (later - timedelta(seconds=1)).astimezone(zone).replace(tzinfo=None)
            < wanted
            < after.replace(tzinfo=None)
        )


@given(INSTANTS, SPANS, ZONES)
def test_the_length_between_two_instants_leads_from_the_first_to_the_second(
    start: datetime, span: Duration, zone: ZoneInfo
) -> None:
    end = start + span.nominal
    found = durations.between(start, end, zone)
    assert durations.after(start, found, zone) == end
    assert durations.after(start, Duration(found.days + 1), zone) > end
    assert durations.is_within(start, end, found, zone=zone)
    assert not found or not durations.is_within(start, end + timedelta(seconds=1), found, zone=zone)


@given(INSTANTS, st.integers(0, 40), ZONES)
def test_later_starts_have_no_earlier_ends_except_in_an_hour_that_comes_twice(
    start: datetime, days: int, zone: ZoneInfo
) -> None:
    later = start + timedelta(minutes=17)
    if not start.astimezone(zone).fold and not later.astimezone(zone).fold:
        assert durations.after(start, Duration(days), zone) <= durations.after(later, Duration(days), zone)
