import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from booking.server.records import Place, Record
from booking.server.store import Reading, Store, StoreError, Writing, open_store
from booking.server.store_records import ANSWERED, NOT_GRANTED, Filters, Replay
from tests.databases import EACH_KIND, a_database
from tests.fakes.objects import A6000
from tests.fakes.records import a_record, day


def add(store: Store, *records: Record) -> list[Record]:
    return store.write(lambda writing: [writing.add(record) for record in records])


def test_a_record_is_read_back_as_stored_with_the_number_of_its_change(store: Store) -> None:
    record = a_record(
        namespace="lab",
        released=day(1),
        cancelled=day(0),
        topology="single-node",
        count=2,
        plan=(Place("n0", 1), Place("n1", 1)),
        created_by="bob",
        policy="abc",
        ended_by="bob",
        reason="a leak",
        waived=True,
    )
    (added,) = add(store, record)
    assert added == msgspec.structs.replace(record, change=1)
    (read,) = store.read(lambda reading: reading.history("alice"))
    assert read == added
    assert read.version == record.version


def test_every_write_has_the_next_number_and_a_record_has_its_last_one(store: Store) -> None:
    assert store.change() == 0
    one, two = add(store, a_record(), a_record(id="b-two"))
    again = store.write(lambda writing: writing.replace(msgspec.structs.replace(one, end=day(1))))
    assert (one.change, two.change, again.change) == (1, 2, 3)
    assert store.change() == 3
    assert {record.change for record in store.records_ending_after(day(0))} == {2, 3}


def test_a_transaction_sees_and_counts_its_own_changes(store: Store) -> None:
    def decide(writing: Writing) -> tuple[int, int]:
        writing.add(a_record())
        return writing.change(), len(writing.history("alice"))

    assert store.write(decide) == (1, 1)


def test_an_exception_rolls_everything_back_even_the_number(store: Store) -> None:
    def fails(writing: Writing) -> None:
        writing.add(a_record())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.write(fails)
    assert store.change() == 0
    assert store.records_ending_after(day(-99)) == []


def test_a_booking_that_ends_at_the_instant_does_not_end_after_it(store: Store) -> None:
    add(store, a_record(day(0), day(2)))
    assert store.records_ending_after(day(2)) == []
    assert len(store.records_ending_after(day(2) - timedelta(seconds=1))) == 1


def test_cancelled_bookings_are_not_among_the_bookings_ending_later(store: Store) -> None:
    add(store, a_record(cancelled=day(0)))
    assert store.records_ending_after(day(-1)) == []


def test_a_booking_that_only_touches_a_span_does_not_overlap_it(store: Store) -> None:
    add(
        store,
        a_record(day(0), day(2), id="b-before"),
        a_record(day(1), day(3), id="b-in"),
        a_record(day(4), day(5), id="b-after"),
        a_record(day(2), day(3), id="b-other", model=A6000),
    )
    found = store.read(lambda reading: reading.overlapping(a_record().model, day(2), day(4)))
    assert [record.id for record in found] == ["b-in"]


def test_records_are_ordered_by_start_and_id(store: Store) -> None:
    for name, start in (("b-z", 1), ("b-b", 3), ("b-a", 3), ("b-c", 2)):
        add(store, a_record(day(start), id=name, user="bob"))
    found = store.read(lambda reading: reading.history("bob"))
    assert [record.id for record in found] == ["b-z", "b-c", "b-a", "b-b"]


def test_records_can_be_filtered_by_model(store: Store) -> None:
    add(store, a_record(), a_record(id="b-two", model=A6000))
    found = store.read(lambda reading: reading.ending_after(day(0), model=A6000))
    assert [record.id for record in found] == ["b-two"]


def test_a_booking_is_found_for_its_owner_or_without_an_owner_in_the_query(store: Store) -> None:
    add(store, a_record())
    with store.reading() as reading:
        assert reading.find("alice", "b-one")
        assert reading.find("bob", "b-one") is None
        assert reading.find(None, "b-one")
        assert reading.find(None, "b-two") is None


