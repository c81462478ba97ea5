"""The file of a database: private, held open, and identified by itself and not by its name (law L9)."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from booking.server.errors import StoreError, StoreGoneError
from booking.server.store.sqlite_file import DatabaseFile, prepare_file

MARKED = 68
"""Where SQLite's format has the application id: four bytes."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bookings.db"


@pytest.fixture
def file(path: Path) -> Iterator[DatabaseFile]:
    """Of a hundred bytes; its mark is ``mark``."""
    path.write_bytes(b"\0" * MARKED + b"mark" + b"\0" * 28)
    with closing(prepare_file(path)) as opened:
        yield opened


def written(path: Path, content: bytes, at: int = 0) -> None:
    """Write into the file in place, so that it stays the same file."""
    descriptor = os.open(path, os.O_WRONLY)
    os.pwrite(descriptor, content, at)
    os.close(descriptor)


def test_the_mark_is_the_application_id_in_the_header_of_the_file(file: DatabaseFile) -> None:
    assert file.mark() == b"mark"


def replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def cut_off(path: Path) -> None:
    os.truncate(path, 0)


START_AGAIN = "see that the right file is there and start the booking server again."
GONE: dict[str, tuple[Callable[[Path], None], str]] = {
    "deleted": (
        Path.unlink,
        "is gone (No such file or directory): bring the file back and start the booking server again.",
    ),
    "replaced by its own copy": (
        replaced,
        f"was replaced while the booking server had it open: {START_AGAIN}",
    ),
    "overwritten": (
        lambda path: written(path, b"other", MARKED),
        f"was overwritten while the booking server had it open: {START_AGAIN}",
    ),
    "cut off": (
        cut_off,
        f"was overwritten while the booking server had it open: {START_AGAIN}",
    ),
}


@pytest.mark.parametrize("what", GONE)
def test_l9_a_replaced_file_is_reported_with_what_to_do(file: DatabaseFile, path: Path, what: str) -> None:
    happens, reason = GONE[what]
    happens(path)
    with pytest.raises(StoreGoneError) as error:
        file.check(b"mark")
    assert str(error.value) == f"The booking database {path} {reason}"


def test_l9_a_folder_in_place_of_the_file_is_reported(file: DatabaseFile, path: Path) -> None:
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreGoneError, match="was replaced"):
        file.check(b"mark")


def test_l9_a_link_to_the_same_file_is_accepted(file: DatabaseFile, path: Path) -> None:
    moved = path.rename(path.with_name("moved.db"))
    path.symlink_to(moved)
    file.check(b"mark")


def test_a_closed_file_reports_that_the_server_ends_and_is_closed_once(
    file: DatabaseFile, path: Path
) -> None:
    file.close()
    reused = os.open(path, os.O_RDONLY)
    assert reused == file.descriptor
    file.close()
    assert os.pread(reused, 4, MARKED) == b"mark"
    os.close(reused)
    for ask in (file.mark, lambda: file.check(b"mark")):
        with pytest.raises(StoreError) as error:
            ask()
        assert str(error.value) == f"The booking database {path} is closed: the booking server ends."


def test_no_child_process_gets_the_file(file: DatabaseFile) -> None:
    assert not os.get_inheritable(file.descriptor)


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("file/bookings.db", "File exists"),
        ("file/deeper/bookings.db", "Not a directory"),
        ("x" * 300, "File name too long"),
    ],
    ids=["in a file", "below a file", "a name that is too long"],
)
def test_a_path_that_cannot_be_opened_is_reported_with_what_it_needs(
    tmp_path: Path, place: str, why: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError) as error:
        prepare_file(tmp_path / place)
    assert str(error.value) == (
        f"The booking database {tmp_path / place} cannot be opened: {why}. "
        "It needs a folder that the booking server may write."
    )
