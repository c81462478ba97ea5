"""An archive in pieces that are small enough to be carried anyhow: tar, packed by xz, cut by size."""

import hashlib
import io
import lzma
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

LARGEST: Final = 60 * 2**20
"""Bytes of one piece at most."""
PRESET: Final = 2
"""Compression level of xz: six times as fast as the default, for a few MiB more."""


class Pieces(io.RawIOBase):
    """Takes bytes in their order and keeps them in files ``part-00``, ``part-01`` and so on."""

    def __init__(self, folder: Path, largest: int = LARGEST) -> None:
        """Nothing is written yet.

        Args:
            folder: where the files are put; it exists.
            largest: bytes of one file at most.
        """
        self._folder = folder
        self._largest = largest
        self._files: list[Path] = []
        self._room = 0

    @property
    def digests(self) -> dict[str, str]:
        """Name of each file -> the SHA-256 of what is in it."""
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in self._files}

    def writable(self) -> bool:
        """Always: bytes can be written."""
        return True

    def write(self, data: Any) -> int:
        """Append these bytes. Returns how many they are."""
        rest = memoryview(data)
        while rest:
            if not self._room:
                self._files.append(self._folder / f"part-{len(self._files):02}")
                self._room = self._largest
            piece, rest = rest[: self._room], rest[self._room :]
            with self._files[-1].open("ab") as file:
                file.write(piece)
            self._room -= len(piece)
        return len(data)


def write(pieces: Pieces, contents: Mapping[str, Path]) -> None:
    """Pack files and whole folders, without their owners and without compiled Python.

    Args:
        pieces: where to.
        contents: path in the archive -> path of the file.
    """
    with (
        io.BufferedWriter(pieces) as packed,
        lzma.open(packed, "wb", preset=PRESET) as plain,
        tarfile.open(fileobj=plain, mode="w|") as tar,
    ):
        for place, path in sorted(contents.items()):
            tar.add(path, place, filter=_plain)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if "__pycache__" in entry.name.split("/"):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry
