"""How a database is recognised by its tables, and how it is created, emptied and migrated."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import peewee
import pytest

from booking.server.errors import StoreError
from booking.server.store import open_store, schema
from booking.server.store.engine import message, readable_errors
from booking.server.store.models import VERSION
from booking.server.store.opening import alone_with, engine_of, migrated
from booking.server.store.schema import bring_to, create, create_or_check, drop_all, version_of
from booking.server.store_records import Guard
from tests.fakes.records import a_record, day

SEQUENCE = ("CREATE TABLE x (number INTEGER PRIMARY KEY AUTOINCREMENT)", "DROP TABLE x")
"""Leaves SQLite's own table ``sqlite_sequence`` behind."""
CHANGED = "UPDATE meta SET version = {}"
META = "CREATE TABLE meta (id INTEGER, store_id TEXT, version INTEGER, change BIGINT)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bookings.db"


@pytest.fixture
def database(path: Path) -> Iterator[Any]:
    """An empty one, as peewee has it."""
    with closing(engine_of(f"sqlite:///{path}")) as engine, closing(engine.connect()) as line:
        yield line.database


def run(database: Any, *statements: str) -> None:
    for statement in statements:
        database.execute_sql(statement)


def made(database: Any, *, store_id: str = "abc", change: int = 0) -> None:
    with alone_with(database):
        create(database, store_id=store_id, change=change)


def tables(database: Any) -> set[str]:
    return set(database.get_tables()) - {"sqlite_sequence"}


@pytest.mark.parametrize("statements", [(), SEQUENCE], ids=["no table", "SQLite's own alone"])
def test_a_database_without_tables_has_no_schema(database: Any, statements: tuple[str, ...]) -> None:
    run(database, *statements)
    assert version_of(database, "here") is None


@pytest.mark.parametrize("version", [0, 1, 2, 3, 99])
def test_our_database_has_the_schema_that_it_records(database: Any, version: int) -> None:
    run(database, META, "CREATE TABLE bookings (id)", "INSERT INTO meta VALUES (1, 'a', 7, 0)")
    run(database, CHANGED.format(version))
    assert version_of(database, "here") == version


@pytest.mark.parametrize(
    "statements",
    [("CREATE TABLE songs (title)",), (META,), ("CREATE TABLE bookings (id)",)],
    ids=["songs", "without bookings", "without a row about the store"],
)
def test_tables_of_another_program_are_named_and_left_as_they_are(
    database: Any, statements: tuple[str, ...]
) -> None:
    run(database, *statements)
    before = tables(database)
    for ask in (version_of, create_or_check):
        with pytest.raises(StoreError) as error:
            ask(database, "here")
        assert str(error.value) == "here is the database of another program: give the booking server its own."
    assert tables(database) == before


def test_a_database_of_ours_without_an_identity_is_damaged(database: Any) -> None:
    run(database, META, "CREATE TABLE bookings (id)")
    with pytest.raises(StoreError) as error:
        create_or_check(database, "here")
    assert str(error.value) == (
        "The booking database here has no identity: it is damaged, restore it from a backup."
    )


@pytest.mark.parametrize("version", [-1, 0, VERSION + 1])
def test_an_unknown_schema_is_refused_and_left_as_it_is(database: Any, version: int) -> None:
    made(database)
    run(database, CHANGED.format(version))
    before = tables(database)
    with pytest.raises(StoreError) as error:
        create_or_check(database, "here")
    assert str(error.value) == (
        f"The booking database here has schema {version}, and this booking server knows schema {VERSION}: "
        "run the version that wrote it, or a newer one."
    )
    assert (version_of(database, "here"), tables(database)) == (version, before)


def test_a_database_of_the_current_schema_is_left_as_it_is(database: Any) -> None:
    made(database, store_id="abc", change=5)
    create_or_check(database, "here")
    assert database.execute_sql("SELECT * FROM meta").fetchall() == [(1, "abc", VERSION, 5)]


def test_a_new_database_has_its_own_store_id_and_no_change(database: Any) -> None:
    with alone_with(database):
        create_or_check(database, "here")
    ((number, store_id, version, change),) = database.execute_sql("SELECT * FROM meta").fetchall()
    assert (number, version, change) == (1, VERSION, 0)
    assert len(bytes.fromhex(store_id)) == 16


def test_each_new_file_has_another_mark_even_with_the_same_store_id(tmp_path: Path) -> None:
    marks = set()
    for number in range(3):
        url = f"sqlite:///{tmp_path / str(number)}"
        with closing(engine_of(url)) as engine, closing(engine.connect()) as line:
            made(line.database)
            marks.add(line.database.pragma("application_id"))
    assert len(marks) == 3
    assert all(0 < mark < 2**31 for mark in marks)


