"""The file of a copy: JSON, one row per line, compressed, with a digest at its end."""

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from booking.server.errors import StoreError
from cluster import names

WHAT: Final = names.BACKUP
FORMAT: Final = 1
_PRIVATE: Final = 0o600
_READ: Final = (OSError, EOFError, zlib.error, msgspec.MsgspecError, UnicodeDecodeError)


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a copy."""

    what: str = WHAT
    format: int = FORMAT
    schema: int
    store_id: str
    change: int


class Row(msgspec.Struct, frozen=True):
    """One row of a table, by the names of its columns."""

    table: str
    values: dict[str, Any]


class _Foot(msgspec.Struct, frozen=True):
    """The last line: a copy without it is truncated."""

    rows: int
    sha256: str


def write(file: Path, head: Head, rows: Iterable[Row]) -> int:
    """Write a copy; returns its row count. The file appears complete or not at all, for its owner only.

    Raises:
        StoreError: it cannot be written, or exists already.
    """
    if file.exists():
        raise StoreError(f"{file} is there already: name a file that is not.")
    part = file.with_name(f"{file.name}.part")
    try:
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE), "wb") as raw:
            number = _write(raw, head, rows)
            raw.flush()
            os.fsync(raw.fileno())
        part.rename(file)
    except OSError as error:
        raise StoreError(f"The backup {file} cannot be written: {error.strerror}.") from error
    finally:
        part.unlink(missing_ok=True)
    return number


def write_to(out: BinaryIO, head: Head, rows: Iterable[Row]) -> int:
    """Write a copy to an open file, such as a pipe; returns its row count. On failure it is truncated.

    Raises:
        StoreError: it cannot be written.
    """
    try:
        number = _write(out, head, rows)
        out.flush()
    except OSError as error:
        raise StoreError(f"The backup cannot be written: {error.strerror}.") from error
    return number


def read(file: Path) -> tuple[Head, Iterator[Row]]:
    """A copy's head and its rows, after the whole copy has been checked.

    Raises:
        StoreError: it cannot be read, is torn, or is not a copy of ours.
    """
    try:
        head = _checked(file)
    except _READ as error:
        raise StoreError(f"{file} is not a backup of ours, or a damaged one: {error}.") from error
    if head.what != WHAT or head.format != FORMAT:
        raise StoreError(f"{file} is a {head.what} of format {head.format}, and {FORMAT} can be read.")
    return head, _rows(file)


def _write(raw: BinaryIO, head: Head, rows: Iterable[Row]) -> int:
    digest, number = hashlib.sha256(), 0
    with gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as out:
        for line in (msgspec.json.encode(each) + b"\n" for each in chain((head,), rows)):
            out.write(line)
            digest.update(line)
            number += 1
        out.write(msgspec.json.encode(_Foot(number - 1, digest.hexdigest())) + b"\n")
    return number - 1


def _checked(file: Path) -> Head:
    digest, number, last = hashlib.sha256(), -1, b""
    with gzip.open(file) as lines:
        first = lines.readline()
        last = first
        for line in lines:
            digest.update(last)
            number += 1
            last = line
    if msgspec.json.decode(last, type=_Foot) != _Foot(number, digest.hexdigest()):
        raise EOFError("its digest differs")
    return msgspec.json.decode(first, type=Head)


def _rows(file: Path) -> Iterator[Row]:
    with gzip.open(file) as lines:
        lines.readline()
        held: bytes | None = None
        for line in lines:
            if held is not None:
                yield msgspec.json.decode(held, type=Row)
            held = line
