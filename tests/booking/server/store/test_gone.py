"""L9: a database that is not the one that was opened is neither written to nor trusted."""

import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from booking.server.errors import StoreError
from booking.server.store import Store, StoreGoneError, open_store
from tests.fakes.records import a_record, day


def write(store: Store) -> None:
    store.write(lambda writing: writing.add(a_record(id="b-new")))


ASKING: dict[str, Callable[[Store], object]] = {
    "check": Store.check,
    "write": write,
    "change": Store.change,
    "records": lambda store: store.records_ending_after(day(0)),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "bookings.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{path}")) as opened:
        opened.write(lambda writing: writing.add(a_record()))
        yield opened


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "other.db"
    open_store(f"sqlite:///{path}").close()
    return path


@pytest.fixture(params=ASKING)
def ask(request: pytest.FixtureRequest) -> Callable[[Store], object]:
    return ASKING[request.param]


def test_an_existing_file_passes_the_check(store: Store) -> None:
    store.check()


def test_a_call_after_the_store_was_closed_is_refused(path: Path, ask: Callable[[Store], object]) -> None:
    store = open_store(f"sqlite:///{path}")
    store.close()
    with pytest.raises(StoreError, match="is closed: the booking server ends"):
        ask(store)


def test_l9_a_missing_file_is_reported_and_not_created_again(
    store: Store, path: Path, ask: Callable[[Store], object]
) -> None:
    path.unlink()
    with pytest.raises(StoreGoneError, match=r"is gone \(No such file or directory\)"):
        ask(store)
    assert not path.exists()


def test_l9_a_missing_folder_is_reported(store: Store, path: Path, ask: Callable[[Store], object]) -> None:
    shutil.rmtree(path.parent)
    with pytest.raises(StoreGoneError, match="is gone"):
        ask(store)


def test_l9_another_file_in_its_place_is_reported(
    store: Store, path: Path, other: Path, ask: Callable[[Store], object]
) -> None:
    other.replace(path)
    before = path.read_bytes()
    with pytest.raises(StoreGoneError, match="was replaced"):
        ask(store)
    assert path.read_bytes() == before


def test_l9_even_an_identical_copy_is_another_file(
    store: Store, path: Path, tmp_path: Path, ask: Callable[[Store], object]
) -> None:
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    copy.replace(path)
    with pytest.raises(StoreGoneError, match="was replaced"):
        ask(store)


@pytest.mark.parametrize("command", [("cp", "{other}", "{path}"), ("truncate", "-s0", "{path}")])
def test_l9_a_file_with_other_content_is_reported(
    store: Store, path: Path, other: Path, command: tuple[str, ...], ask: Callable[[Store], object]
) -> None:
    # By another process: to open and close it here would take away SQLite's locks on it.
    subprocess.run([part.format(path=path, other=other) for part in command], check=True)
    before = path.read_bytes()
    with pytest.raises(StoreGoneError, match="was overwritten"):
        ask(store)
    assert path.read_bytes() == before


def test_l9_a_file_with_another_store_id_is_reported(
    store: Store, path: Path, ask: Callable[[Store], object]
) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET store_id = 'another'")
    with pytest.raises(StoreGoneError, match="was overwritten"):
        ask(store)


def test_l9_a_file_that_was_moved_back_is_used_again(store: Store, path: Path, tmp_path: Path) -> None:
    away = tmp_path / "away.db"
    path.rename(away)
    with pytest.raises(StoreGoneError):
        store.check()
    away.rename(path)
    store.check()
    assert len(store.records_ending_after(day(0))) == 1