def test_an_emptied_database_is_as_new(database: Any) -> None:
    made(database)
    with alone_with(database):
        drop_all(database)
    assert (tables(database), version_of(database, "here")) == (set(), None)
    made(database, store_id="other", change=3)
    assert database.execute_sql("SELECT store_id, change FROM meta").fetchall() == [("other", 3)]


def test_an_error_while_a_database_is_created_leaves_an_empty_one(database: Any) -> None:
    def fails() -> None:
        with alone_with(database):
            create(database, store_id="abc", change=0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert version_of(database, "here") is None


def test_no_other_process_writes_while_a_database_is_created(database: Any, path: Path) -> None:
    with (
        alone_with(database),
        closing(sqlite3.connect(path, timeout=0)) as other,
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        other.execute("CREATE TABLE songs (title)")


FURTHER = """
def up(_migrator, db):
    db.execute_sql("ALTER TABLE bookings ADD COLUMN rack TEXT NOT NULL DEFAULT ''")
    db.execute_sql("UPDATE meta SET version = 2")


def down(_migrator, db):
    db.execute_sql("ALTER TABLE bookings DROP COLUMN rack")
    db.execute_sql("UPDATE meta SET version = 1")
"""


@pytest.mark.parametrize("steps", [(2,), (2, 1), (1, 2, 1), (2, 2, 1, 2)])
def test_a_further_schema_can_be_made_and_undone_any_number_of_times(
    path: Path, tmp_path: Path, steps: tuple[int]
) -> None:
    folder = Path(shutil.copytree(Path(schema.__file__).parent / "migrations", tmp_path / "steps"))
    (folder / "0002_racks.py").write_text(FURTHER)
    with closing(open_store(f"sqlite:///{path}")) as store:
        stored = store.write(lambda writing: writing.add(a_record(created_by="bob", reason="β")))
    with closing(engine_of(f"sqlite:///{path}")) as engine, closing(engine.connect()) as line:
        for version in steps:
            with alone_with(line.database):
                bring_to(line.database, version, folder)
            assert version_of(line.database, "here") == version
            assert ("rack" in str(line.rows("SELECT sql FROM sqlite_master"))) == (version == 2)
        with alone_with(line.database):
            bring_to(line.database, 1, folder)
    with closing(open_store(f"sqlite:///{path}")) as store:
        assert store.records_ending_after(day(0)) == [stored]


@pytest.mark.parametrize("version", [-1, 0, 2])
def test_an_unknown_schema_is_refused_with_the_known_ones(url: str, version: int) -> None:
    with pytest.raises(StoreError, match="is empty"):
        migrated(url, version)
    open_store(url).close()
    with pytest.raises(StoreError, match=f"There is no schema {version}; there are 1"):
        migrated(url, version)
    migrated(url, VERSION)


def test_the_guard_counts_whole_gpus_and_lets_shares_be(url: str) -> None:
    guard = Guard(since=day(0), devices=1)
    with closing(open_store(url)) as store:
        for number in range(3):
            share = a_record(id=f"s-{number}", user="bob", memory=20_480)
            store.write(lambda writing, share=share: writing.add(share, guard=Guard(since=day(0))))
        store.write(lambda writing: writing.add(a_record(id="b-1"), guard=guard))
        with pytest.raises(StoreError):
            store.write(lambda writing: writing.add(a_record(id="b-2", user="bob"), guard=guard))


# --- errors of the database --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("disk I/O error", "disk I/O error"),
        ("disk full.", "disk full"),
        ("  locked  ", "locked"),
        ("no such row\nDETAIL: Key (user)=(alice@example.org) is secret.", "no such row"),
        ("\nlater", "later"),
    ],
    ids=["plain", "with its full stop", "with blanks", "with values", "not on the first line"],
)
def test_an_error_of_the_database_becomes_one_sentence_without_values(text: str, shown: str) -> None:
    assert str(message("here", Exception(text))) == f"The booking database here cannot be used: {shown}."


def test_errors_are_readable_without_knowledge_of_peewee() -> None:
    cause = peewee.OperationalError("disk full")
    with pytest.raises(StoreError, match="here cannot be used: disk full") as error, readable_errors("here"):
        raise cause
    assert error.value.__cause__ is cause


@pytest.mark.parametrize("error", [StoreError("as it is"), ZeroDivisionError("as it is")])
def test_any_other_error_is_passed_on_unchanged(error: Exception) -> None:
    with pytest.raises(type(error), match=r"^as it is$"), readable_errors("here"):
        raise error
