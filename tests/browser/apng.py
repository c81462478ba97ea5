"""One moving picture of several: an APNG (PNG, 3rd edition), which every browser plays."""

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Final

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_MILLISECONDS: Final = 1000


def moving(pictures: Sequence[tuple[bytes, int]]) -> bytes:
    """The pictures one after the other, again and again.

    Args:
        pictures: a PNG of the same size and kind each, and for how many milliseconds it is shown.

    Raises:
        ValueError: they differ in size or kind.
    """
    headers = {_only(picture, b"IHDR") for picture, _ in pictures}
    if len(headers) != 1:
        raise ValueError("All pictures of a moving one have to be of the same size and kind.")
    (header,) = headers
    width, height = struct.unpack(">II", header[:8])
    made = [_chunk(b"IHDR", header), _chunk(b"acTL", struct.pack(">II", len(pictures), 0))]
    number = 0
    for index, (picture, shown) in enumerate(pictures):
        control = struct.pack(">IIIIIHHBB", number, width, height, 0, 0, shown, _MILLISECONDS, 0, 0)
        made.append(_chunk(b"fcTL", control))
        number += 1
        data = b"".join(content for kind, content in _chunks(picture) if kind == b"IDAT")
        if index == 0:
            made.append(_chunk(b"IDAT", data))
        else:
            made.append(_chunk(b"fdAT", struct.pack(">I", number) + data))
            number += 1
    return b"".join([SIGNATURE, *made, _chunk(b"IEND", b"")])


def _chunks(picture: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Kind and content of each chunk of a PNG."""
    at = len(SIGNATURE)
    while at < len(picture):
        length, kind = struct.unpack(">I4s", picture[at : at + 8])
        yield kind, picture[at + 8 : at + 8 + length]
        at += 12 + length


def _only(picture: bytes, kind: bytes) -> bytes:
    (found,) = (content for each, content in _chunks(picture) if each == kind)
    return found


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
