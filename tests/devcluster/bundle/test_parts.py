"""The archive in pieces, which the script on the other machine puts together again."""

import hashlib
import os
from pathlib import Path

import pytest

from devcluster.bundle import run
from devcluster.bundle.parts import Pieces, write

LARGEST = 5000


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Pieces]:
    """A program, a link to it, something that cannot be packed small, and what Python compiled."""
    source, out = tmp_path / "source", tmp_path / "out"
    (source / "__pycache__").mkdir(parents=True)
    (source / "__pycache__/program.pyc").write_text("of another machine")
    (source / "program").write_text("#!/bin/sh\n")
    (source / "program").chmod(0o755)
    (source / "link").symlink_to("program")
    (source / "noise").write_bytes(os.urandom(3 * LARGEST))
    out.mkdir()
    pieces = Pieces(out, LARGEST)
    write(pieces, {"in/side": source, "alone": source / "program"})
    monkeypatch.chdir(out)
    return out, pieces


def manifest(pieces: Pieces) -> dict[str, object]:
    return {"parts": pieces.digests}


def test_no_piece_is_larger_than_allowed_and_all_but_the_last_are_full(packed: tuple[Path, Pieces]) -> None:
    out, pieces = packed
    sizes = [file.stat().st_size for file in sorted(out.iterdir())]
    assert len(sizes) > 3
    assert sizes[:-1] == [LARGEST] * (len(sizes) - 1)
    assert sizes[-1] <= LARGEST
    assert pieces.digests == {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in out.iterdir()
    }


def test_unpacking_restores_what_was_packed(packed: tuple[Path, Pieces], tmp_path: Path) -> None:
    out, pieces = packed
    again = tmp_path / "again"
    run.unpack(manifest(pieces), again, out)
    assert (again / "in/side/noise").read_bytes() == (tmp_path / "source/noise").read_bytes()
    assert os.access(again / "alone", os.X_OK)
    assert (again / "in/side/link").readlink() == Path("program")
    assert not list(again.rglob("__pycache__"))
