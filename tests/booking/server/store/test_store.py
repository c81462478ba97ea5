import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from booking.server.records import Place, Record
from booking.server.store import Store, StoreError, Writing, open_store
from tests.databases import EACH_KIND, a_database
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
