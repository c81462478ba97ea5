"""Encoding of JSON answers."""

from typing import Any

import msgspec


def json_text(body: Any) -> bytes:
    """JSON with a final newline: people read it in a terminal."""
    return msgspec.json.encode(body) + b"\n"