@pytest.mark.parametrize("text", ["\0", "b-1\0"])
def test_a_text_that_postgresql_refuses_is_an_unknown_id(store: Store, text: str) -> None:
    """The server refuses a NUL as if it had failed; a caller would be told to try again soon."""
    with store.reading() as reading:
        found = reading.find(None, text), reading.block(text), reading.exemption(text)
    assert found == (None, None, None)


def test_records_changed_later_are_found_cancelled_or_not(store: Store) -> None:
    one, two, three = add(store, a_record(), a_record(id="b-two"), a_record(id="b-three", model=A6000))
    store.write(lambda writing: writing.replace(msgspec.structs.replace(one, cancelled=day(0))))
    with store.reading() as reading:
        assert {each.id for each in reading.changed_after(two.change)} == {three.id, one.id}
        assert {each.id for each in reading.changed_after(two.change, model=A6000)} == {three.id}


def test_changing_only_the_plan_counts_as_a_change(store: Store) -> None:
    (one,) = add(store, a_record())
    store.write(lambda writing: writing.replan(one.id, (Place("n1", 1),)))
    with store.reading() as reading:
        assert reading.find("alice", one.id) == msgspec.structs.replace(one, plan=(Place("n1", 1),), change=2)


@pytest.mark.parametrize("text", ["'; DROP TABLE bookings; --", "β☃", "%", "%s ?", "a" * 10_000, ""])
def test_any_text_can_be_stored_and_found(store: Store, text: str) -> None:
    added = add(store, a_record(user=text, reason=text))
    with store.reading() as reading:
        assert reading.history(text) == added
        assert reading.history("other") == []


@pytest.mark.parametrize(
    "impossible",
    [a_record(count=0), a_record(day(2), day(2)), a_record(day(2), day(1))],
    ids=["no GPU", "empty", "backwards"],
)
def test_the_schema_itself_refuses_impossible_bookings(store: Store, impossible: Record) -> None:
    with pytest.raises(StoreError, match="cannot be used"):
        add(store, impossible)
    assert store.change() == 0


def test_two_bookings_cannot_have_the_same_id(store: Store) -> None:
    add(store, a_record())
    with pytest.raises(StoreError, match=r"(?i)unique"):
        add(store, a_record(user="bob"))
    assert store.change() == 1


PAGED = (
    a_record(day(-9), day(-7), id="b-ended"),
    a_record(day(-1), day(2), id="b-active", user="bob"),
    a_record(day(-1), day(2), id="b-released", released=day(0)),
    a_record(day(1), day(2), id="b-cancelled", cancelled=day(0)),
    a_record(day(3), id="b-planned"),
    a_record(day(3), id="b-too", model=A6000),
)


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        (Filters(), ["ended", "active", "released", "cancelled", "planned", "too"]),
        (Filters(past=False), ["active", "planned", "too"]),
        (Filters(state="ended"), ["ended", "released"]),
        (Filters(state="active"), ["active"]),
        (Filters(state="planned"), ["planned", "too"]),
        (Filters(state="cancelled"), ["cancelled"]),
        (Filters(user="bob"), ["active"]),
        (Filters(model=A6000), ["too"]),
        (Filters(start=day(2)), ["planned", "too"]),
        (Filters(end=day(-1)), ["ended"]),
        (Filters(state="planned", model=A6000), ["too"]),
    ],
)
def test_all_pages_together_have_every_matching_record(
    store: Store, filters: Filters, names: list[str]
) -> None:
    add(store, *PAGED)
    for limit in (1, 2, 9):
        found = paged(store, filters, limit)
        assert [record.id for record in found] == [f"b-{name}" for name in names]
        assert all(filters.state in {None, record.state(day(0))} for record in found)


