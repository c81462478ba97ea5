"""The database's file on disk, and whether it is still the one that was opened (law L9).

Opened once in addition to SQLite and closed last: closing any descriptor of a file drops every POSIX lock
that the process has on it, SQLite's too.
"""

import os
import stat
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

from booking.server.errors import StoreError, StoreGoneError

_PRIVATE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
_MARK: Final = (68, 4)
"""Offset and length of the application id in SQLite's file format."""


@dataclass(eq=False, slots=True)
class DatabaseFile:
    """The file as it was when the database was opened; held open."""

    path: Path
    """Absolute, so that a change of the working directory does not matter."""
    identity: tuple[int, int]
    """Device and inode."""
    descriptor: int
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while the descriptor is used or closed: its number may belong to another file soon after."""
    _is_closed: bool = False

    @property
    def uri(self) -> str:
        """URI for SQLite that opens the file, and never creates it."""
        return f"file:{quote(str(self.path))}?mode=rw"

    def mark(self) -> bytes:
        """The database's identity, read without SQLite, whose log may hide the contents of the file.

        A random application id in its header, written at its creation and never again.

        Raises:
            StoreError: the file was closed.
        """
        offset, length = _MARK
        with self._lock:
            if self._is_closed:
                raise StoreError(f"The booking database {self.path} is closed: the booking server ends.")
            return os.pread(self.descriptor, length, offset)

    def close(self) -> None:
        """Close the file; a thread that still uses it afterwards gets an error."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                os.close(self.descriptor)

    def check(self, mark: bytes) -> None:
        """Check that the path still leads to the same file, with the same database in it.

        Raises:
            StoreGoneError: it does not, or the database is another one.
            StoreError: the file was closed.
        """
        try:
            found = self.path.stat()
        except OSError as error:
            raise StoreGoneError(
                f"The booking database {self.path} is gone ({error.strerror}): bring the file back and "
                "start the booking server again."
            ) from error
        if (found.st_dev, found.st_ino) != self.identity:
            raise StoreGoneError(
                f"The booking database {self.path} was replaced while the booking server had it open: see "
                "that the right file is there and start the booking server again."
            )
        if self.mark() != mark:
            raise overwritten(self.path)


def overwritten(path: Path) -> StoreGoneError:
    """The error for a file that is in its place, but now holds another database."""
    return StoreGoneError(
        f"The booking database {path} was overwritten while the booking server had it open: see that the "
        "right file is there and start the booking server again."
    )


def prepare_file(path: Path) -> DatabaseFile:
    """The file of a database, readable by its owner only; created if it is missing, with its folder.

    Raises:
        StoreError: it cannot be created or made private.
    """
    path = path.absolute()
    try:
        path.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise StoreError(f"The booking database {path} is not a file.")
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _PRIVATE)
        found = os.fstat(descriptor)
        if stat.S_IMODE(found.st_mode) != _PRIVATE:
            os.fchmod(descriptor, _PRIVATE)
    except OSError as error:
        raise StoreError(
            f"The booking database {path} cannot be opened: {error.strerror}. It needs a folder that the "
            "booking server may write."
        ) from error
    return DatabaseFile(path, (found.st_dev, found.st_ino), descriptor)
