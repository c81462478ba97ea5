"""How values are written in JSON answers."""

from typing import Any

import msgspec


def json_text(body: Any) -> bytes:
    """JSON that ends its line: people read it in a terminal."""
    return msgspec.json.encode(body) + b"\n"