def paged(store: Store, filters: Filters, limit: int) -> list[Record]:
    found: list[Record] = []
    after: str | None = None
    with store.reading() as reading:
        while True:
            page, after = reading.page(filters, now=day(0), after=after, limit=limit)
            assert len(page) <= limit
            found += page
            if after is None:
                return found


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        ".",
        "1.",
        ".b",
        "x.b-one",
        "1.b\x00",
        "1_0.b",
        "+1.b",
        "\N{FULLWIDTH DIGIT ONE}.b",
        "9" * 18 + ".b",
        "99999999999999999999.b",
    ],
)
def test_an_invalid_page_mark_is_refused(store: Store, token: str) -> None:
    with store.reading() as reading, pytest.raises(ValueError, match=r"page"):
        reading.page(Filters(), now=day(0), after=token, limit=1)


def test_a_transaction_within_another_one_is_refused_at_once(store: Store) -> None:
    with pytest.raises(RuntimeError, match="inside another"):
        store.write(lambda _writing: store.write(lambda writing: writing.add(a_record())))
    assert store.change() == 0


def test_a_reading_sees_one_state_while_others_write(store: Store) -> None:
    with store.reading() as reading:
        assert reading.history("alice") == []
        add(store, a_record())
        assert reading.history("alice") == []
    assert store.change() == 1


@pytest.mark.parametrize("kind", EACH_KIND)
def test_two_stores_of_one_database_see_each_others_writes(kind: str, tmp_path: Path) -> None:
    url = a_database(kind, tmp_path)
    with closing(open_store(url)) as one, closing(open_store(url)) as two:
        added = add(one, a_record())
        assert two.records_ending_after(day(0)) == added
        assert one.store_id == two.store_id


def test_a_writing_transaction_locks_out_other_processes_before_its_first_write(tmp_path: Path) -> None:
    path = tmp_path / "bookings.db"

    def decide(_writing: Writing) -> None:
        with closing(sqlite3.connect(path, timeout=0)) as other:
            other.execute("UPDATE meta SET change = 9")

    with closing(open_store(f"sqlite:///{path}")) as store:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            store.write(decide)
        assert store.change() == 0


def test_reading_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "bookings.db"
    with (
        closing(open_store(f"sqlite:///{path}")) as store,
        closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE meta SET change = 9")
        assert store.change() == 0
        other.execute("COMMIT")
        assert store.change() == 9


def test_a_transaction_sees_its_own_changes_as_they_are_stored(store: Store) -> None:
    two = (Place("n0", 1), Place("n1", 1))
    add(store, a_record(id="b-0"))

    def seen(reading: Reading) -> list[list[Record]]:
        questions = [(1, None), (2, None), (0, None), (1, A6000)]
        return [reading.changed_after(change, model=model) for change, model in questions]

    def decide(writing: Writing) -> list[list[list[Record]]]:
        writing.add(a_record(id="b-1", start=day(3), count=2, plan=two, reason="why not"))
        writing.add(a_record(id="b-2", model=A6000, waived=True))
        writing.replace(a_record(id="b-1", start=day(2), cancelled=day(1)))
        before = seen(writing)
        writing.replan("b-0", two)
        return [before, seen(writing)]

    before, after = store.write(decide)
    assert [each.id for each in before[0]] == ["b-2", "b-1"]
    assert [each.change for each in before[0]] == [3, 4]
    assert [each.id for each in before[3]] == ["b-2"]
    assert {each.id for each in after[0]} == {"b-0", "b-1", "b-2"}
    assert after == store.read(seen)
    assert before[0] == [each for each in after[0] if each.id != "b-0"]


def test_an_answer_replaces_only_the_refusal_of_the_same_user_and_key(store: Store) -> None:
    refused = Replay(digest="d", status=NOT_GRANTED, body=b"", headers={}, at=day(0))
    granted = Replay(digest="d", status=ANSWERED, body=b"{}", headers={}, at=day(1))
    for who, replay in (("alice", refused), ("bob", refused), ("alice", granted)):
        store.write(lambda writing, who=who, replay=replay: writing.remember(who, "k", replay))
    assert store.read(lambda reading: reading.replayed("alice", "k")) == granted
    assert store.read(lambda reading: reading.replayed("bob", "k")) == refused
    store.write(lambda writing: writing.remember("carol", "k", msgspec.structs.replace(granted, at=day(2.5))))
    assert store.read(lambda reading: reading.replayed("bob", "k")) is None
