"""Pages of audit and denied demand, compared with sorted lists; how long refusals and answers are kept."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from typing import Protocol

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.server.store import Store, Writing, open_store
from booking.server.store.audit_log import DENIED_KEPT, REPLAYS_KEPT
from booking.server.store_records import ANSWERED, NOT_GRANTED, AuditEntry, Denied, Replay
from tests.fakes.dice import Dice
from tests.fakes.records import day

SECOND = timedelta(seconds=1)
ACTORS = ("alice", "bob")
SUBJECTS = ("b-1", "b-2", "k-1")


class Numbered(Protocol):
    """An entry of a list that is sorted by number, newest first."""

    @property
    def number(self) -> int:
        """Given by the database."""
        ...


def an_entry(**more: object) -> AuditEntry:
    entry = AuditEntry(at=day(0), actor="alice", action="booking.create", subject="b-1")
    return msgspec.structs.replace(entry, **more)


def refused(**more: object) -> Denied:
    one = Denied(at=day(0), user="alice", model="A100", count=1, start=None, end=None, rules=("capacity",))
    return msgspec.structs.replace(one, **more)


def a_reply(at: float = 0, *, status: int = ANSWERED, digest: str = "d") -> Replay:
    return Replay(digest=digest, status=status, body=b"{}", headers={}, at=day(at))


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Forty entries of two people about three things, and twenty refusals."""
    dice = Dice(3)
    entries = [
        an_entry(at=day(number), actor=ACTORS[dice.below(2)], subject=SUBJECTS[dice.below(3)])
        for number in range(40)
    ]

    def fill(writing: Writing) -> None:
        for entry in entries:
            writing.audit(entry)
        for number in range(20):
            writing.denied_add(refused(at=day(number)))

    url = f"sqlite:///{tmp_path_factory.mktemp('store') / 'bookings.db'}"
    with closing(open_store(url)) as store:
        store.write(fill)
        yield store


def pages(page_after: Callable[[int | None], Sequence[Numbered]], limit: int) -> list[Numbered]:
    """One page after the other, each beginning below the last number of the one before."""
    found: list[Numbered] = []
    page = page_after(None)
    while page:
        assert len(page) <= limit
        assert page[0] not in found, "a page repeats an entry of another"
        found += page
        page = page_after(page[-1].number)
    return found


@given(st.sampled_from((None, *SUBJECTS, "b-9")), st.sampled_from((None, *ACTORS)), st.integers(1, 45))
def test_pages_of_the_audit_have_all_entries_of_an_object_and_actor_newest_first(
    crowded: Store, subject: str | None, actor: str | None, limit: int
) -> None:
    with crowded.reading() as reading:
        everything = reading.audit_page(after=None, limit=99)
        found = pages(
            lambda after: reading.audit_page(after=after, limit=limit, subject=subject, actor=actor), limit
        )
    assert [each.number for each in everything] == list(range(40, 0, -1))
    assert found == [
        each for each in everything if subject in {None, each.subject} and actor in {None, each.actor}
    ]


@given(st.integers(1, 25))
def test_pages_of_denied_demand_have_all_entries_newest_first(crowded: Store, limit: int) -> None:
    with crowded.reading() as reading:
        found = pages(lambda after: reading.denied_page(after=after, limit=limit), limit)
        assert [each.number for each in found] == list(range(20, 0, -1))
        assert found == reading.denied_page(after=None, limit=99)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    before=st.none() | st.dictionaries(st.text(), JSON), after=st.none() | st.dictionaries(st.text(), JSON)
)
def test_the_states_before_and_after_are_read_back_as_written(
    crowded: Store, before: dict[str, object] | None, after: dict[str, object] | None
) -> None:
    """In a transaction that is rolled back, since an audit only grows."""

    def written(writing: Writing) -> None:
        writing.audit(an_entry(before=before, after=after))
        (newest,) = writing.audit_page(after=None, limit=1)
        assert (newest.before, newest.after) == (before, after)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        crowded.write(written)


def test_numbers_of_the_audit_grow_and_are_not_reused_after_a_rolled_back_write(
    store: Store,
) -> None:
    def undone(writing: Writing) -> None:
        writing.audit(an_entry(subject="undone"))
        raise ZeroDivisionError

    store.write(lambda writing: writing.audit(an_entry(subject="first")))
    with pytest.raises(ZeroDivisionError):
        store.write(undone)
    store.write(lambda writing: writing.audit(an_entry(subject="second")))
    with store.reading() as reading:
        newest, first = reading.audit_page(after=None, limit=9)
    assert (newest.subject, first.subject) == ("second", "first")
    assert newest.number > first.number


