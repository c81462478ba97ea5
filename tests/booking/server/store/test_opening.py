import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from booking.server.store import StoreError, open_store
from tests.fakes.records import a_record, day


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def altered(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def test_a_first_start_creates_a_folder_and_a_file_readable_only_by_their_owner(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "bookings.db"
    old = os.umask(0)
    try:
        with closing(open_store(f"sqlite:///{path}")) as store:
            store.write(lambda writing: writing.add(a_record()))
            assert {mode(each) for each in path.parent.iterdir()} == {0o600}
    finally:
        os.umask(old)
    assert mode(path.parent) == 0o700


def test_a_file_that_others_may_read_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "bookings.db"
    open_store(f"sqlite:///{path}").close()
    path.chmod(0o644)
    open_store(f"sqlite:///{path}").close()
    assert mode(path) == 0o600


def test_the_store_id_and_everything_stored_survive_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'bookings.db'}"
    with closing(open_store(url)) as first:
        stored = first.write(lambda writing: writing.add(a_record()))
    with closing(open_store(url)) as second:
        assert second.store_id == first.store_id
        assert second.change() == 1
        assert second.records_ending_after(day(0)) == [stored]


def test_two_databases_have_two_store_ids(tmp_path: Path) -> None:
    with (
        closing(open_store(f"sqlite:///{tmp_path / 'a.db'}")) as a,
        closing(open_store(f"sqlite:///{tmp_path / 'b.db'}")) as b,
    ):
        assert a.store_id
        assert a.store_id != b.store_id


def test_a_relative_path_stays_where_it_was_when_the_process_changes_its_folder(tmp_path: Path) -> None:
    old = Path.cwd()
    os.chdir(tmp_path)
    try:
        with closing(open_store("sqlite:///bookings.db")) as store:
            os.chdir(old)
            store.check()
    finally:
        os.chdir(old)
    assert (tmp_path / "bookings.db").exists()


def test_a_path_with_special_characters_of_urls_is_read_as_a_path(tmp_path: Path) -> None:
    path = tmp_path / "50% of? #bookings.db"
    open_store(f"sqlite:///{path}").close()
    assert path.exists()


def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "bookings.db"
    path.touch()
    with closing(open_store(f"sqlite:///{path}")) as store:
        assert store.change() == 0


def test_a_file_that_is_not_a_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "bookings.db"
    path.write_text("minutes of the meeting\n" * 100)
    with pytest.raises(StoreError, match="cannot be used: file is not a database"):
        open_store(f"sqlite:///{path}")
    assert path.read_text() == "minutes of the meeting\n" * 100


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bookings.db"
    altered(path, "CREATE TABLE songs (title)")
    with pytest.raises(StoreError, match="another program"):
        open_store(f"sqlite:///{path}")


def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bookings.db"
    open_store(f"sqlite:///{path}").close()
    altered(path, "UPDATE meta SET version = 99")
    with pytest.raises(StoreError, match="has schema 99, and this booking server knows schema 1"):
        open_store(f"sqlite:///{path}")


def test_a_database_without_an_identity_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bookings.db"
    open_store(f"sqlite:///{path}").close()
    altered(path, "DELETE FROM meta")
    with pytest.raises(StoreError, match="damaged"):
        open_store(f"sqlite:///{path}")


def test_a_folder_is_refused_as_a_database(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a file"):
        open_store(f"sqlite:///{tmp_path}")


def test_a_folder_that_cannot_be_created_is_reported_in_a_message(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="It needs a folder that the booking server may write"):
        open_store(f"sqlite:///{tmp_path / 'file' / 'bookings.db'}")


def test_the_log_is_a_write_ahead_log(tmp_path: Path) -> None:
    path = tmp_path / "bookings.db"
    with closing(open_store(f"sqlite:///{path}")), closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
