"""The file of a copy: it is read back as written, and nothing is read of an incomplete file."""

import gzip
import io
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.server.errors import StoreError
from booking.server.store import dump_file
from booking.server.store.dump_file import Head, Row
from cluster import names

HEAD = Head(schema=2, store_id="abc", change=7)
ROWS = [
    Row("bookings", {"id": "b-1", "plan": "[]", "released": None}),
    Row("bookings", {"id": "b-2", "plan": '[{"node":"n0"}]', "waived": True}),
    Row("audit", {"number": 1, "was": "β\n"}),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "copy"


def dumped(rows: list[Row], head: Head = HEAD) -> bytes:
    """The copy as written to a pipe."""
    out = io.BytesIO()
    assert dump_file.write_to(out, head, rows) == len(rows)
    return out.getvalue()


def read(file: Path, content: bytes) -> tuple[Head, list[Row]]:
    file.write_bytes(content)
    head, rows = dump_file.read(file)
    return head, list(rows)


def lines_of(content: bytes) -> list[bytes]:
    return gzip.decompress(content).splitlines(keepends=True)


VALUES = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
EVERY_ROW = st.builds(Row, st.text(), st.dictionaries(st.text(), VALUES, max_size=4))


@given(
    st.builds(Head, schema=st.integers(0, 9), store_id=st.text(), change=st.integers(0, 2**63 - 1)),
    st.lists(EVERY_ROW, max_size=8),
)
def test_a_written_copy_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, head: Head, rows: list[Row]
) -> None:
    file = tmp_path_factory.getbasetemp() / "any-copy"
    assert read(file, dumped(rows, head)) == (head, rows)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_file_and_a_pipe_always_get_the_same_bytes(file: Path, count: int) -> None:
    assert dump_file.write(file, HEAD, ROWS[:count]) == count
    assert file.read_bytes() == dumped(ROWS[:count])
    # Neither its name nor the time is in the head of the compressed file.
    assert file.read_bytes()[3:8] == bytes(5)


def test_a_copy_is_lines_of_json_that_name_what_it_is(file: Path) -> None:
    dump_file.write(file, HEAD, ROWS)
    first, *rows, last = [msgspec.json.decode(line) for line in lines_of(file.read_bytes())]
    assert first == {"what": names.BACKUP, "format": 1, "schema": 2, "store_id": "abc", "change": 7}
    assert rows == [msgspec.to_builtins(row) for row in ROWS]
    assert (set(last), last["rows"]) == ({"rows", "sha256"}, 3)


def test_a_copy_is_readable_only_by_its_owner(file: Path) -> None:
    dump_file.write(file, HEAD, ROWS)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("length", range(0, 400, 7))
def test_nothing_is_read_of_a_truncated_copy(file: Path, length: int) -> None:
    whole = dumped(ROWS)
    torn = whole[: min(length, len(whole) - 1)]
    with pytest.raises(StoreError, match="is not a backup of ours, or a damaged one: "):
        read(file, torn)


Altered = Callable[[list[bytes]], list[bytes]]
ALTERED: dict[str, Altered] = {
    "without its foot": lambda lines: lines[:-1],
    "without a row": lambda lines: [lines[0], *lines[2:]],
    "with a row twice": lambda lines: [*lines[:2], *lines[1:]],
    "rows in another order": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "another value": lambda lines: [line.replace(b"b-1", b"b-9") for line in lines],
    "another store": lambda lines: [line.replace(b"abc", b"xyz") for line in lines],
    "another change": lambda lines: [line.replace(b'"change":7', b'"change":8') for line in lines],
    "another number of rows": lambda lines: [line.replace(b'"rows":3', b'"rows":2') for line in lines],
    "something after its foot": lambda lines: [*lines, b"{}\n"],
    "its foot alone": lambda lines: lines[-1:],
    "its head alone": lambda lines: lines[:1],
    "no line": lambda _: [],
    "no JSON": lambda _: [b"minutes of the meeting\n"],
    "no text": lambda _: [b"\xff\xfe\n"],
}


@pytest.mark.parametrize("alter", ALTERED.values(), ids=ALTERED)
def test_nothing_is_read_of_an_altered_copy(file: Path, alter: Altered) -> None:
    with pytest.raises(StoreError, match="is not a backup of ours, or a damaged one: "):
        read(file, gzip.compress(b"".join(alter(lines_of(dumped(ROWS))))))


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (Head(schema=2, store_id="a", change=1, what="a shopping list"), "is a a shopping list of format 1"),
        (Head(schema=2, store_id="a", change=1, format=2), f"is a {names.BACKUP} of format 2"),
    ],
    ids=["another program's", "a newer format"],
)
def test_a_complete_file_of_another_kind_is_reported(file: Path, head: Head, reason: str) -> None:
    with pytest.raises(StoreError) as error:
        read(file, dumped(ROWS, head))
    assert str(error.value) == f"{file} {reason}, and 1 can be read."


def test_a_file_of_another_schema_can_be_read(file: Path) -> None:
    head, rows = read(file, dumped(ROWS, Head(schema=99, store_id="a", change=1)))
    assert (head.schema, rows) == (99, ROWS)


@pytest.mark.parametrize("kind", ["missing", "folder"])
def test_a_path_that_is_not_a_file_is_reported(tmp_path: Path, kind: str) -> None:
    file = tmp_path if kind == "folder" else tmp_path / "nothing"
    with pytest.raises(StoreError, match="is not a backup of ours, or a damaged one") as error:
        dump_file.read(file)
    assert str(file) in str(error.value)


def test_an_existing_file_is_not_overwritten(file: Path) -> None:
    file.write_bytes(b"dear")
    with pytest.raises(StoreError) as error:
        dump_file.write(file, HEAD, ROWS)
    assert str(error.value) == f"{file} is there already: name a file that is not."
    assert file.read_bytes() == b"dear"


def test_the_remains_of_an_interrupted_copy_are_replaced(file: Path) -> None:
    file.with_name("copy.part").write_bytes(b"half of it")
    assert dump_file.write(file, HEAD, ROWS) == 3
    assert [each.name for each in file.parent.iterdir()] == ["copy"]


def test_no_file_is_left_when_the_rows_cannot_be_read_to_the_end(file: Path) -> None:
    def rows() -> Iterator[Row]:
        yield ROWS[0]
        raise StoreError("The database is gone.")

    with pytest.raises(StoreError, match="is gone"):
        dump_file.write(file, HEAD, rows())
    assert list(file.parent.iterdir()) == []


def test_a_missing_folder_is_reported_in_a_message(tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "copy"
    with pytest.raises(StoreError) as error:
        dump_file.write(file, HEAD, ROWS)
    assert str(error.value) == f"The backup {file} cannot be written: No such file or directory."


class Full(io.BytesIO):
    """A disk on which there is no room left."""

    def write(self, _: Any) -> int:
        """Refuse."""
        raise OSError(28, "No space left on device")


def test_a_pipe_that_cannot_be_written_to_is_reported_in_a_message() -> None:
    with pytest.raises(StoreError) as error:
        dump_file.write_to(Full(), HEAD, ROWS)
    assert str(error.value) == "The backup cannot be written: No space left on device."
