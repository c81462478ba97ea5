"""What a shell offers after the tab key is found in a moment, or not at all.

Somebody is in the middle of a line: whatever goes wrong, nothing is written on the terminal.
"""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from click.shell_completion import CompletionItem

EACH_SECONDS: Final = 2.0
"""Seconds for one answer, of a server or of a program that makes credentials."""
_SECONDS: Final = 3.0
"""Seconds for all answers together."""


def found_in_time(find: Callable[[], Iterable[CompletionItem]]) -> list[CompletionItem]:
    """The items found until the deadline, or until something fails.

    Names are resolved, credentials made and servers asked, and not all of that takes a time limit: it runs in
    a thread of its own, which is abandoned at the deadline.

    Args:
        find: yields one item after the other.
    """
    found: list[CompletionItem] = []

    def collect() -> None:
        with suppress(Exception):
            found.extend(find())  # one by one: those count that came in time

    aside = threading.Thread(target=collect, name="completion", daemon=True)
    aside.start()
    aside.join(_SECONDS)
    return [item for item in list(found) if str(item.value).isprintable()]
