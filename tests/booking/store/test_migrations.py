"""Forward and back, on real databases: nothing stored is lost or read differently."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from booking.records import Place, Record
from booking.store import Store, StoreError, open_store
from booking.store.opening import engine_of, migrated
from booking.store_records import AuditEntry, Block, Guard
from tests.fakes.records import a_record, day

DUMP = Path("tests/fixtures/bookings-schema-1.sql")
STORE_ID = "e5f34a6af8b234e82d9df4568accb038"
BOOKED = {"b-ended", "b-released", "b-cancelled", "b-active", "b-planned"}


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    path = tmp_path / "bookings.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(DUMP.read_text())
    return path


def everything(store: Store) -> dict[str, Record]:
    with store.reading() as reading:
        return {record.id: record for user in ("alice", "bob", "β☃") for record in reading.history(user)}


def query(url: str, statement: str) -> list[tuple[Any, ...]]:
    with closing(engine_of(url)) as engine, closing(engine.connect()) as line:
        return line.rows(statement)


def test_a_file_of_schema_1_is_opened_with_all_its_content(old_file: Path) -> None:
    with closing(open_store(f"sqlite:///{old_file}")) as store:
        assert store.store_id == STORE_ID
        assert store.change() == 6
        found = everything(store)
        assert set(found) == BOOKED
        assert found["b-planned"] == a_record(
            day(9), day(12), id="b-planned", user="bob", count=2, topology="single-node", change=6
        )
        assert found["b-ended"].namespace == "lab"
        assert found["b-released"].released == day(-19)
        assert found["b-cancelled"].cancelled == day(0)
        added = store.write(lambda writing: writing.add(a_record(plan=(Place("n0", 1),))))
        assert added.change == 7


def test_migrating_forward_back_and_forward_again_changes_nothing(old_file: Path, tmp_path: Path) -> None:
    url, before = f"sqlite:///{old_file}", tmp_path / "before.db"
    shutil.copy(old_file, before)
    with closing(open_store(url)) as store:
        found = everything(store)
    migrated(url, 1)
    columns = "SELECT * FROM bookings ORDER BY id"
    assert query(url, columns) == query(f"sqlite:///{before}", columns)
    assert query(url, "SELECT store_id, version, change FROM meta") == [(STORE_ID, 1, 6)]
    assert indexes(url) == indexes(f"sqlite:///{before}")
    with closing(open_store(url)) as store:
        assert everything(store) == found


def indexes(url: str) -> list[tuple[Any, ...]]:
    of_bookings = (
        "SELECT name FROM sqlite_master WHERE type IN ('index', 'trigger') AND tbl_name = 'bookings'"
    )
    return sorted(query(url, of_bookings))


def test_data_unknown_to_schema_1_is_kept_until_the_next_migration_forward(url: str) -> None:
    guard = Guard(since=day(0), devices=1, live=1)
    entry = AuditEntry(at=day(0), actor="bob", action="block.create", subject="k", after={"a": 1})
    block = Block(id="k", node="n0", start=day(0), end=day(1), reason="fan", created_by="bob", created=day(0))
    with closing(open_store(url)) as store:
        record = a_record(plan=(Place("n0", 1),), reason="why", waived=True, policy="p", created_by="bob")
        stored = store.write(lambda writing: writing.add(record, guard=guard))
        store.write(lambda writing: (writing.audit(entry), writing.block_add(block)))
    migrated(url, 1)
    assert "plan" not in str(query(url, "SELECT * FROM bookings"))
    with closing(open_store(url)) as store, store.reading() as reading:
        assert reading.history("alice") == [stored]
        assert reading.audit_page(after=None, limit=9) == [msgspec.structs.replace(entry, number=1)]
        assert reading.blocks() == [block]
        assert reading.change() == 2


def test_changes_made_under_schema_1_are_kept(url: str) -> None:
    with closing(open_store(url)) as store:
        store.write(lambda writing: writing.add(a_record(plan=(Place("n0", 1),))))
    migrated(url, 1)
    with closing(engine_of(url)) as engine, closing(engine.connect()) as line:
        line.run("UPDATE bookings SET ends = ends - 3600, change = 2")
        line.run("UPDATE meta SET change = 2")
    with closing(open_store(url)) as store:
        (record,) = store.records_ending_after(day(0))
        assert (record.change, record.plan, store.change()) == (2, (Place("n0", 1),), 2)


def test_the_guards_of_the_schema_hold_after_a_migration_back_and_forward(url: str) -> None:
    guard = Guard(since=day(0), devices=1, live=1)
    with closing(open_store(url)) as store:
        store.write(lambda writing: writing.add(a_record(), guard=guard))
    migrated(url, 1)
    with closing(open_store(url)) as store:
        for who in ("alice", "bob"):
            with pytest.raises(StoreError):
                store.write(lambda writing, who=who: writing.add(a_record(id="b-2", user=who), guard=guard))


def test_a_migration_that_fails_changes_nothing(old_file: Path) -> None:
    with closing(sqlite3.connect(old_file)) as connection, connection:
        connection.execute("CREATE TABLE exemptions (title)")  # lacks what an index needs
        connection.execute("CREATE VIEW people AS SELECT 1 AS one")
    with pytest.raises(StoreError, match="cannot be used"):
        open_store(f"sqlite:///{old_file}")
    assert query(f"sqlite:///{old_file}", "SELECT version FROM meta") == [(1,)]
    assert "plan" not in str(query(f"sqlite:///{old_file}", "SELECT sql FROM sqlite_master"))


@pytest.mark.parametrize("version", [0, 4, -1])
def test_an_unknown_schema_is_refused(url: str, version: int) -> None:
    open_store(url).close()
    with pytest.raises(StoreError, match="there are 1, 2, 3"):
        migrated(url, version)


def test_an_empty_database_has_no_schema_to_go_back_from(url: str) -> None:
    with pytest.raises(StoreError, match="is empty"):
        migrated(url, 1)


def test_the_sizes_of_shares_are_kept_through_a_migration_back_and_forward(url: str) -> None:
    with closing(open_store(url)) as store:
        for number, memory in enumerate((None, 20_480)):
            record = a_record(id=f"b-{number}", memory=memory, plan=(Place("n0", 1, (1,)),))
            store.write(lambda writing, record=record: writing.add(record))
        found = everything(store)
    migrated(url, 2)
    with closing(open_store(url)) as store:
        assert everything(store) == found
        assert {record.memory for record in found.values()} == {None, 20_480}


def test_the_guard_counts_whole_gpus_and_lets_shares_be(url: str) -> None:
    guard = Guard(since=day(0), devices=1)
    with closing(open_store(url)) as store:
        for number in range(3):
            share = a_record(id=f"s-{number}", user="bob", memory=20_480)
            store.write(lambda writing, share=share: writing.add(share, guard=Guard(since=day(0))))
        store.write(lambda writing: writing.add(a_record(id="b-1"), guard=guard))
        with pytest.raises(StoreError):
            store.write(lambda writing: writing.add(a_record(id="b-2", user="bob"), guard=guard))
