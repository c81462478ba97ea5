"""``Idempotency-Key``: a repeated request is answered as before and takes effect once."""

import re
from typing import Any, Final

from flask import request

from booking.server.service import Key
from booking.server.web.problems import MALFORMED, ProblemError
from booking.server.web.rest.routes import ReadRequest

KEY: Final = "Idempotency-Key"
LONGEST_KEY: Final = 200
"""Characters of a key at most."""
KEYS: Final = rf"[!-~]{{1,{LONGEST_KEY}}}"
"""Pattern of the header's value."""


def key_of(call: ReadRequest[Any, Any]) -> Key | None:
    """The request's key, with a digest of everything in the request.

    Raises:
        ProblemError: 400, the header is malformed.
    """
    text = call.headers.get(KEY)
    if text is None:
        return None
    if not re.fullmatch(KEYS, text):
        message = f"{KEY} is 1 to {LONGEST_KEY} letters, digits and signs of ASCII, without spaces."
        raise ProblemError(MALFORMED, f"The header {message}")
    return Key.of(text, request.method.encode(), request.full_path.encode(), call.raw)
