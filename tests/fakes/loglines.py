"""What must not be in a log of ours: lines that are not a JSON object, secrets, people's addresses."""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

KEYS = {"event", "level", "logger", "time"}
"""Of every line."""
SECRETS = {
    "a token": re.compile(r"\beyJ[\w-]{6,}\.[\w-]+\."),
    "a bearer": re.compile(r"\bBearer [\w-]{8,}"),
    "a private key": re.compile(r"PRIVATE KEY-----"),
    "a password": re.compile(r"\bpass(word|wd)\W{1,4}[^\s\"(,]+", re.IGNORECASE),
    "an address": re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+"),
}


def troubles_in(log: str, known: Collection[str] = ()) -> Iterator[str]:
    """What is wrong with each line of a part's log, with the line.

    Args:
        log: all of it.
        known: secrets that there are; nobody may have written one of them, in whatever form it is.
    """
    for line in filter(None, log.splitlines()):
        read = _read(line)
        if read is None or KEYS - read.keys():
            yield f"not a line of ours: {line}"
        yield from (f"{what}: {line}" for what, pattern in SECRETS.items() if pattern.search(line))
        yield from (f"a secret that somebody has: {line}" for secret in known if secret in line)


def _read(line: str) -> dict[str, Any] | None:
    try:
        read = json.loads(line)
    except ValueError:
        return None
    return read if isinstance(read, dict) else None
