"""Single fields: which values are accepted, and with which message the others are refused."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from booking import durations
from booking.server.web.fields import (
    DURATION,
    LONGEST_TEXT,
    VISIBLE,
    BadFieldError,
    BeyondError,
    instant_of,
    length_of,
    shown,
    text_of,
)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-03-02T09:00:00Z", datetime(2026, 3, 2, 9, tzinfo=UTC)),
        ("2026-03-02t09:00:00z", datetime(2026, 3, 2, 9, tzinfo=UTC)),
        ("2026-03-02T09:00:00.999999999+01:00", datetime(2026, 3, 2, 8, tzinfo=UTC)),
        ("2026-03-02T00:00:00-00:00", datetime(2026, 3, 2, tzinfo=UTC)),
        # The same hour occurs twice on a clock in Stockholm; the offset says which one is meant.
        ("2026-10-25T02:30:00+02:00", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
        ("2026-10-25T02:30:00+01:00", datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59Z", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_an_instant_becomes_utc_in_whole_seconds(text: str, instant: datetime) -> None:
    assert instant_of(text) == instant
    assert instant_of(text).tzinfo is UTC


@pytest.mark.parametrize(
    "value",
    [
        "2026-03-02T09:00:00",
        "2026-03-02T09:00Z",
        "2026-03-02",
        "2026-W10-1T09:00:00Z",
        "20260302T090000Z",
        "2026-02-30T09:00:00Z",
        "2026-03-02T24:00:01Z",
        "2026-03-02T23:59:60Z",
        "2026-03-02T09:00:00+24:00",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "0000-01-01T00:00:00Z",
        " 2026-03-02T09:00:00Z",
        "2026-03-02T09:00:00Z\n",
        "٢٠٢٦-03-02T09:00:00Z",
        "now",
        "",
        1772442000,
        1772442000.0,
        True,
        None,
        [],
        {},
    ],
)
def test_an_invalid_instant_is_refused_with_an_example(value: Any) -> None:
    with pytest.raises(BadFieldError, match=r"offset from UTC, such as 2026-03-02T09:00:00\+01:00"):
        instant_of(value)


@pytest.mark.parametrize("text", ["P2D", "P1W", "PT36H", "P1W2DT3H4M5S", "PT0S", "2d", "36h", "1d12h", "p1d"])
def test_a_length_is_read_as_in_policies_and_command_lines(text: str) -> None:
    assert length_of(text) == text
    assert re.fullmatch(DURATION, text)


@pytest.mark.parametrize(
    "value",
    [
        *("P1M", "P1Y", "P", "PT", "P1DT", "-P1D", "P-1D", "P1.5D", "P1D ", "2 days", "1d\n", "d", "P1D12H"),
        *("", 2, 2.0, True, None, [], {}),
        pytest.param("P" + "9" * 5000 + "D", id="enormous"),
    ],
)
def test_a_length_that_is_not_exact_is_refused_with_an_example(value: Any) -> None:
    with pytest.raises(BadFieldError, match=r"must be a length.*P"):
        length_of(value)
    assert not isinstance(value, str) or not re.fullmatch(DURATION, value)


@pytest.mark.parametrize("text", ["P99999W", "PT99999999999S"])
def test_a_length_of_more_than_a_century_is_beyond_the_calendar(text: str) -> None:
    with pytest.raises(BeyondError, match="a hundred years"):
        length_of(text)


@example("5300W")
@given(st.from_regex(DURATION, fullmatch=True))
def test_every_length_that_the_documented_pattern_allows_can_be_read(text: str) -> None:
    """The OpenAPI document guarantees that pattern."""
    try:
        assert durations.read(length_of(text)) is not None
    except BeyondError:
        assert len(text) >= len("5300W"), "no shorter text means more than a century"


@given(st.from_regex(re.compile(VISIBLE), fullmatch=True))
def test_every_text_that_the_documented_pattern_allows_can_be_read(text: str) -> None:
    assume(len(text) <= LONGEST_TEXT and not any("\ud800" <= letter <= "\udfff" for letter in text))
    assert text_of(text) == text


@pytest.mark.parametrize(
    "text",
    ["", " ", " a", "a ", "a\nb", "\x00", "a\u202eb", "a\u200bb", "\ufeffa", "a\u00a0b", "\ud800", "x" * 201],
)
def test_a_text_with_invisible_characters_is_refused(text: str) -> None:
    with pytest.raises(BadFieldError, match="visible characters"):
        text_of(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("alice", '"alice"'),
        ("größer", '"größer"'),
        ("a\nb", r'"a\nb"'),
        ("\ud800", r'"\ud800"'),
        ("x" * 100, '"' + "x" * 59 + "..."),
        ([[[]]], "a list"),
        ({"a": 1}, "an object"),
        (None, "null"),
        (True, "true"),
    ],
)
def test_a_value_is_shown_short_and_on_one_line(value: Any, text: str) -> None:
    assert shown(value) == text