def test_audit_refusals_and_answers_do_not_count_as_changes_for_the_mirror(store: Store) -> None:
    store.write(lambda writing: writing.audit(an_entry()))
    store.write(lambda writing: writing.denied_add(refused()))
    store.write(lambda writing: writing.remember("alice", "k", a_reply()))
    assert store.change() == 0


@pytest.mark.parametrize(
    "more",
    [
        {"start": day(1), "end": day(2), "earliest_start": day(3)},
        {"start": day(1)},
        {"rules": ()},
        {"rules": ("longest", "capacity", "longest")},
        {"count": -(2**31 - 1)},
        {"count": 2**31 - 1},
        {"model": "'A\\x00'", "user": "β☃"},
    ],
    ids=["all", "no end", "no rule", "rules in their order", "fewest", "most", "any text"],
)
def test_a_refusal_is_read_back_as_written(store: Store, more: dict[str, object]) -> None:
    store.write(lambda writing: writing.denied_add(refused(**more)))
    (found,) = store.read(lambda reading: reading.denied_page(after=None, limit=9))
    assert found == msgspec.structs.replace(refused(**more), number=found.number)


@pytest.mark.parametrize(
    ("later", "kept"),
    [(timedelta(), 2), (DENIED_KEPT, 2), (DENIED_KEPT + SECOND, 1), (-DENIED_KEPT, 2)],
    ids=["at once", "at the last second", "a second too late", "by a clock that went back"],
)
def test_a_refusal_is_deleted_by_the_first_one_half_a_year_later(
    store: Store, later: timedelta, kept: int
) -> None:
    for at in (day(0), day(0) + later):
        store.write(lambda writing, at=at: writing.denied_add(refused(at=at)))
    assert len(store.read(lambda reading: reading.denied_page(after=None, limit=9))) == kept


@pytest.mark.parametrize("status", [ANSWERED, NOT_GRANTED], ids=["granted", "refused"])
@pytest.mark.parametrize(
    ("later", "is_known"),
    [(timedelta(), True), (REPLAYS_KEPT, True), (REPLAYS_KEPT + SECOND, False)],
    ids=["at once", "at the last second", "a second too late"],
)
def test_an_answer_is_deleted_by_the_first_one_two_days_later(
    store: Store, later: timedelta, status: int, *, is_known: bool
) -> None:
    first = a_reply(status=status)
    later_one = msgspec.structs.replace(a_reply(), at=day(0) + later)
    store.write(lambda writing: writing.remember("alice", "k-1", first))
    store.write(lambda writing: writing.remember("bob", "k-2", later_one))
    with store.reading() as reading:
        assert reading.replayed("alice", "k-1") == (first if is_known else None)
        assert reading.replayed("bob", "k-2") == later_one


@pytest.mark.parametrize(
    ("who", "key", "is_replaced"),
    [("alice", "k", True), ("alice", "K", False), ("bob", "k", False)],
    ids=["its own", "another key", "another user"],
)
def test_an_answer_replaces_only_the_refusal_of_its_own_key(
    store: Store, who: str, key: str, *, is_replaced: bool
) -> None:
    first = a_reply(status=NOT_GRANTED)
    store.write(lambda writing: writing.remember("alice", "k", first))
    store.write(lambda writing: writing.remember(who, key, a_reply(1)))
    with store.reading() as reading:
        assert reading.replayed(who, key) == a_reply(1)
        assert reading.replayed("alice", "k") == (a_reply(1) if is_replaced else first)


def test_a_repeated_refusal_is_kept_once(store: Store) -> None:
    for at in (0, 1):
        store.write(
            lambda writing, at=at: writing.remember("alice", "k", a_reply(at, status=NOT_GRANTED, digest="d"))
        )
    assert store.read(lambda reading: reading.replayed("alice", "k")) == a_reply(1, status=NOT_GRANTED)


@pytest.mark.parametrize("body", [b"", b"\0", b"\xff\xfe", b"{}" * 10_000])
def test_the_bytes_of_an_answer_are_read_back_unchanged(store: Store, body: bytes) -> None:
    reply = Replay(digest="d", status=ANSWERED, body=body, headers={"ETag": '"β"'}, at=day(0))
    store.write(lambda writing: writing.remember("alice", "k", reply))
    found = store.read(lambda reading: reading.replayed("alice", "k"))
    assert found == reply
    assert type(found.body if found else None) is bytes


@pytest.mark.parametrize(("status", "is_answer"), [(ANSWERED, True), (NOT_GRANTED, False), (201, False)])
def test_only_a_granted_request_is_answered_again(status: int, *, is_answer: bool) -> None:
    assert a_reply(status=status).is_answer == is_answer
