"""Lists a page at a time: each entry once, whatever is added or removed in between."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.server.errors import RefusedError
from booking.server.service.pagination import MOST, bounded, by_start, number_of

START: Final = datetime(2026, 3, 2, 9, tzinfo=UTC)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Entry:
    """Something that begins."""

    start: datetime
    id: str


def an_entry(name: str, second: float = 0) -> Entry:
    return Entry(START + timedelta(seconds=second), name)


def pages(found: list[Entry], limit: int) -> list[tuple[Entry, ...]]:
    """All pages, from the first to the last."""
    page = by_start(found, after=None, limit=limit)
    every = [page.entries]
    while page.following is not None:
        page = by_start(found, after=page.following, limit=limit)
        every.append(page.entries)
        assert len(every) <= len(found), "a page repeats an entry of another"
    return every


def read(found: list[Entry], limit: int) -> list[Entry]:
    return [entry for page in pages(found, limit) for entry in page]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_entries_before_1970_or_within_one_second_are_neither_lost_nor_repeated(limit: int) -> None:
    year_one = Entry(datetime(1, 1, 1, tzinfo=UTC), "y")
    moments = [-1.5, -1.0, -0.5, 0.0, 0.25, 0.75]
    entries = [Entry(EPOCH + timedelta(seconds=at), name) for at, name in zip(moments, "fbecda", strict=True)]
    found = read([*entries, year_one], limit)
    assert found[0] == year_one
    assert sorted(found[1:], key=lambda entry: entry.id) == sorted(entries, key=lambda entry: entry.id)
    assert [entry.start.replace(microsecond=0) for entry in found] == sorted(
        entry.start.replace(microsecond=0) for entry in found
    )


@pytest.mark.parametrize(
    "after",
    [
        "",
        "x",
        "5",
        "5.",
        ".a",
        "x.a",
        "5,a",
        " 5.a",
        "+5.a",
        "--5.a",
        "5_0.a",
        "\N{ARABIC-INDIC DIGIT FIVE}.a",
        "5.a\n",
        "5.a b",
        "5.\x00",
        "5.ä",
        "9" * 19 + ".a",
    ],
)
def test_an_invalid_page_mark_is_refused_and_quoted(after: str) -> None:
    with pytest.raises(RefusedError) as refused:
        by_start([an_entry("a")], after=after, limit=2)
    (violation,) = refused.value.violations
    assert violation.rule == "not-a-page"
    assert violation.message == f"No list goes on at {after!r}: begin with its first page."


def test_the_error_quotes_only_the_beginning_of_a_very_long_mark() -> None:
    with pytest.raises(RefusedError) as refused:
        by_start([], after="x" * 10_000, limit=2)
    assert len(str(refused.value)) < 200


@given(
    st.lists(
        st.builds(
            Entry,
            st.integers(-3_000_000, 3_000_000).map(lambda at: EPOCH + timedelta(microseconds=at)),
            st.text("abc", min_size=1, max_size=3),
        ),
        unique_by=lambda entry: entry.id,
        max_size=20,
    ),
    st.integers(1, 7),
)
def test_every_entry_is_listed_exactly_once(entries: list[Entry], limit: int) -> None:
    found = read(entries, limit)
    assert len(found) == len(entries)
    assert set(found) == set(entries)


@given(
    st.lists(
        st.builds(
            Entry, st.integers(0, 5).map(lambda at: START + timedelta(seconds=at)), st.text("ab", min_size=1)
        ),
        unique_by=lambda entry: (entry.start, entry.id),
        max_size=12,
    ),
    st.integers(1, 3),
    st.data(),
)
def test_entries_that_stay_are_read_once_in_order_whatever_comes_and_goes_between_pages(
    entries: list[Entry], limit: int, data: st.DataObject
) -> None:
    there, found, after = list(entries), list[Entry](), None
    always = set(entries)
    while True:
        page = by_start(there, after=after, limit=limit)
        found += page.entries
        assert len(found) <= len(entries), "a page repeats an entry of another"
        if page.following is None:
            break
        after = page.following
        gone = data.draw(st.sets(st.sampled_from(there), max_size=2)) if there else set()
        there = [entry for entry in there if entry not in gone]
        always -= gone
    assert found == sorted(found, key=lambda entry: (entry.start, entry.id))
    assert len(set(found)) == len(found)
    assert always <= set(found) <= set(entries)


@pytest.mark.parametrize(
    ("requested", "given_"), [(-(10**9), 1), (0, 1), (1, 1), (MOST, MOST), (MOST + 1, MOST), (10**9, MOST)]
)
def test_a_page_is_at_least_one_and_at_most_five_hundred_entries(requested: int, given_: int) -> None:
    assert bounded(requested) == given_


@pytest.mark.parametrize(
    ("after", "number"), [(None, None), ("0", 0), ("7", 7), ("007", 7), ("9" * 18, 10**18 - 1)]
)
def test_a_numbered_list_continues_after_a_number(after: str | None, number: int | None) -> None:
    assert number_of(after) == number


@pytest.mark.parametrize(
    "after",
    ["", " 7", "7 ", "+7", "-1", "1_0", "7.0", "0x7", "\N{ARABIC-INDIC DIGIT SEVEN}", "9" * 19, "7\n"],
)
def test_an_invalid_entry_number_is_refused_and_quoted(after: str) -> None:
    with pytest.raises(RefusedError) as refused:
        number_of(after)
    (violation,) = refused.value.violations
    assert (violation.rule, violation.message) == (
        "not-a-page",
        f"No list goes on at {after!r}: begin with its first page.",
    )
