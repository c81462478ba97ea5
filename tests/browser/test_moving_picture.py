"""The moving picture, and those of the doors, can be taken again at any time: they show what the pages do."""

import struct
import zlib
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser import doors, moving_picture
from tests.browser.apng import SIGNATURE, frames, moving


def png(width: int, shade: int) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, 1, 8, 0, 0, 0, 0)
    data = zlib.compress(bytes([0, *[shade] * width]))
    return SIGNATURE + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def test_pictures_become_one_that_moves() -> None:
    made = moving([(png(2, 0), 500), (png(2, 255), 700)])
    assert frames(made) == 2
    assert made.count(b"IDAT") == made.count(b"fdAT") == 1


def test_pictures_of_different_size_are_refused() -> None:
    with pytest.raises(ValueError, match="same size"):
        moving([(png(2, 0), 500), (png(3, 0), 500)])


@pytest.mark.component
def test_the_readmes_picture_can_be_taken(browser: Browser, tmp_path: Path) -> None:
    moving_picture.take(browser, tmp_path, tmp_path / "tour.png")
    assert frames((tmp_path / "tour.png").read_bytes()) == 6


@pytest.mark.component
def test_the_pictures_of_the_doors_can_be_taken(browser: Browser, tmp_path: Path) -> None:
    doors.take(browser, tmp_path, tmp_path)
    assert sorted(path.stem for path in tmp_path.glob("*.png")) == sorted(doors.NAMES)
