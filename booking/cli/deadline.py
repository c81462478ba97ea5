"""The deadline for completions: what a shell offers after the tab key is found within seconds, or not at all.

The user is in the middle of a line: whatever goes wrong, nothing is written on the terminal.
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from click.shell_completion import CompletionItem

EACH_SECONDS: Final = 2.0
"""Seconds for one answer of a server, or of a program that makes credentials."""
_SECONDS: Final = 3.0
"""Seconds for all answers together."""


def found_in_time(find: Callable[[], Iterable[CompletionItem]]) -> list[CompletionItem]:
    """The items found until the deadline, or until something fails.

    Resolving names, making credentials and calling servers cannot all be given a time limit, so it is done in
    a thread of its own, which is abandoned at the deadline.

    Args:
        find: yields one item after the other.
    """
    found: list[CompletionItem] = []

    def collect() -> None:
        with suppress(Exception):
            found.extend(find())  # one by one: those found in time count

    aside = threading.Thread(target=collect, name="completion", daemon=True)
    aside.start()
    aside.join(_SECONDS)
    return [item for item in list(found) if str(item.value).isprintable()]
