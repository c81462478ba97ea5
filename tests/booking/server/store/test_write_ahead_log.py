"""SQLite's log has its size before the first booking, and is written back without a writer's commit."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import peewee
import pytest

from booking.server.store import Store, open_store
from booking.server.store.connection import Connection
from booking.server.store.write_ahead_log import FILLED, WriteAheadLog
from cluster.fake.clock import eventually
from tests.fakes.records import a_record

BOOKINGS = 300


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bookings.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{path}")) as opened:
        opened.expect_writers()
        yield opened


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def book(store: Store, name: str) -> None:
    store.write(lambda writing: writing.add(a_record(id=name)))


def test_commits_do_not_make_the_log_grow(store: Store, path: Path) -> None:
    filled = log_of(path).stat().st_size
    for number in range(BOOKINGS):
        book(store, f"b-{number}")
    assert log_of(path).stat().st_size == filled >= FILLED


def test_what_is_committed_is_written_back_without_a_further_commit(store: Store, path: Path) -> None:
    book(store, "b-of-alice")
    assert b"b-of-alice" in log_of(path).read_bytes()
    eventually(lambda: b"b-of-alice" in path.read_bytes())


def test_what_the_log_was_filled_with_is_not_in_the_database(store: Store, path: Path) -> None:
    book(store, "b-of-alice")
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert not other.execute("SELECT * FROM sqlite_master WHERE name = 'filling'").fetchall()
    store.close()
    assert path.stat().st_size < FILLED
    assert not log_of(path).exists()


def line_to(path: Path) -> Connection:
    database = peewee.SqliteDatabase(path, thread_safe=False, timeout=0)
    database.connect()
    line = Connection(database)
    line.rows("PRAGMA journal_mode = WAL")
    return line


def test_a_log_without_room_or_with_another_writer_stays_as_it_is(path: Path) -> None:
    with closing(line_to(path)) as line, closing(line_to(path)) as other:
        other.run("CREATE TABLE kept (number)")
        line.rows("PRAGMA max_page_count = 10")
        WriteAheadLog(line, path).fill()
        other.begin("BEGIN IMMEDIATE")
        WriteAheadLog(line, path).fill()
        other.run("INSERT INTO kept VALUES (1)")
        other.commit()
        assert log_of(path).stat().st_size < FILLED
        line.begin("BEGIN IMMEDIATE")
        assert line.rows("SELECT number FROM kept") == [(1,)]
        line.commit()
