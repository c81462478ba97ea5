"""The idempotency key of a form: submitted twice unchanged (a double click) it takes effect once."""

import re
import secrets
from hashlib import sha256
from typing import Final

from flask import request

from booking.server.service.idempotency import Key

FIELD: Final = "once"
"""Name of the hidden field."""
_TOKEN: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def new_token() -> str:
    """A new value for the hidden field, each time that the form is shown."""
    return secrets.token_hex()


def key_of(contents: bytes) -> Key | None:
    """The key of the form in this request; None if its hidden field is missing or is not ours.

    Args:
        contents: everything that was filled in. The same form with other contents is another request.
    """
    token = request.form.get(FIELD, "")
    if not _TOKEN.fullmatch(token):
        return None
    return Key.of(f"page-{token}-{sha256(contents).hexdigest()}", contents)
