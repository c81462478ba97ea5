"""HTTP/1.1 without a library, for requests and answers of a few hundred bytes on a connection that stays.

urllib3 and ``http.client`` take half a millisecond for each, most of it for headers that nobody reads.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from urllib3.exceptions import ProtocolError

LONGEST_HEAD_BYTES: Final = 64 * 1024
LONGEST_BODY_BYTES: Final = 16 * 2**20
RECEIVED_AT_ONCE: Final = 16 * 1024
_END: Final = b"\r\n"
_DIGITS: Final = {10: re.compile("[0-9]{1,20}"), 16: re.compile("[0-9a-fA-F]{1,16} *")}
_CODE: Final = re.compile("[1-5][0-9]{2}")

Receive = Callable[[int], bytes]
"""``(at most so many bytes)`` -> some; empty where the other side has closed the connection."""


@dataclass(frozen=True, slots=True)
class BriefAnswer:
    """An answer that has been read whole."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case; of several with one name the last."""
    body: bytes
    stays: bool
    """Whether its connection can take another request."""


def request_bytes(verb: str, target: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """A request as it is sent.

    Raises:
        ProtocolError: the target or a header has characters that would end it.
    """
    lines = [f"{name}: {value}" for name, value in headers.items()]
    if " " in target or not all(text.isprintable() and text.isascii() for text in (target, *lines)):
        raise ProtocolError("the request has characters that HTTP cannot send")
    head = "\r\n".join((f"{verb} {target} HTTP/1.1", *lines, f"Content-Length: {len(body)}", "", ""))
    return head.encode("ascii") + body


def read_answer(receive: Receive) -> BriefAnswer:
    """Read one answer, to its end and no further.

    Raises:
        ProtocolError: it ends too early, is too long, or is no HTTP/1.1.
        OSError: from ``receive``.
    """
    reader = _Reader(receive)
    head = reader.to_the_end_of_the_head()
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    code = rest.partition(" ")[0]
    if not version.startswith("HTTP/1.") or not _CODE.fullmatch(code):
        raise ProtocolError(f"the answer begins with {first[:80]!r}, which is no HTTP/1.1")
    parts = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in parts}
    body, is_delimited = _body(int(code), headers, reader)
    closes = version != "HTTP/1.1" or "close" in headers.get("connection", "").lower()
    return BriefAnswer(int(code), headers, body, stays=is_delimited and not closes and not reader.left)


def _body(status: int, headers: Mapping[str, str], reader: "_Reader") -> tuple[bytes, bool]:
    """The body, and whether anything but the end of the connection says where it ends."""
    if status < HTTPStatus.OK:
        raise ProtocolError(f"the answer is an interim one ({status}), which was not asked for")
    if status in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}:
        return b"", True
    if "transfer-encoding" in headers:
        if headers["transfer-encoding"].lower() != "chunked":
            raise ProtocolError(f"the answer is encoded as {headers['transfer-encoding'][:80]!r}")
        return reader.chunks(), True
    length = headers.get("content-length")
    if length is None:
        return reader.rest(), False
    return reader.exactly(_number(length, base=10)), True


def _number(text: str, *, base: int) -> int:
    if not _DIGITS[base].fullmatch(text):
        raise ProtocolError(f"the answer says {text[:80]!r} where a length should be")
    number = int(text, base)
    if number > LONGEST_BODY_BYTES:
        raise ProtocolError(f"the answer announces {number} bytes")
    return number


class _Reader:
    """What has been received of an answer and not been read yet."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.left = b""

    def _more(self) -> bytes:
        part = self._receive(RECEIVED_AT_ONCE)
        if not part:
            raise ProtocolError("the connection was closed before the end of the answer")
        return part

    def _up_to(self, end: bytes, longest: int) -> bytes:
        while (at := self.left.find(end)) < 0:
            if len(self.left) > longest:
                raise ProtocolError(f"the answer's head or a line of it has more than {longest} bytes")
            self.left += self._more()
        found, self.left = self.left[:at], self.left[at + len(end) :]
        return found

    def to_the_end_of_the_head(self) -> bytes:
        """Status line and headers."""
        return self._up_to(_END + _END, LONGEST_HEAD_BYTES)

    def exactly(self, length: int) -> bytes:
        """So many bytes."""
        parts, missing = [self.left], length - len(self.left)
        while missing > 0:
            parts.append(self._more())
            missing -= len(parts[-1])
        whole = b"".join(parts)
        self.left = whole[length:]
        return whole[:length]

    def chunks(self) -> bytes:
        """A body in chunks."""
        found: list[bytes] = []
        while length := _number(
            self._up_to(_END, LONGEST_HEAD_BYTES).partition(b";")[0].decode("latin-1"), base=16
        ):
            found.append(self.exactly(length))
            if self.exactly(len(_END)) != _END or sum(map(len, found)) > LONGEST_BODY_BYTES:
                raise ProtocolError("a chunk of the answer is not as long as it says, or one too many")
        while self._up_to(_END, LONGEST_HEAD_BYTES):
            continue  # trailers
        return b"".join(found)

    def rest(self) -> bytes:
        """Everything until the other side closes the connection."""
        found = [self.left]
        while found[-1] or len(found) == 1:
            found.append(self._receive(RECEIVED_AT_ONCE))
            if sum(map(len, found)) > LONGEST_BODY_BYTES:
                raise ProtocolError(f"the answer has more than {LONGEST_BODY_BYTES} bytes")
        return b"".join(found)
