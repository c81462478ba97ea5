"""Compressed answers (gzip), for clients that accept them."""

import gzip
import io
import secrets
from typing import Final

from flask import Response, request

LEAST: Final = 1024
"""Bytes; a shorter answer is not worth it."""
_LEVEL: Final = 5
_TYPES: Final = frozenset(
    {
        "application/json",
        "application/problem+json",
        "image/svg+xml",
        "text/css",
        "text/html",
        "text/javascript",
    }
)
_MOST_PADDING: Final = 64
"""Letters of the name in gzip's header: a random number of them. A page has secrets, such as the token of its
forms, beside what an address has put there; the length of the compressed page must not tell whether the two
are alike (BREACH)."""


def compressed(answer: Response) -> Response:
    """Compress an answer, if that helps and its reader accepts it; for ``Flask.after_request``."""
    if answer.mimetype not in _TYPES or answer.direct_passthrough or answer.is_streamed:
        return answer
    answer.vary.add("Accept-Encoding")
    # The tag of a booking is one of its version, and is sent back to us as it is.
    is_tagged = "ETag" in answer.headers or "Content-Encoding" in answer.headers
    content = answer.get_data()
    if is_tagged or len(content) < LEAST or request.accept_encodings["gzip"] <= 0:
        return answer
    answer.set_data(_gzip(content))
    answer.headers["Content-Encoding"] = "gzip"
    return answer


def _gzip(content: bytes) -> bytes:
    out = io.BytesIO()
    padding = "x" * (1 + secrets.randbelow(_MOST_PADDING))
    with gzip.GzipFile(filename=padding, mode="wb", fileobj=out, compresslevel=_LEVEL, mtime=0) as file:
        file.write(content)
    return out.getvalue()
